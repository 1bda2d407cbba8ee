// SPDX-License-Identifier: Apache-2.0
// Faults planted between the simulation and the scheduler's policy, one for each promise: a simulation that finds none
// of them proves nothing. The product has no such switch.
#pragma once

#include <array>
#include <string_view>

namespace rnnserve::simulation {

enum class Fault {
  kNone,
  kLoseSequence,
  kDoubleSequence,
  kForgetState,
  kTellTwice,
  kTellNever,
  kRunCancelled,
  kRunExpired,
  kIgnorePriority,
  kStarve,
  kTooManySequences,
  kTooManyBytes,
  kTooManyRows,
  kLongSlices,
  kUnfair,
  kNoBatching,
  kIdleWhileWorkWaits,
  kNoRetryDelay,
  kRefuseInTime,
  kRefuseUnmeasured,
  kRunHopeless,
  kOneTakesAll,
  kBeginTooLate,
};

struct NamedFault {
  Fault fault;
  std::string_view name;
};
inline constexpr std::array kFaults = {
    NamedFault{Fault::kLoseSequence, "LoseSequence"},
    NamedFault{Fault::kDoubleSequence, "DoubleSequence"},
    NamedFault{Fault::kForgetState, "ForgetState"},
    NamedFault{Fault::kTellTwice, "TellTwice"},
    NamedFault{Fault::kTellNever, "TellNever"},
    NamedFault{Fault::kRunCancelled, "RunCancelled"},
    NamedFault{Fault::kRunExpired, "RunExpired"},
    NamedFault{Fault::kIgnorePriority, "IgnorePriority"},
    NamedFault{Fault::kStarve, "Starve"},
    NamedFault{Fault::kTooManySequences, "TooManySequences"},
    NamedFault{Fault::kTooManyBytes, "TooManyBytes"},
    NamedFault{Fault::kTooManyRows, "TooManyRows"},
    NamedFault{Fault::kLongSlices, "LongSlices"},
    NamedFault{Fault::kUnfair, "Unfair"},
    NamedFault{Fault::kNoBatching, "NoBatching"},
    NamedFault{Fault::kIdleWhileWorkWaits, "IdleWhileWorkWaits"},
    NamedFault{Fault::kNoRetryDelay, "NoRetryDelay"},
    NamedFault{Fault::kRefuseInTime, "RefuseInTime"},
    NamedFault{Fault::kRefuseUnmeasured, "RefuseUnmeasured"},
    NamedFault{Fault::kRunHopeless, "RunHopeless"},
    NamedFault{Fault::kOneTakesAll, "OneTakesAll"},
    NamedFault{Fault::kBeginTooLate, "BeginTooLate"},
};

}  // namespace rnnserve::simulation
