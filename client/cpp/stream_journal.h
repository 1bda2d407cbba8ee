// SPDX-License-Identifier: Apache-2.0
// The operations of an RnnStream, which of them are answered, and which to send next: numbering, resending and
// replaying, without gRPC, threads or clocks. Inside the library only.
//
//   StreamJournal journal(limits);
//   journal.Begin(key, last_applied, in_flight, Origin::kAsOpened);
//   journal.Add(operation, now);
//   for (v1::Operation& operation : journal.Take(now)) ...send it...
//   StreamJournal::Next next = journal.Answer(reply);   // answers callers, and says what comes next
//
// An operation that changes the session has an index, 1, 2, 3, ... from the stream's first to its last; its number in a
// session is the index and a constant of that session. It stays in the journal until it is answered and, where
// snapshots are taken, until one covers it. Everything from the last snapshot on can be replayed into a new session.
// After Detach (the connection is lost) unanswered operations are sent again under their numbers: the server answers
// repetitions from its window.
//
// A durable session may have been taken over by a server that knows only what the store has. Changes above that are
// kept, answered or not, and sent again unchanged, from the number that the server expects next.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/reply_room.h"
#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::client {

class StreamJournal {
 public:
  using Ticket = uint64_t;
  using Time = std::chrono::steady_clock::time_point;

  struct Limits {
    // Operations unanswered at once.
    size_t max_in_flight = 8;
    // Of operations and the snapshot. A lone operation may be larger. Checkpoints get half as much again.
    int64_t max_kept_bytes = 64 << 20;
    // Asks for the state after this many changes; 0: never, and answered operations are not kept.
    uint64_t checkpoint_every = 0;
  };

  // A state that the client holds.
  struct Snapshot {
    uint64_t index = 0;                       // of the last operation it contains
    uint64_t position = 0;                    // steps, since the stream's beginning
    std::optional<v1::StateTensors> tensors;  // absent: as the session was opened
  };

  struct FinishedOperation {
    Ticket ticket = 0;
    absl::Status status;
    v1::OperationReply reply;  // position counts from the stream's beginning
  };

  struct Next {
    std::vector<FinishedOperation> finished;
    // Take returns nothing before this time has passed.
    std::optional<std::chrono::milliseconds> pause;
    // This server has lost the session or a reply: replay into a new session, if CanReplay.
    absl::Status lost;
    // The stream cannot continue.
    absl::Status over;
  };

  // How the session's state came about.
  enum class Origin {
    kAsOpened,  // by an Open that can be repeated
    kElsewhere  // by others before; with snapshots, one is asked for first
  };

  explicit StreamJournal(Limits limits) : limits_(limits) {}

  // --- Operations of callers.

  // Whether another operation of `bytes` may be added now.
  bool HasRoom(int64_t bytes) const;
  // Where snapshots are taken, asks for one, so that room becomes free.
  void MakeRoom(Time now);
  // Whether a Checkpoint of this name has been answered, so that Rewind may be added.
  bool HasCheckpoint(const std::string& name) const;
  // Any operation but open. Session, number and request id are set when it is sent. Checkpoints stay here: the state is
  // asked for, and Rewind sets it (behind a SelectRows where the session's rows may be others), so that they outlive
  // the server.
  Ticket Add(v1::Operation body, Time now);

  // --- Sessions and connections.

  // What Open agreed on.
  struct Agreed {
    int32_t max_in_flight = 8;
    int64_t window_bytes = 0;  // 0: no replies are kept
    // Sent with each change: where another Open has attached since, the stream does not take the session back. 0: not
    // sent.
    uint64_t owner_epoch = 0;
    // Every server of a store can go on with the session, from the last number that the store has.
    bool is_durable = false;
  };
  // The stream's first session, which may have been there before. `position_offset`: from its steps to the stream's.
  void Begin(std::string session, uint64_t last_applied, Agreed agreed, Origin origin, Time now,
             uint64_t position_offset = 0);
  // A new session that was opened with the snapshot.
  void BeginAgain(std::string session, Agreed agreed);
  // The connection is lost.
  void Detach();
  // The server drains: send no new changes, and fetch the state as soon as no operation is in flight.
  void Drain() { draining_ = true; }

  // --- What to send.

  std::vector<v1::Operation> Take(Time now);
  Next Answer(v1::OperationReply reply);

  // --- State.

