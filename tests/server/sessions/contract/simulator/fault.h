// SPDX-License-Identifier: Apache-2.0
// Faults planted into the doubles around the sessions, one for each clause of sessions.md, section 2, and a few of
// section 1. The product has none of these switches.
#pragma once

#include <array>

namespace rnnserve::sim {

enum class Fault {
  kNone,
  kRepetitionComputedAgain,   // 1: a number in the window is applied once more
  kOtherContentAnswered,      // 1: the digest is not compared
  kTooOldAppliedAgain,        // 1: a number older than the window is applied once more
  kGapAccepted,               // 1: a number that is too high is applied as the next one
  kNumbersMissing,            // 1: errors do not carry the session's numbers
  kInFlightComputedTwice,     // 2: a repetition of what is in flight is computed beside it
  kNumberedEndsWithCaller,    // 2: a lost connection takes its numbered operation along
  kUnnumberedOutlivesCaller,  // 2: and leaves the unnumbered one
  kTornCommit,                // 3: rows are swapped one by one
  kTimeoutIgnored,            // 3: an operation is applied after its timeout
  kTimeoutAfterCommit,        // 3: an operation that was applied is told to have timed out
  kFailedTakesNumber,         // 4: a failed operation uses its number up
  kAboveFailedComputed,       // 4: what was accepted above it is computed all the same
  kUnnumberedSideBySide,      // 5: two unnumbered operations in flight
  kOlderOwnerServed,          // 6: a displaced owner goes on
  kOlderQueueComputed,        // 6: a new owner leaves the queue of the old one
  kHalfOpenBlocks,            // 6: a new owner waits for the old one's computing operation
  kOtherBootOpensAnew,        // 7: a key of another boot is answered with a fresh session
  kNumberOpens,               // 7: a number above 1 opens a session where there is none
  kForeignTold,               // 7: a foreign tenant's key is told from an unknown one
  kResumeAheadOfApplied,      // 8: next_expected skips what is in flight, so a resuming client loses it
  kWakesToEndAll,             // section 1: one sweep ages by all the time that has passed
  kCloseForgotten,            // section 1: Close leaves no reply
  kKeptForOwnersOnly,         // 1: a kept reply is refused to a caller that is not the owner
  kGapBehindRefusal,          // 1: behind an operation refused for a passing reason comes OUT_OF_RANGE
  kReasonsMixed,              // 1: ABORTED tells the reason of an operation that cannot have been applied
  kRefusedTakesSession,       // 6: a refused operation takes the session from its owner
  kRepetitionTakesSession,    // 6: so does a repetition
  kJoinedIsDisplaced,         // 6: a new owner loses what it has joined
  kAttachKeepsEpoch,          // 6: an attach tells the owner epoch that was
  kStaleEpochServed,          // 6: an operation with a stale owner epoch is applied
  kFencedTakesSession,        // 6: or refused, but it takes the session
  kMadeUpKeyLost,             // section 1: a made-up key is answered as a lost session
  kMustExistOpens,            // section 1: must_exist makes a new session
  kDisagreementIgnored,       // section 1: an attach that says otherwise is given the session
  kAttachedAsCreated,         // section 1: an attach is told as a new session
  kRepeatedOpenAttaches,      // section 1: a repeated Open is another attach
};

struct FaultName {
  Fault fault;
  const char* name;
};
inline constexpr std::array kFaults = {
    FaultName{Fault::kRepetitionComputedAgain, "RepetitionComputedAgain"},
    FaultName{Fault::kOtherContentAnswered, "OtherContentAnswered"},
    FaultName{Fault::kTooOldAppliedAgain, "TooOldAppliedAgain"},
    FaultName{Fault::kGapAccepted, "GapAccepted"},
    FaultName{Fault::kNumbersMissing, "NumbersMissing"},
    FaultName{Fault::kInFlightComputedTwice, "InFlightComputedTwice"},
    FaultName{Fault::kNumberedEndsWithCaller, "NumberedEndsWithCaller"},
    FaultName{Fault::kUnnumberedOutlivesCaller, "UnnumberedOutlivesCaller"},
    FaultName{Fault::kTornCommit, "TornCommit"},
    FaultName{Fault::kTimeoutIgnored, "TimeoutIgnored"},
    FaultName{Fault::kTimeoutAfterCommit, "TimeoutAfterCommit"},
    FaultName{Fault::kFailedTakesNumber, "FailedTakesNumber"},
    FaultName{Fault::kAboveFailedComputed, "AboveFailedComputed"},
    FaultName{Fault::kUnnumberedSideBySide, "UnnumberedSideBySide"},
    FaultName{Fault::kOlderOwnerServed, "OlderOwnerServed"},
    FaultName{Fault::kOlderQueueComputed, "OlderQueueComputed"},
    FaultName{Fault::kHalfOpenBlocks, "HalfOpenBlocks"},
    FaultName{Fault::kOtherBootOpensAnew, "OtherBootOpensAnew"},
    FaultName{Fault::kNumberOpens, "NumberOpens"},
    FaultName{Fault::kForeignTold, "ForeignTold"},
    FaultName{Fault::kResumeAheadOfApplied, "ResumeAheadOfApplied"},
    FaultName{Fault::kWakesToEndAll, "WakesToEndAll"},
    FaultName{Fault::kCloseForgotten, "CloseForgotten"},
    FaultName{Fault::kKeptForOwnersOnly, "KeptForOwnersOnly"},
    FaultName{Fault::kGapBehindRefusal, "GapBehindRefusal"},
    FaultName{Fault::kReasonsMixed, "ReasonsMixed"},
    FaultName{Fault::kRefusedTakesSession, "RefusedTakesSession"},
    FaultName{Fault::kRepetitionTakesSession, "RepetitionTakesSession"},
    FaultName{Fault::kJoinedIsDisplaced, "JoinedIsDisplaced"},
    FaultName{Fault::kAttachKeepsEpoch, "AttachKeepsEpoch"},
    FaultName{Fault::kStaleEpochServed, "StaleEpochServed"},
    FaultName{Fault::kFencedTakesSession, "FencedTakesSession"},
    FaultName{Fault::kMadeUpKeyLost, "MadeUpKeyLost"},
    FaultName{Fault::kMustExistOpens, "MustExistOpens"},
    FaultName{Fault::kDisagreementIgnored, "DisagreementIgnored"},
    FaultName{Fault::kAttachedAsCreated, "AttachedAsCreated"},
    FaultName{Fault::kRepeatedOpenAttaches, "RepeatedOpenAttaches"},
};

}  // namespace rnnserve::sim
