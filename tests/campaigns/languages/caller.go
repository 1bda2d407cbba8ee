// SPDX-License-Identifier: Apache-2.0
// A caller in Go: one unary call and one session over a stream, of a cell that remembers what it is fed.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	pb "github.com/rnnserve/rnnserve/proto/rnnserve/v1"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connection, err := grpc.DialContext(ctx, os.Args[1], grpc.WithInsecure(), grpc.WithBlock())
	check(err)
	operator, weights := remembering()
	recurrent, sessions := pb.NewRecurrentClient(connection), pb.NewSessionsClient(connection)

	reply, err := recurrent.Infer(ctx, &pb.InferRequest{
		Target: &pb.InferRequest_Operator{Operator: operator}, Inputs: append(weights, steps(1, 2, 3))})
	check(err)
	fmt.Println("unary", floats(reply.Outputs, "Y_h"))

	opened, err := sessions.Open(ctx, &pb.OpenRequest{
		Target: &pb.OpenRequest_Operator{Operator: operator}, Weights: weights, Outputs: []string{"Y_h"}})
	check(err)
	stream, err := recurrent.Stream(ctx)
	check(err)
	for number, chunk := range []*pb.Tensor{steps(1), steps(2, 3)} {
		check(stream.Send(&pb.StreamRequest{Operations: []*pb.Operation{{Session: opened.Session, Number: proto.Uint64(uint64(number + 1)),
			Kind: &pb.Operation_Chunk{Chunk: &pb.Chunk{Inputs: []*pb.Tensor{chunk}}}}}}))
		answer, err := stream.Recv()
		check(err)
		fmt.Println("session", answer.Replies[0].Status.GetCode(), floats(answer.Replies[0].Outputs, "Y_h"))
	}
	check(stream.CloseSend())
}
