// SPDX-License-Identifier: Apache-2.0
#include "server/config/config_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <map>

#include "absl/flags/reflection.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/config/command_line.h"
#include "server/config/config.pb.h"
#include "server/files/plain_file.h"

namespace rnnserve {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr size_t kMaxFileBytes = 1 << 20;

// Where and what, as compilers tell it; the parser counts from 0.
class Mistakes final : public google::protobuf::io::ErrorCollector {
 public:
  explicit Mistakes(std::string_view path) : path_(path) {}
  void AddError(int line, int column, const std::string& message) override {
    lines_.push_back(absl::StrCat(path_, ":", line + 1, ":", column + 1, ": ", message, Meant(message)));
  }
  std::string Text() const { return absl::StrJoin(lines_, "\n"); }

 private:
  // The parser's text of an unknown field ends with its name in quotes.
  static std::string Meant(const std::string& message) {
    const std::vector<std::string> parts = absl::StrSplit(message, "no field named \"");
    if (parts.size() != 2) return "";
    const std::string name = parts[1].substr(0, parts[1].find('"'));
    if (const std::string instead = InsteadOfRetired(name); !instead.empty()) {
      return absl::StrCat(" It is no longer a setting: ", instead, ".");
    }
    const std::string nearest = NearestFlag(name);
    return nearest.empty() ? "" : absl::StrCat(" ", nearest, " is one.");
  }

  const std::string path_;
  std::vector<std::string> lines_;
};

std::string ValueOf(const config::Config& config, const FieldDescriptor& field) {
  if (field.is_repeated()) {  // lists are lists of texts
    std::vector<std::string> entries;
    const int size = config.GetReflection()->FieldSize(config, &field);
    for (int k = 0; k < size; ++k) entries.push_back(config.GetReflection()->GetRepeatedString(config, &field, k));
    return absl::StrJoin(entries, ",");
  }
  if (field.type() == FieldDescriptor::TYPE_STRING) return config.GetReflection()->GetString(config, &field);
  std::string text;
  TextFormat::PrintFieldValueToString(config, &field, -1, &text);
  return text;
}

// Where the text names each field, and where its strings begin. The parser itself tells one place for a list in
// brackets, not those of its entries. `text` has been parsed.
struct Positions {
  std::map<std::string, FilePosition> fields;
  std::map<std::string, std::vector<FilePosition>> strings;  // the first of each mention: where the field is named
};

Positions FindPlaces(std::string_view text) {
  using google::protobuf::io::Tokenizer;
  Positions places;
  Mistakes none("");
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  Tokenizer tokens(&stream, &none);
  tokens.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
  std::string field;
  bool is_first = false;
  while (tokens.Next()) {
    const Tokenizer::Token& token = tokens.current();
    const FilePosition here = {token.line + 1, token.column + 1};
    if (token.type == Tokenizer::TYPE_IDENTIFIER) {
      field = token.text;
      places.fields[field] = here;
      is_first = true;
    } else if (token.type == Tokenizer::TYPE_STRING && tokens.previous().type != Tokenizer::TYPE_STRING) {
      places.strings[field].push_back(is_first ? places.fields[field] : here);  // two in a row are one
      is_first = false;
    }
  }
  return places;
}

// Of each entry as the flag has them: one of the file may hold several, with commas between.
std::vector<FilePosition> PlacesOf(const config::Config& config, const FieldDescriptor& field,
                                   const Positions& places) {
  if (!field.is_repeated()) return {places.fields.at(field.name())};
  const std::vector<FilePosition>& strings = places.strings.at(field.name());
  std::vector<FilePosition> of_entries;
  for (size_t k = 0; k < strings.size(); ++k) {
    const std::vector<std::string> parts = absl::StrSplit(
        config.GetReflection()->GetRepeatedString(config, &field, static_cast<int>(k)), ',', absl::SkipEmpty());
    of_entries.insert(of_entries.end(), parts.size(), strings[k]);
  }
  return of_entries.empty() ? strings : of_entries;
}

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\""); }

}  // namespace

absl::StatusOr<std::vector<FileSetting>> ParseConfig(std::string_view text, std::string_view path) {
  config::Config config;
  Mistakes mistakes(path);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&mistakes);
  google::protobuf::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&stream, &config)) return absl::InvalidArgumentError(mistakes.Text());
  const Positions places = FindPlaces(text);
  std::vector<FileSetting> settings;
  for (int k = 0; k < config.GetDescriptor()->field_count(); ++k) {
    const FieldDescriptor& field = *config.GetDescriptor()->field(k);
    const bool is_there = field.is_repeated() ? config.GetReflection()->FieldSize(config, &field) > 0
                                              : config.GetReflection()->HasField(config, &field);
    if (!is_there) continue;
    settings.push_back({field.name(), ValueOf(config, field), PlacesOf(config, field, places)});
  }
  return settings;
}

absl::StatusOr<std::vector<FileSetting>> ReadConfigFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadPlainFile(path, kMaxFileBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  return ParseConfig(*text, path);
}

std::vector<ConfigLine> PrintConfig() {
  std::vector<ConfigLine> lines;
  const google::protobuf::Descriptor& schema = *config::Config::descriptor();
  for (int k = 0; k < schema.field_count(); ++k) {
    const FieldDescriptor& field = *schema.field(k);
    const std::string value = absl::FindCommandLineFlag(field.name())->CurrentValue();
    const auto add = [&](absl::string_view text, size_t entry = 0) {
      const bool is_text = field.type() == FieldDescriptor::TYPE_STRING;
      lines.push_back(
          {field.name(), absl::StrCat(field.name(), ": ", is_text ? Quoted(text) : std::string(text)), entry});
    };
    if (!field.is_repeated()) {
      add(value);
    } else if (value.empty()) {
      lines.push_back({field.name(), absl::StrCat("# ", field.name(), ": none")});
    } else {
      size_t entry = 0;
      for (const absl::string_view text : absl::StrSplit(value, ',', absl::SkipEmpty())) add(text, entry++);
    }
  }
  return lines;
}

}  // namespace rnnserve
