// SPDX-License-Identifier: Apache-2.0
#include "server/batching/lane_order.h"

#include <algorithm>
#include <utility>

namespace rnnserve {
namespace {

template <typename Map>
void Sweep(Map& map, size_t& next_sweep) {
  if (map.size() < next_sweep) return;
  for (auto entry = map.begin(); entry != map.end();) {
    entry = entry->second->lanes == 0 ? map.erase(entry) : std::next(entry);
  }
  next_sweep = 2 * map.size() + kIdle;
}

// Keeps `items` in order of priority; those of one priority in the order in which they came.
template <typename Item>
void Insert(std::vector<Item*>& items, Item& item) {
  const auto higher = [](const Item* a, const Item* b) { return a->priority > b->priority; };
  items.insert(std::upper_bound(items.begin(), items.end(), &item, higher), &item);
}

}  // namespace

void LaneOrder::Join(Lane& lane) {
  const Submission& submission = lane.job->submission;
  std::unique_ptr<PriorityClass>& of_priority = classes_[submission.priority];
  if (of_priority == nullptr) of_priority = std::make_unique<PriorityClass>();
  PriorityClass& priority_class = *of_priority;
  priority_class.priority = submission.priority;
  std::unique_ptr<TenantQueue>& tenant = priority_class.tenants[submission.caller_id];
  if (tenant == nullptr) {
    tenant = std::make_unique<TenantQueue>();
    tenant->priority_class = &priority_class;
    tenant->usage.id = submission.caller_id;
  }
  std::unique_ptr<LaneQueue>& queue = tenant->queues[lane.cell];
  if (queue == nullptr) {
    queue = std::make_unique<LaneQueue>();
    queue->tenant = tenant.get();
    queue->cell = lane.cell;
    queue->priority = submission.priority;
    queue->usage.id = lane.id;
  }
  lane.queue = queue.get();
  lane.finish_tag = queue->virtual_steps + static_cast<double>(lane.row_steps);
  if (++queue->lanes == 1) ++tenant->busy_queues;
  ++priority_class.lanes;
  if (++tenant->lanes == 1) ++priority_class.busy_tenants;
}

void LaneOrder::Part(Lane& lane) {
  LaneQueue& queue = *std::exchange(lane.queue, nullptr);
  TenantQueue& tenant = *queue.tenant;
  PriorityClass& priority_class = *tenant.priority_class;
  if (--queue.lanes == 0) {
    --tenant.busy_queues;
    queue.virtual_steps = 0;
    Sweep(tenant.queues, tenant.next_sweep);
  }
  if (--tenant.lanes == 0) {
    --priority_class.busy_tenants;
    tenant.backlog_seconds = 0;  // what rounding has left
    Sweep(priority_class.tenants, priority_class.next_sweep);
  }
  if (--priority_class.lanes == 0) {
    priority_class.backlog_seconds = 0;
    Sweep(classes_, next_sweep_);
  }
}

void LaneOrder::Enter(Lane& lane, absl::Time since) {
  LaneQueue& queue = *lane.queue;
  const size_t before = queue.waiting.size();
  queue.waiting.insert(queue.waiting.end(), &lane);  // mostly the one that came last ends last
  if (queue.waiting.size() == before) return;
  lane.waiting_since = since;
  RecycledList<Lane*>& ages = AgesOf(lane);
  lane.age = ages.insert(ages.end(), &lane);
  Took(lane, -static_cast<int64_t>(lane.waiting.size()));
  if (queue.waiting.size() > 1) return;
  TenantQueue& tenant = *queue.tenant;
  Insert(queue.cell->waiting, queue);
  tenant.order.Enter(queue);
  PriorityClass& priority_class = *tenant.priority_class;
  if (priority_class.order.empty()) Insert(waiting_classes_, priority_class);
  priority_class.order.Enter(tenant);
}

void LaneOrder::Leave(Lane& lane) {
  LaneQueue& queue = *lane.queue;
  if (!queue.waiting.empty() && *queue.waiting.begin() == &lane) {
    queue.waiting.erase(queue.waiting.begin());  // mostly the next one leaves
  } else if (queue.waiting.erase(&lane) == 0) {
    return;
  }
  AgesOf(lane).erase(lane.age);
  Took(lane, static_cast<int64_t>(lane.waiting.size()));
  if (!queue.waiting.empty()) return;
  TenantQueue& tenant = *queue.tenant;
  PriorityClass& priority_class = *tenant.priority_class;
  std::erase(queue.cell->waiting, &queue);
  tenant.order.Leave(queue);
  if (!tenant.order.empty()) return;
  priority_class.order.Leave(tenant);
  if (priority_class.order.empty()) std::erase(waiting_classes_, &priority_class);
}

void LaneOrder::Took(Lane& lane, int64_t rows) {
  lane.queue->waiting_rows -= rows;
  lane.cell->waiting_rows -= rows;
  waiting_rows_ -= rows;
}

void LaneOrder::Refresh(Lane& lane, absl::Time since) {
  lane.waiting_since = since;
  RecycledList<Lane*>& ages = AgesOf(lane);
  ages.splice(ages.end(), ages, lane.age);
}

void LaneOrder::MakeUrgent(Lane& lane) {
  auto& waiting = lane.queue->waiting;
  const bool waits = waiting.erase(&lane) > 0;
  lane.is_urgent = true;
  if (waits) waiting.insert(&lane);
}

void LaneOrder::MakeLate(Lane& lane) {
  if (lane.is_late) return;
  late_.splice(late_.end(), by_age_, lane.age);
  lane.is_late = true;
}

Lane* LaneOrder::Oldest() const {
  if (late_.empty()) return by_age_.empty() ? nullptr : by_age_.front();
  if (by_age_.empty()) return late_.front();
  return late_.front()->waiting_since <= by_age_.front()->waiting_since ? late_.front() : by_age_.front();
}

LaneQueue& LaneOrder::Next() { return waiting_classes_.front()->order.Least().order.Least(); }

void LaneOrder::Charge(LaneQueue& queue, double seconds) {
  TenantQueue& tenant = *queue.tenant;
  tenant.order.Charge(queue, seconds, tenant.busy_queues);
  tenant.priority_class->order.Charge(tenant, seconds, tenant.priority_class->busy_tenants);
}

void LaneOrder::Served(LaneQueue& queue, int64_t row_steps) {
  queue.virtual_steps += static_cast<double>(row_steps) / static_cast<double>(std::max<int64_t>(queue.lanes, 1));
}

void LaneOrder::AddBacklog(Lane& lane, double seconds) {
  TenantQueue& tenant = *lane.queue->tenant;
  for (double* backlog : {&tenant.backlog_seconds, &tenant.priority_class->backlog_seconds}) {
    *backlog = std::max(*backlog + seconds, 0.0);
  }
}

double LaneOrder::SecondsAhead(int32_t priority, uint64_t tenant, double own_seconds) const {
  double ahead = 0;
  for (const auto& [level, priority_class] : classes_) {
    if (level < priority) break;
    if (level > priority) {
      ahead += priority_class->backlog_seconds;
      continue;
    }
    const auto found = priority_class->tenants.find(tenant);
    const bool is_new = found == priority_class->tenants.end() || found->second->lanes == 0;
    const double lanes = is_new ? 0 : static_cast<double>(found->second->lanes);
    const double backlog = is_new ? 0 : std::max(found->second->backlog_seconds, 0.0);
    const double tenants = static_cast<double>(priority_class->busy_tenants + (is_new ? 1 : 0));
    const double of_tenant = std::min(backlog, lanes * own_seconds);
    // The other tenants get as much as this one until its own work is done.
    ahead += std::min(priority_class->backlog_seconds, of_tenant + (tenants - 1) * (of_tenant + own_seconds));
  }
  return ahead;
}

double LaneOrder::BacklogSeconds() const {
  double seconds = 0;
  for (const auto& [level, priority_class] : classes_) seconds += priority_class->backlog_seconds;
  return seconds;
}

}  // namespace rnnserve
