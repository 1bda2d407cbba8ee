// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/writing.h"

namespace rnnserve {

void Describe(const TensorSignature& signature, onnx::ValueInfoProto& info) {
  info.set_name(signature.name);
  onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int32_t>(signature.type));
  type.mutable_shape();
  for (const int64_t size : signature.shape) {
    onnx::TensorShapeProto::Dimension& dimension = *type.mutable_shape()->add_dim();
    if (size == kDimT) {
      dimension.set_dim_param("T");
    } else if (size == kDimN) {
      dimension.set_dim_param("N");
    } else {
      dimension.set_dim_value(size);
    }
  }
}

void Store(const NamedTensor& weight, onnx::TensorProto& tensor) {
  tensor.set_name(weight.name);
  tensor.set_data_type(static_cast<int32_t>(weight.tensor.type));
  for (const int64_t size : weight.tensor.shape) tensor.add_dims(size);
  tensor.set_raw_data(weight.tensor.data.data(), weight.tensor.data.size());
}

}  // namespace rnnserve