  const std::string& session() const { return session_; }
  bool CanReplay() const { return snapshot_.has_value(); }
  const Snapshot& snapshot() const { return *snapshot_; }
  bool IsDraining() const { return draining_; }
  bool IsDurable() const { return durable_; }
  // Draining, and nothing is lost when the server exits: the state has been fetched, or the store has it.
  bool IsCarriedOver() const;
  // Sent and not answered.
  bool IsWaiting() const { return !sent_.empty(); }
  // When the oldest unanswered operation was added.
  std::optional<Time> OldestUnanswered() const;
  int64_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Checkpoint {
    bool is_answered = false;
    uint64_t position = 0;
    int64_t rows = 0;
    v1::StateTensors tensors;
  };
  enum class Purpose { kCaller, kSnapshot, kCheckpoint };
  enum class Phase { kUnsent, kSent, kApplied };
  struct Item {
    Ticket ticket = 0;
    Purpose purpose = Purpose::kCaller;
    bool is_change = false;
    bool answered = false;      // to the caller; kept for a replay
    bool tried = false;         // this session may have applied it
    bool mute = false;          // sent without outputs: they were known before this session
    bool must_succeed = false;  // part of something whose beginning is applied
    Phase phase = Phase::kUnsent;
    uint64_t index = 0;  // a change's own; else that of the last change before it
    uint64_t sending = 0;
    std::optional<int64_t> reply_bytes = 0;  // of the window, once sent; nothing: not known
    Time added;
    int64_t bytes = 0;
    v1::Operation body;
    std::shared_ptr<Checkpoint> checkpoint;  // to be filled, or to be returned to
  };
  using Entry = std::deque<Item>::iterator;

  uint64_t NumberOf(uint64_t index) const { return index - first_index_ + first_number_; }
  bool IsSnapshotDue() const;
  void AddRows(const std::shared_ptr<Checkpoint>& checkpoint, Time now);
  Entry AskForSnapshot(Entry before, uint64_t index, Time now);
  Entry Erase(Entry item);
  void Unsend(Entry from);
  void TakeHandOver(std::vector<v1::Operation>& operations, Time now);
  bool HasReplyRoom(const Item& item) const;
  bool WaitsForReply(const Item& item) const;
  void Agree(Agreed agreed);
  uint64_t IndexOf(uint64_t number) const { return number - first_number_ + first_index_; }
  void NoteDurable(uint64_t number);
  bool GoBackTo(uint64_t next_number);
  bool IsNeeded(const Item& item) const;
  void Forget();
  v1::Operation Send(Item& item);

  bool AnswerDurable(Entry item, const v1::OperationReply& reply, const absl::Status& status, Next& next);
  void Applied(Entry item, v1::OperationReply reply, Next& next);
  void AppliedChange(Entry item, v1::OperationReply reply, Next& next);
  void AppliedSnapshot(Entry item, v1::OperationReply reply, Next& next);
  absl::Status KeepCheckpoint(Item& item, v1::OperationReply& reply);
  void Refused(Entry item, absl::Status status, Next& next);
  void SetSnapshot(std::optional<Snapshot> snapshot);

  const Limits limits_;
  std::string session_;
  uint64_t first_index_ = 1;
  uint64_t first_number_ = 1;  // of first_index_, in this session
  uint64_t applied_index_ = 0;
  uint64_t position_offset_ = 0;  // modulo 2^64, from the session's position to the stream's
  size_t agreed_in_flight_ = 0;
  uint64_t owner_epoch_ = 0;
  ReplyRoom reply_room_;
  uint64_t rows_since_ = 0;  // the index since which the session has the rows it has
  bool draining_ = false;
  bool durable_ = false;
  uint64_t durable_index_ = 0;  // the store has the changes up to this one

  std::deque<Item> items_;
  std::set<uint64_t> sent_;  // marks of what is sent and not answered
  size_t unanswered_ = 0;    // of the caller's
  size_t requests_ = 0;      // of snapshots
  uint64_t next_ticket_ = 1;
  uint64_t next_index_ = 1;
  uint64_t next_sending_ = 1;
  uint64_t changes_since_request_ = 0;
  int64_t kept_bytes_ = 0;
  int64_t checkpoint_bytes_ = 0;
  bool has_selected_rows_ = false;
  std::optional<Snapshot> snapshot_;
  std::map<std::string, std::shared_ptr<Checkpoint>> checkpoints_;
};

}  // namespace rnnserve::client
