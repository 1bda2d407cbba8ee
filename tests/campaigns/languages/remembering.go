// SPDX-License-Identifier: Apache-2.0
// A cell that remembers what it is fed, and tensors as the API wants them.
package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"

	"google.golang.org/protobuf/proto"
	pb "github.com/rnnserve/rnnserve/proto/rnnserve/v1"
)

const hidden = 4

func tensor(name string, shape []int64, values ...float32) *pb.Tensor {
	raw := make([]byte, 4*len(values))
	for k, value := range values {
		binary.LittleEndian.PutUint32(raw[4*k:], math.Float32bits(value))
	}
	return &pb.Tensor{Name: name, DataType: pb.DataType_FLOAT, Shape: shape, Raw: raw}
}

func floats(tensors []*pb.Tensor, name string) []float32 {
	for _, one := range tensors {
		if one.Name != name {
			continue
		}
		values := make([]float32, len(one.Raw)/4)
		for k := range values {
			values[k] = math.Float32frombits(binary.LittleEndian.Uint32(one.Raw[4*k:]))
		}
		return values
	}
	panic("no " + name)
}

// X of one row.
func steps(values ...float32) *pb.Tensor {
	return tensor("X", []int64{int64(len(values)), 1, 1}, values...)
}

// The state is the last inputs, the newest first: W writes x into slot 0, R moves every slot on by one.
func remembering() (*pb.Operator, []*pb.Tensor) {
	w, r := make([]float32, hidden), make([]float32, hidden*hidden)
	w[0] = 1
	for k := 1; k < hidden; k++ {
		r[k*hidden+k-1] = 1
	}
	number := func(value float32) *pb.Attribute {
		return &pb.Attribute{Value: &pb.Attribute_Floats_{Floats: &pb.Attribute_Floats{Values: []float32{value}}}}
	}
	operator := &pb.Operator{OpType: "RNN", Version: proto.Int64(14), Attributes: map[string]*pb.Attribute{
		"hidden_size":      {Value: &pb.Attribute_I{I: hidden}},
		"activations":      {Value: &pb.Attribute_Strings_{Strings: &pb.Attribute_Strings{Values: []string{"Affine"}}}},
		"activation_alpha": number(1),
		"activation_beta":  number(0),
	}}
	return operator, []*pb.Tensor{
		tensor("W", []int64{1, hidden, 1}, w...), tensor("R", []int64{1, hidden, hidden}, r...)}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
