// SPDX-License-Identifier: Apache-2.0
// A caller in Go of a server whose connections have an age: unary calls in loops, and a session over one stream after
// the other, each until the server hands it over. No unary call may fail; a stream ends with UNAVAILABLE and nothing of
// it is lost or done twice.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	pb "github.com/rnnserve/rnnserve/proto/rnnserve/v1"
)

const handovers, callers = 3, 4

// Feeds number after number over one stream until it ends; what has no answer is sent again over the next one. Returns
// the last number that was answered.
func feed(ctx context.Context, recurrent pb.RecurrentClient, session string, last int) int {
	stream, err := recurrent.Stream(ctx)
	check(err)
	for {
		number := last + 1
		err := stream.Send(&pb.StreamRequest{Operations: []*pb.Operation{{Session: session, Number: proto.Uint64(uint64(number)),
			Kind: &pb.Operation_Chunk{Chunk: &pb.Chunk{Inputs: []*pb.Tensor{steps(float32(number))}}}}}})
		if err != nil && err != io.EOF { // Recv tells why it has ended
			check(err)
		}
		answer, err := stream.Recv()
		if err != nil {
			if status.Code(err) != codes.Unavailable {
				check(err)
			}
			return last
		}
		for _, reply := range answer.Replies { // a message may tell of the drain alone
			if reply.Status.GetCode() != 0 {
				check(fmt.Errorf("operation %d: %v", number, reply.Status))
			}
			for k, seen := range floats(reply.Outputs, "Y_h") {
				if want := number - k; want > 0 && seen != float32(want) {
					check(fmt.Errorf("after %d: %v", number, floats(reply.Outputs, "Y_h")))
				}
			}
			last = number
		}
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	connection, err := grpc.DialContext(ctx, os.Args[1], grpc.WithInsecure(), grpc.WithBlock())
	check(err)
	operator, weights := remembering()
	recurrent, sessions := pb.NewRecurrentClient(connection), pb.NewSessionsClient(connection)

	var calls, failed int64
	for k := 0; k < callers; k++ {
		go func() {
			for {
				_, err := recurrent.Infer(ctx, &pb.InferRequest{Target: &pb.InferRequest_Operator{Operator: operator},
					Inputs: append(append([]*pb.Tensor{}, weights...), steps(1, 2, 3))})
				if err != nil {
					fmt.Fprintln(os.Stderr, "unary:", err)
					atomic.AddInt64(&failed, 1)
				}
				atomic.AddInt64(&calls, 1)
			}
		}()
	}
	opened, err := sessions.Open(ctx, &pb.OpenRequest{
		Target: &pb.OpenRequest_Operator{Operator: operator}, Weights: weights, Outputs: []string{"Y_h"}})
	check(err)
	last := 0
	for k := 0; k < handovers; k++ {
		next := feed(ctx, recurrent, opened.Session, last)
		if next == last {
			check(fmt.Errorf("stream %d answered nothing", k))
		}
		last = next
	}
	fmt.Println("unary", atomic.LoadInt64(&calls), "failed", atomic.LoadInt64(&failed), "streams", handovers, "chunks", last)
}
