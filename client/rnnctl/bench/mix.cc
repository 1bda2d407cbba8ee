// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/mix.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/attributes.h"
#include "client/rnnctl/call.h"

namespace rnnserve::rnnctl::bench {
namespace {

using google::protobuf::Value;

constexpr std::array<std::string_view, 9> kKeys = {"weight", "model", "op",    "opset",     "hidden",
                                                   "input",  "rows",  "steps", "attributes"};

absl::Status Wrong(std::string_view what, std::string_view expected) {
  return UsageError(absl::StrCat(View(what), ": expected ", View(expected)));
}

// One entry being read; the first error stays.
class EntryReader {
 public:
  EntryReader(const google::protobuf::Struct& json, std::string what) : json_(json), what_(std::move(what)) {}

  absl::StatusOr<MixEntry> Read() {
    CheckKeys();
    if (const Value* weight = Find("weight")) entry_.weight = Positive(*weight, "weight");
    if (const Value* model = Find("model")) ReadModel(*model);
    if (const Value* op = Find("op")) entry_.op = Text(*op, "op");
    Whole("opset", kMaxSize, entry_.opset);
    Whole("hidden", kMaxSize, entry_.hidden);
    entry_.input = entry_.hidden;
    Whole("input", kMaxSize, entry_.input);
    Whole("rows", kMaxSize, entry_.rows);
    if (const Value* steps = Find("steps")) ReadSteps(*steps);
    if (const Value* attributes = Find("attributes")) ReadAttributes(*attributes);
    if (!entry_.model && status_.ok()) status_ = CheckOperator(entry_, what_);
    if (!status_.ok()) return status_;
    return std::move(entry_);
  }

 private:
  const Value* Find(const std::string& key) const {
    const auto found = json_.fields().find(key);
    return found == json_.fields().end() ? nullptr : &found->second;
  }
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  std::string Key(std::string_view key) const { return absl::StrCat(what_, ".", View(key)); }

  void CheckKeys() {
    for (const auto& [key, value] : json_.fields()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
      const std::string_view nearest = Nearest(key, kKeys);
      Fail(UsageError(absl::StrCat(what_, ": unknown key ", key,
                                   nearest.empty() ? "" : absl::StrCat("; did you mean ", View(nearest), "?"))));
    }
    if (Find("model") == nullptr) {
      if (Find("op") == nullptr) Fail(UsageError(absl::StrCat(what_, " has neither model nor op")));
      return;
    }
    for (const char* key : {"op", "opset", "hidden", "input", "attributes"}) {
      if (Find(key) != nullptr) Fail(UsageError(absl::StrCat(what_, ": ", key, " belongs to op; a model has its own")));
    }
  }

  double Positive(const Value& value, std::string_view key) {
    const bool good = value.kind_case() == Value::kNumberValue && value.number_value() > 0 &&
                      value.number_value() <= 1e9;  // NaN fails the comparisons
    if (!good) Fail(Wrong(Key(key), "a number above 0"));
    return good ? value.number_value() : 1;
  }
  int64_t WholeOf(const Value& value, std::string_view key, int64_t max) {
    const double number = value.number_value();
    const bool good = value.kind_case() == Value::kNumberValue && number >= 1 && number <= static_cast<double>(max) &&
                      number == std::floor(number);
    if (!good) Fail(Wrong(Key(key), absl::StrCat("a whole number from 1 to ", max)));
    return good ? static_cast<int64_t>(number) : 1;
  }
  void Whole(const std::string& key, int64_t max, int64_t& into) {
    if (const Value* value = Find(key)) into = WholeOf(*value, key, max);
  }
  std::string Text(const Value& value, std::string_view key) {
    if (value.kind_case() != Value::kStringValue) Fail(Wrong(Key(key), "a string"));
    return value.string_value();
  }

  void ReadModel(const Value& value) {
    const std::string text = Text(value, "model");
    if (!status_.ok()) return;
    absl::StatusOr<client::ModelRef> model = ParseModelRef(text, Key("model"));
    if (model.ok()) {
      entry_.model = *std::move(model);
    } else {
      Fail(model.status());
    }
  }
  void ReadSteps(const Value& value) {
    if (value.kind_case() != Value::kListValue) {
      entry_.min_steps = entry_.max_steps = WholeOf(value, "steps", kMaxSteps);
      return;
    }
    if (value.list_value().values_size() != 2) return Fail(Wrong(Key("steps"), "a number or [SHORTEST, LONGEST]"));
    entry_.min_steps = WholeOf(value.list_value().values(0), "steps[0]", kMaxSteps);
    entry_.max_steps = WholeOf(value.list_value().values(1), "steps[1]", kMaxSteps);
    if (entry_.min_steps > entry_.max_steps) Fail(Wrong(Key("steps"), "the shortest length first"));
  }
  void ReadAttributes(const Value& value) {
    if (value.kind_case() != Value::kListValue) {
      return Fail(Wrong(Key("attributes"), "a list of \"NAME=VALUE\""));
    }
    std::vector<std::string> texts;
    for (const Value& text : value.list_value().values()) texts.push_back(Text(text, "attributes"));
    if (!status_.ok()) return;
    auto attributes = ParseAttributes(texts);
    if (attributes.ok()) {
      entry_.attributes = *std::move(attributes);
    } else {
      Fail(UsageError(absl::StrCat(what_, ": ", attributes.status().message())));
    }
  }

  const google::protobuf::Struct& json_;
  const std::string what_;
  MixEntry entry_;
  absl::Status status_;
};

}  // namespace

absl::Status CheckOperator(const MixEntry& entry, std::string_view what) {
  if (entry.op != "LSTM" && entry.op != "GRU" && entry.op != "RNN") {
    return UsageError(absl::StrCat(View(what), ": random weights are made for LSTM, GRU and RNN, not for ", entry.op,
                                   "; load it as a model and name that"));
  }
  for (const char* name : {"layout", "hidden_size"}) {
    if (entry.attributes.contains(name)) {
      return UsageError(absl::StrCat(View(what), ": the attribute ", name,
                                     " changes shapes and is not taken here; load a model with it and name that"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MixEntry>> ParseMix(std::string_view json, std::string_view path) {
  google::protobuf::ListValue list;
  const auto parsed = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &list);
  if (!parsed.ok()) {
    const auto message = parsed.message();
    return UsageError(absl::StrCat(
        View(path), " is no JSON list of mix entries: ", absl::string_view(message.data(), message.size())));
  }
  if (list.values().empty()) return UsageError(absl::StrCat(View(path), ": expected at least one entry"));
  std::vector<MixEntry> mix;
  for (const Value& value : list.values()) {
    const std::string what = absl::StrCat(View(path), "[", mix.size(), "]");
    if (value.kind_case() != Value::kStructValue) return Wrong(what, "an object such as {\"model\": \"vad\"}");
    ASSIGN_OR_RETURN(MixEntry entry, EntryReader(value.struct_value(), what).Read());
    mix.push_back(std::move(entry));
  }
  return mix;
}

}  // namespace rnnserve::rnnctl::bench
