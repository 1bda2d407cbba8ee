// SPDX-License-Identifier: Apache-2.0
// Between the client's plain types and rnnserve.v1. Inside the library only: it names protobuf.
#pragma once

#include "absl/status/statusor.h"
#include "client/cpp/types.h"
#include "rnnserve/v1/models.pb.h"
#include "rnnserve/v1/recurrent.pb.h"

namespace rnnserve::client {

void Encode(const Tensor& tensor, v1::Tensor& wire);
void Encode(const OperatorDef& op, v1::Operator& wire);
void Encode(const ModelRef& model, v1::ModelRef& wire);
void Encode(const Options& options, v1::Options& wire);
v1::InferRequest EncodeInfer(const Target& target, const std::vector<Tensor>& inputs, const InferOptions& options);
v1::LoadRequest EncodeLoad(const LoadRequest& request);
// The first message of an upload, of a request whose source is a file.
v1::UploadRequest EncodeUpload(const LoadRequest& request);

// Replies come from outside: a tensor whose bytes disagree with its shape is refused, not believed. Takes the bytes.
absl::StatusOr<Tensor> DecodeTensor(v1::Tensor& wire);
absl::StatusOr<std::vector<Tensor>> DecodeTensors(google::protobuf::RepeatedPtrField<v1::Tensor>& wire);
std::chrono::nanoseconds DecodeDuration(const google::protobuf::Duration& wire);
absl::StatusOr<InferResult> DecodeInfer(v1::InferResponse& wire);
absl::StatusOr<ModelInfo> DecodeModel(const v1::ModelInfo& wire);
absl::StatusOr<ModelList> DecodeList(const v1::ListModelsResponse& wire);
OperatorDef DecodeOperator(const v1::Operator& wire);

}  // namespace rnnserve::client
