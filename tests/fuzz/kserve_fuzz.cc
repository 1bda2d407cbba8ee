// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/kserve_fuzz.h"

#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <cstdlib>

#include "base/field_error.h"
#include "server/api/kserve/infer_codec.h"

namespace rnnserve {
namespace {

void Check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

template <typename Message>
bool Parse(std::string_view bytes, Message& message) {
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void CheckRefusal(const absl::Status& status) {
  Check(status.code() == absl::StatusCode::kInvalidArgument, "a refusal of another code");
  Check(FieldOf(status).has_value(), "a refusal without a field");
  Check(status.message().size() < 4096, "a refusal repeats what was sent");
}

}  // namespace

void FuzzKserve(std::string_view bytes) {
  const google::protobuf::LogSilencer silent;
  inference::ModelInferRequest infer;
  if (Parse(bytes, infer)) {
    const absl::StatusOr<kserve::InferRequest> decoded = kserve::DecodeInfer(infer);
    if (!decoded.ok()) {
      CheckRefusal(decoded.status());
    } else {
      for (const NamedTensor& input : decoded->call.inputs) {
        const std::optional<int64_t> size = NumBytes(input.tensor.type, input.tensor.shape);
        Check(size == static_cast<int64_t>(input.tensor.data.size()), "a tensor of another size than its shape");
      }
      Check(!decoded->sequence || !decoded->sequence->id.empty(), "a sequence without an id");
      Check(decoded->call.priority <= 0 && decoded->call.priority >= -100, "a priority that the core has not");
      inference::ModelInferResponse response;
      kserve::EncodeHead(infer, 1, response);
    }
  }
  inference::RepositoryModelLoadRequest load;
  if (Parse(bytes, load)) {
    const absl::StatusOr<v1::LoadRequest> decoded = kserve::DecodeLoad(load);
    if (!decoded.ok()) {
      CheckRefusal(decoded.status());
    } else {
      Check(decoded->repository() != decoded->has_onnx_file(), "a load from two places, or none");
    }
  }
}

}  // namespace rnnserve
