// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/products.h"

#include "engine/cuda/error.h"

namespace rnnserve::cuda {
namespace {

// What cuBLAS recommends for Hopper.
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
// Ragged batches have many shapes. A kilobyte each.
constexpr size_t kMostPlans = 4096;
constexpr uint32_t kMostAlignment = 256;

class Preference {
 public:
  Preference() { Check(cublasLtMatmulPreferenceInit(&opaque_), "cublasLtMatmulPreferenceInit"); }
  template <typename T>
  void Set(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    Check(cublasLtMatmulPreferenceSetAttribute(&opaque_, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  cublasLtMatmulPreference_t get() { return &opaque_; }

 private:
  cublasLtMatmulPreferenceOpaque_t opaque_;
};

uint64_t Unsigned(int64_t size) { return static_cast<uint64_t>(size); }

}  // namespace

uint32_t AlignmentOf(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | kMostAlignment;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

Products::Products(Device& device, cudaStream_t stream) : stream_(stream), workspace_(device, kWorkspaceBytes) {
  Check(cublasLtCreate(&handle_), "creating a cuBLASLt handle");
}

Products::~Products() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

// cuBLASLt thinks in columns: there, `out` is [width, rows], `weights` [inner, width] to be transposed, `in` [inner,
// rows].
Products::Plan& Products::PlanOf(const Key& key) {
  if (const auto found = plans_.find(key); found != plans_.end()) return *found->second;
  const ProductShape& shape = key.shape;
  const cudaDataType_t type = shape.is_double ? CUDA_R_64F : CUDA_R_32F;
  const cublasComputeType_t compute = shape.is_double ? CUBLAS_COMPUTE_64F
                                      : shape.tf32    ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                      : CUBLAS_COMPUTE_32F;
  auto plan = std::make_unique<Plan>();
  Check(cublasLtMatmulDescInit(&plan->operation, compute, type), "cublasLtMatmulDescInit");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  Check(cublasLtMatmulDescSetAttribute(&plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        "cublasLtMatmulDescSetAttribute");
  const uint64_t rows = Unsigned(shape.rows), width = Unsigned(shape.width), inner = Unsigned(shape.inner);
  Check(cublasLtMatrixLayoutInit(&plan->weights, type, inner, width, shape.inner), "cublasLtMatrixLayoutInit");
  Check(cublasLtMatrixLayoutInit(&plan->in, type, inner, rows, shape.inner), "cublasLtMatrixLayoutInit");
  Check(cublasLtMatrixLayoutInit(&plan->out, type, width, rows, shape.out_stride), "cublasLtMatrixLayoutInit");

  Preference preference;
  preference.Set<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  preference.Set<uint32_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.weights_alignment);
  preference.Set<uint32_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.in_alignment);
  preference.Set<uint32_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.out_alignment);
  preference.Set<uint32_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out_alignment);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  Check(cublasLtMatmulAlgoGetHeuristic(handle_, &plan->operation, &plan->weights, &plan->in, &plan->out, &plan->out,
                                       preference.get(), 1, &result, &found),
        "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0) throw Error(RNNSERVE_INTERNAL, "cublasLtMatmulAlgoGetHeuristic: found no algorithm");
  Check(result.state, "cublasLtMatmulAlgoGetHeuristic");
  plan->algorithm = result.algo;
  plan->workspace = result.workspaceSize;

  if (plans_.size() >= kMostPlans) plans_.clear();
  return *plans_.emplace(key, std::move(plan)).first->second;
}

void Products::Run(const ProductShape& shape, const void* weights, const void* in, void* out) {
  Plan& plan = PlanOf({shape, AlignmentOf(weights), AlignmentOf(in), AlignmentOf(out)});
  // cuBLASLt reads the factors in the operation's scale type.
  const float one = 1, beta = shape.adds ? 1 : 0;
  const double double_one = 1, double_beta = beta;
  Check(
      cublasLtMatmul(handle_, &plan.operation, shape.is_double ? static_cast<const void*>(&double_one) : &one, weights,
                     &plan.weights, in, &plan.in, shape.is_double ? static_cast<const void*>(&double_beta) : &beta, out,
                     &plan.out, out, &plan.out, &plan.algorithm, workspace_.data(), plan.workspace, stream_),
      "cublasLtMatmul");
}

}  // namespace rnnserve::cuda
