// SPDX-License-Identifier: Apache-2.0
// Faults planted into the store, the replicas and the callers of a storm.
#pragma once

#include <array>

namespace rnnserve::storms {

// Against sentences of sessions.md, section 5, and against what keeps a herd bounded.
enum class Fault {
  kNone,
  kFenceIgnored,      // the store takes a former owner's writes
  kTakeKeepsFence,    // a takeover does not fence the former owner
  kWriteForgotten,    // the store says that it has a record, and has not
  kOlderRecordTaken,  // a takeover gets the record before the newest
  kDurableTooHigh,    // a reply calls durable what no record has
  kTriesAtOnce,       // callers try again without a pause
  kQueueUnbounded,    // the queue to the store takes everything
  kCloseForgotten,    // the store says that it has the record of a closed session, and has the one before it
  kAnyKeyOfAName,     // an operation with the key of a closed session reaches the next one of its name
};

struct FaultName {
  Fault fault;
  const char* name;
};
inline constexpr std::array kFaultsOfNames = {
    FaultName{Fault::kCloseForgotten, "CloseForgotten"},
    FaultName{Fault::kAnyKeyOfAName, "AnyKeyOfAName"},
    FaultName{Fault::kFenceIgnored, "FenceIgnored"},
    FaultName{Fault::kOlderRecordTaken, "OlderRecordTaken"},
};
inline constexpr std::array kFaults = {
    FaultName{Fault::kFenceIgnored, "FenceIgnored"},     FaultName{Fault::kTakeKeepsFence, "TakeKeepsFence"},
    FaultName{Fault::kWriteForgotten, "WriteForgotten"}, FaultName{Fault::kOlderRecordTaken, "OlderRecordTaken"},
    FaultName{Fault::kDurableTooHigh, "DurableTooHigh"}, FaultName{Fault::kTriesAtOnce, "TriesAtOnce"},
    FaultName{Fault::kQueueUnbounded, "QueueUnbounded"},
};

}  // namespace rnnserve::storms
