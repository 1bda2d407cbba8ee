// SPDX-License-Identifier: Apache-2.0
#include "engine/map/pipeline.h"

#include <bit>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

// Numbers one after the other; each list is preceded by its size, so that no two pipelines give the same text.
class Text {
 public:
  template <typename T>
  requires std::is_integral_v<T> || std::is_enum_v<T> Text& operator<<(T value) {
    absl::StrAppend(&text_, static_cast<int64_t>(value), " ");
    return *this;
  }
  Text& operator<<(double value) {
    absl::StrAppend(&text_, absl::Hex(std::bit_cast<uint64_t>(value)), " ");
    return *this;
  }
  Text& operator<<(const std::string& value) {
    absl::StrAppend(&text_, value.size(), ":", value, " ");
    return *this;
  }
  template <typename List>
  requires requires(const List& list) {
    list.begin();
    list.size();
  }
  Text& operator<<(const List& list) {
    *this << list.size();
    for (const auto& one : list) *this << one;
    return *this;
  }
  Text& operator<<(const PipelineInput& input) {
    return *this << input.name << input.type << input.kind << input.shape << input.optional << input.layers
                 << input.entries;  // needs_steps refuses requests alone
  }
  Text& operator<<(const PipelineOutput& output) {
    return *this << output.name << output.type << output.shape << output.over_time;
  }
  Text& operator<<(const Place& place) {
    *this << place.kind << place.type << place.width << place.input << place.layer << place.direction;
    return place.beyond.empty() ? *this : *this << std::string("beyond") << place.beyond;
  }
  Text& operator<<(const LayerStart& start) {
    for (const std::vector<std::byte>* bytes : {&start.h, &start.c}) {
      *this << std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
    return *this;
  }
  Text& operator<<(const MapValue& value) { return *this << value.width << value.is_integer; }
  Text& operator<<(const MapPort& port) { return *this << port.value << port.type; }
  Text& operator<<(const MapUse::Target& target) { return *this << target.place << target.output << target.over_time; }
  Text& operator<<(const MapOp& op) {
    return *this << op.kind << op.function << op.in << op.out << op.inner << op.count << op.alpha << op.beta
                 << op.reversed << (op.a != nullptr) << (op.b != nullptr);
  }
  Text& operator<<(const MapUse& use) {
    *this << (use.map != nullptr) << use.reads << use.writes;
    if (use.map == nullptr) return *this;
    return *this << use.map->compute_type << use.map->values << use.map->inputs << use.map->outputs << use.map->ops;
  }

  std::string Finish() && { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string Pipeline::CanonicalText() const {
  Text text;
  text << inputs << outputs << places << maps << rows << layer_x << layer_y;
  if (!starts.empty()) text << starts;
  if (records.map != nullptr) text << records << layer_h << layer_c;
  return std::move(text).Finish();
}

}  // namespace rnnserve
