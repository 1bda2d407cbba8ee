// SPDX-License-Identifier: Apache-2.0
// The order in which lanes run: priority first, then tenants, then cells, then lanes.
//
// Tenants of a priority share compute time evenly, and so do the cells of a tenant: a thousand small cells of one
// tenant buy no more than one large cell of another. Within a tenant's cell lanes run in the order in which they would
// end if all of them shared evenly (the fair sojourn protocol: Friedman and Henderson, SIGMETRICS 2003): a short lane
// passes a long one at once, equal ones run first come first served, and none ends later than under even sharing.
//
// Pure and single-threaded. Time enters as an argument.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/recycled.h"
#include "server/batching/fair_share.h"
#include "server/batching/job.h"

namespace rnnserve {

struct TenantQueue;

// Tenants, queues and classes without lanes stay, for their debts and for the next lane: as many as have lanes, and
// these.
inline constexpr size_t kIdle = 64;

// The lanes of one priority, tenant and cell.
struct LaneQueue {
  struct EndsEarlier {
    bool operator()(const Lane* a, const Lane* b) const {
      if (a->is_urgent != b->is_urgent) return a->is_urgent;
      return a->finish_tag != b->finish_tag ? a->finish_tag < b->finish_tag : a->id < b->id;
    }
  };

  TenantQueue* tenant = nullptr;
  BatchCell* cell = nullptr;
  Usage usage;
  RecycledSet<Lane*, EndsEarlier> waiting;
  int64_t lanes = 0;         // of jobs not finished
  int64_t waiting_rows = 0;  // in `waiting`
  int32_t priority = 0;
  double virtual_steps = 0;  // row-steps that each lane would have got under even sharing
};

struct PriorityClass;

struct TenantQueue {
  PriorityClass* priority_class = nullptr;
  Usage usage;
  FairShare<LaneQueue> order;
  std::map<BatchCell*, std::unique_ptr<LaneQueue>> queues;
  size_t next_sweep = kIdle;  // queues to look through for idle ones
  int64_t lanes = 0;
  int64_t busy_queues = 0;  // with lanes
  double backlog_seconds = 0;
};

struct PriorityClass {
  int32_t priority = 0;
  FairShare<TenantQueue> order;
  std::map<uint64_t, std::unique_ptr<TenantQueue>> tenants;
  size_t next_sweep = kIdle;
  int64_t lanes = 0;
  int64_t busy_tenants = 0;  // with lanes
  double backlog_seconds = 0;
};

class LaneOrder {
 public:
  // Finds the lane's queue and its place in it. `lane` has its job, cell, id and row_steps.
  void Join(Lane& lane);
  // The lane's job is over: none of its sequences waits or runs.
  void Part(Lane& lane);

  // Sequences of `lane` wait, counted from `since`, which never goes back for lanes that are late, nor for the others.
  // Lanes that wait already stay where they are.
  void Enter(Lane& lane, absl::Time since);
  // None waits any more.
  void Leave(Lane& lane);
  // `rows` of the waiting sequences have been taken away or, if negative, added.
  void Took(Lane& lane, int64_t rows);
  // Some of the lane has just been served and the rest still waits.
  void Refresh(Lane& lane, absl::Time since);
  // `lane` goes before all others of its queue that are not urgent, from now on.
  void MakeUrgent(Lane& lane);
  // `lane`, which waits, counts as late for good.
  void MakeLate(Lane& lane);

  bool empty() const { return by_age_.empty() && late_.empty(); }
  int64_t waiting_rows() const { return waiting_rows_; }
  // The lane that has waited longest since it was served.
  Lane* Oldest() const;
  // The queue to serve next; not empty().
  LaneQueue& Next();
  const LaneQueue& Next() const { return waiting_classes_.front()->order.first().order.first(); }

  // The queue, its tenant and its lanes have been given a slice's worth, or a correction of it.
  void Charge(LaneQueue& queue, double seconds);
  void Served(LaneQueue& queue, int64_t row_steps);
  void AddBacklog(Lane& lane, double seconds);

  // Compute time that would pass before a lane of this cost ends, on one worker, by even sharing or first come first
  // served, whichever is sooner; work of higher priority first.
  double SecondsAhead(int32_t priority, uint64_t tenant, double own_seconds) const;
  // Expected seconds of everything that waits or runs.
  double BacklogSeconds() const;

 private:
  RecycledList<Lane*>& AgesOf(const Lane& lane) { return lane.is_late ? late_ : by_age_; }

  std::map<int32_t, std::unique_ptr<PriorityClass>, std::greater<>> classes_;
  size_t next_sweep_ = kIdle;
  std::vector<PriorityClass*> waiting_classes_;  // the highest priority first
  // Waiting lanes, by `waiting_since`.
  RecycledList<Lane*> by_age_, late_;
  int64_t waiting_rows_ = 0;
};

}  // namespace rnnserve
