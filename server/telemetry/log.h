// SPDX-License-Identifier: Apache-2.0
// The server's log: one line an event, on standard error, as text or as JSON. Text from callers goes in escaped and
// shortened, secrets never.
//
//   LogError("Recurrent.Infer: INTERNAL: ...", {{"request_id", id}, {"traceparent", trace}});
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace rnnserve {

// debug, info, warning, error, off. False if `level` is none of them. Before this: info.
bool SetLogLevel(std::string_view level);
// text or json. False if `format` is neither. Before this: text.
bool SetLogFormat(std::string_view format);

// What belongs to an event besides its text. Those with an empty value are left out.
struct LogField {
  std::string_view name;
  std::string_view value;
};
using LogFields = std::initializer_list<LogField>;

void LogDebug(std::string_view text, LogFields fields = {});
void LogInfo(std::string_view text, LogFields fields = {});
void LogWarning(std::string_view text, LogFields fields = {});
void LogError(std::string_view text, LogFields fields = {});

// An event as it stands in the log: `fields` after the text as logfmt has them (id=7 name="a b"), or the members of a
// JSON object without its braces.
std::string LogLineAsText(std::string_view text, LogFields fields);
std::string LogLineAsJson(std::string_view text, LogFields fields);

// The latest warnings and errors, a few, the newest first.
struct LoggedProblem {
  std::string time;  // UTC, RFC 3339
  std::string level;
  std::string text;
};
std::vector<LoggedProblem> LatestProblems();

}  // namespace rnnserve
