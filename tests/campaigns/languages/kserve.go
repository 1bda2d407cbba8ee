// SPDX-License-Identifier: Apache-2.0
// A caller of the Open Inference Protocol in Go: what is loaded, a whole run, a sequence that begins by a unary call and
// ends on a stream, and the code of an error. The model is a cell that remembers what it is fed.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	pb "github.com/rnnserve/rnnserve/proto/inference"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func request(values ...float32) *pb.ModelInferRequest {
	raw := make([]byte, 4*len(values))
	for k, value := range values {
		binary.LittleEndian.PutUint32(raw[4*k:], math.Float32bits(value))
	}
	return &pb.ModelInferRequest{ModelName: "remembering", RawInputContents: [][]byte{raw},
		Inputs:  []*pb.ModelInferRequest_InferInputTensor{{Name: "X", Datatype: "FP32", Shape: []int64{int64(len(values)), 1, 1}}},
		Outputs: []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "Y_h"}}}
}

func step(start, end bool, values ...float32) *pb.ModelInferRequest {
	made := request(values...)
	made.Parameters = map[string]*pb.InferParameter{
		"sequence_id":    {ParameterChoice: &pb.InferParameter_StringParam{StringParam: os.Args[2]}},
		"sequence_start": {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: start}},
		"sequence_end":   {ParameterChoice: &pb.InferParameter_BoolParam{BoolParam: end}}}
	return made
}

func state(reply *pb.ModelInferResponse) []float32 {
	raw := reply.RawOutputContents[0]
	found := make([]float32, len(raw)/4)
	for k := range found {
		found[k] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:]))
	}
	return found
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := grpc.DialContext(ctx, os.Args[1], grpc.WithInsecure(), grpc.WithBlock())
	check(err)
	client := pb.NewGRPCInferenceServiceClient(connection)
	index, err := client.RepositoryIndex(ctx, &pb.RepositoryIndexRequest{})
	check(err)
	for _, model := range index.Models {
		fmt.Println("model", model.Name, model.State)
	}
	reply, err := client.ModelInfer(ctx, request(1, 2, 3))
	check(err)
	fmt.Println("unary", state(reply))

	reply, err = client.ModelInfer(ctx, step(true, false, 1))
	check(err)
	fmt.Println("sequence", state(reply))
	stream, err := client.ModelStreamInfer(ctx)
	check(err)
	check(stream.Send(step(false, true, 2, 3)))
	answer, err := stream.Recv()
	check(err)
	fmt.Println("sequence", state(answer.InferResponse))
	check(stream.CloseSend())
	_, err = client.ModelInfer(ctx, step(false, false, 1))
	fmt.Println("ended", int(status.Code(err)))
}
