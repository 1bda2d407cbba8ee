// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/requests.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/codec.h"
#include "client/rnnctl/bench/sessions/messages.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl::bench {
namespace {

using client::Tensor;

// Several contents, so that rows mixed up in a batch show in --check; several lengths of a range.
constexpr int64_t kContents = 8;
constexpr int64_t kLengths = 64;
// Of one entry's bodies, as far as more than one is concerned; and of all.
constexpr int64_t kEntryBytes = int64_t{64} << 20;
constexpr int64_t kAllBytes = int64_t{512} << 20;

struct Random {
  std::mt19937_64 bits;

  absl::StatusOr<Tensor> Floats(const std::string& name, Shape shape, double bound, DataType type) {
    const int64_t count = NumElements(shape).value_or(0);
    std::uniform_real_distribution<float> value(static_cast<float>(-bound), static_cast<float>(bound));
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = value(bits);
    Tensor tensor = client::MakeTensor(name, std::move(shape), std::span<const float>(values));
    if (type == DataType::kFloat) return tensor;
    return client::ConvertTensor(std::move(tensor), type);
  }
};

absl::Status TooLarge(const std::string& what, int64_t bytes) {
  return UsageError(absl::StrCat(what, " takes ", bytes >> 20, " MiB, and all requests together may take ",
                                 kAllBytes >> 20, " MiB; ask for fewer steps, rows or units"));
}

OperatorDef OperatorOf(const MixEntry& entry) {
  OperatorDef op;
  op.op_type = entry.op;
  op.opset = entry.opset;
  op.attributes = entry.attributes;
  return op;
}

// Uniform within 1 / sqrt(hidden), as frameworks initialise them: activations stay where they are neither 0 nor 1.
absl::StatusOr<std::vector<Tensor>> Weights(const MixEntry& entry, DataType type, Random& random) {
  const int64_t gates = entry.op == "LSTM" ? 4 : entry.op == "GRU" ? 3 : 1;
  const auto direction = entry.attributes.find("direction");
  const bool both = direction != entry.attributes.end() && direction->second == AttributeValue("bidirectional");
  const int64_t directions = both ? 2 : 1;
  const int64_t hidden = entry.hidden;
  const int64_t bytes = directions * gates * hidden * (entry.input + hidden + 2) * static_cast<int64_t>(sizeof(float));
  if (bytes > kAllBytes) return TooLarge("weights of hidden and input size", bytes);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  std::vector<Tensor> weights;
  const std::pair<const char*, Shape> shapes[] = {{"W", {directions, gates * hidden, entry.input}},
                                                  {"R", {directions, gates * hidden, hidden}},
                                                  {"B", {directions, 2 * gates * hidden}}};
  for (const auto& [name, shape] : shapes) {
    ASSIGN_OR_RETURN(Tensor tensor, random.Floats(name, shape, bound, type));
    weights.push_back(std::move(tensor));
  }
  return weights;
}

// What one entry sends: a target, tensors that every request carries, and those that differ.
struct Form {
  client::Target target;
  std::vector<Tensor> fixed;
  std::vector<client::TensorSpec> varied;  // T and N stand for steps and rows
};

absl::StatusOr<Shape> ShapeOf(const client::TensorSpec& spec, int64_t steps, int64_t rows, const std::string& model) {
  Shape shape;
  for (const std::string& dim : spec.shape) {
    int64_t size = 0;
    if (dim == "T" || dim == "N") {
      size = dim == "T" ? steps : rows;
    } else if (!absl::SimpleAtoi(dim, &size) || size < 0) {
      return absl::UnimplementedError(
          absl::StrCat("input ", spec.name, " of ", model, " has the dimension ", dim, "; bench knows T and N only"));
    }
    shape.push_back(size);
  }
  const std::optional<int64_t> bytes = NumBytes(spec.type, shape);
  if (!bytes || *bytes > kAllBytes) return TooLarge(absl::StrCat("input ", spec.name), bytes.value_or(INT64_MAX));
  return shape;
}

absl::StatusOr<std::vector<Tensor>> DataOf(const Form& form, int64_t steps, int64_t rows, Random& random) {
  std::vector<Tensor> tensors = form.fixed;
  for (const client::TensorSpec& spec : form.varied) {
    ASSIGN_OR_RETURN(Shape shape, ShapeOf(spec, steps, rows, "the model"));
    const auto count = static_cast<size_t>(NumElements(shape).value_or(0));
    if (spec.type == DataType::kInt32) {  // lengths: every row is as long as it can be
      tensors.push_back(client::MakeTensor(spec.name, shape, std::vector<int32_t>(count, static_cast<int32_t>(steps))));
    } else if (spec.type == DataType::kInt64) {
      tensors.push_back(client::MakeTensor(spec.name, shape, std::vector<int64_t>(count, steps)));
    } else {
      ASSIGN_OR_RETURN(Tensor tensor, random.Floats(spec.name, shape, 1, spec.type));
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

absl::StatusOr<Form> FormOfModel(const client::ModelRef& model, client::Client& client) {
  ASSIGN_OR_RETURN(const client::ModelInfo info, client.Get(model));
  Form form = {model, {}, {}};
  for (const client::TensorSpec& input : info.inputs) {
    if (!input.optional) form.varied.push_back(input);
  }
  return form;
}

absl::StatusOr<Form> FormOfOperator(const MixEntry& entry, const Plan& plan, client::Client* client, Random& random) {
  absl::StatusOr<DataType> type = DataType::kFloat;
  if (plan.cast) type = CastType(*plan.cast);
  if (!type.ok()) return type.status();
  ASSIGN_OR_RETURN(std::vector<Tensor> weights, Weights(entry, *type, random));
  Form form = {OperatorOf(entry), std::move(weights), {{"X", *type, {"T", "N", absl::StrCat(entry.input)}, false}}};
  if (client != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> data, DataOf(form, entry.min_steps, entry.rows, random));
    ASSIGN_OR_RETURN(const client::InferResult result, client->Infer(form.target, data, plan.options));
    if (plan.always_inline) return form;
    form.target = client::Fingerprint{result.fingerprint};
  } else {
    form.target = client::Fingerprint{std::string(64, '0')};
  }
  form.fixed.clear();
  return form;
}

absl::Status AddBodies(const MixEntry& entry, const Form& form, const Plan& plan, Random& random, Requests& requests) {
  int64_t all = 0;
  for (const std::string& body : requests.bodies) all += static_cast<int64_t>(body.size());
  Requests::Group group = {entry.weight, requests.bodies.size(), 0};
  const bool range = entry.min_steps < entry.max_steps;
  // The longest first tells how many fit.
  int64_t count = range ? kLengths : kContents;
  std::vector<int64_t> lengths = {entry.max_steps};
  for (size_t k = 0; k < lengths.size(); ++k) {
    ASSIGN_OR_RETURN(const std::vector<Tensor> data, DataOf(form, lengths[k], entry.rows, random));
    requests.bodies.push_back(plan.sessions ? ChunkBody(data)
                                            : client::EncodeInfer(form.target, data, plan.options).SerializeAsString());
    requests.steps.push_back(lengths[k]);
    const auto bytes = static_cast<int64_t>(requests.bodies.back().size());
    all += bytes;
    if (all > kAllBytes) return TooLarge("what --op, --model or --mix describes", all);
    ++group.count;
    if (k > 0) continue;
    count = std::clamp<int64_t>(kEntryBytes / std::max<int64_t>(bytes, 1), 1, count);
    const std::vector<int64_t> rest = range ? SpreadSteps(entry.min_steps, entry.max_steps, count)
                                            : std::vector<int64_t>(static_cast<size_t>(count), entry.max_steps);
    for (size_t other = 0; other + 1 < rest.size(); ++other) lengths.push_back(rest[other]);  // the longest is there
  }
  requests.groups.push_back(group);
  return absl::OkStatus();
}

}  // namespace

std::vector<int64_t> SpreadSteps(int64_t shortest, int64_t longest, int64_t count) {
  count = std::min(count, longest - shortest + 1);
  if (count <= 1) return {longest};
  std::vector<int64_t> steps;
  for (int64_t k = 0; k < count; ++k) steps.push_back(shortest + (longest - shortest) * k / (count - 1));
  return steps;
}

absl::StatusOr<Requests> PrepareRequests(const Plan& plan, client::Client* client) {
  Random random{std::mt19937_64(plan.seed)};
  Requests requests;
  for (const MixEntry& entry : plan.mix) {
    ASSIGN_OR_RETURN(const Form form,
                     entry.model ? FormOfModel(*entry.model, *client) : FormOfOperator(entry, plan, client, random));
    RETURN_IF_ERROR(AddBodies(entry, form, plan, random, requests));
    if (!plan.sessions) continue;
    requests.open = OpenBody(form.target, entry.rows, plan.options, plan.sessions->kept_replies,
                             plan.sessions->kept_bytes, plan.sessions->durability);
  }
  return requests;
}

RequestPicker::RequestPicker(const std::vector<Requests::Group>& groups, uint64_t seed)
    : groups_(groups), random_(seed) {
  std::vector<double> weights;
  for (const Requests::Group& group : groups) weights.push_back(group.weight);
  group_ = std::discrete_distribution<size_t>(weights.begin(), weights.end());
}

size_t RequestPicker::Next() {
  const Requests::Group& group = groups_[groups_.size() == 1 ? 0 : group_(random_)];
  // 64 random bits modulo a small count: the bias is below anything that can be measured.
  return group.first + static_cast<size_t>(random_() % group.count);
}

}  // namespace rnnserve::rnnctl::bench
