// SPDX-License-Identifier: Apache-2.0
// Calls of a store that wait for their answer.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/steady_now.h"
#include "server/store/redis_store.h"

namespace rnnserve {

// Longer than any answer takes on a busy machine.
inline constexpr absl::Duration kLong = absl::Seconds(20);

inline SessionId IdOf(int number) {
  SessionId id;
  for (size_t i = 0; i < 4; ++i) id.bytes[15 - i] = static_cast<uint8_t>(number >> (8 * i));
  return id;
}

inline StoreFence FenceOf(uint8_t number) {
  StoreFence fence = {.since = number};
  fence.owner.fill(number);
  return fence;
}

inline std::unique_ptr<RedisStore> MakeStore(RedisStore::Options options) {
  absl::StatusOr<std::unique_ptr<RedisStore>> made = RedisStore::Create(std::move(options));
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *std::move(made) : nullptr;
}

inline std::unique_ptr<RedisStore> MakeStore(const std::string& url) {
  return MakeStore({.address = ParseStoreAddress(url).value()});
}

inline SessionStore::WriteRequest WriteRequestOf(int session, uint8_t fence, std::string record,
                                                 absl::Duration wait = kLong) {
  return {.id = IdOf(session), .fence = FenceOf(fence), .record = std::move(record), .deadline = SteadyNow() + wait};
}

inline std::future<absl::Status> StartWrite(SessionStore& store, SessionStore::WriteRequest request) {
  auto promise = std::make_shared<std::promise<absl::Status>>();
  store.Write(std::move(request), [promise](const absl::StatusOr<SessionStore::Written>& written) {
    promise->set_value(written.status());
  });
  return promise->get_future();
}

inline absl::Status Write(SessionStore& store, SessionStore::WriteRequest request) {
  return StartWrite(store, std::move(request)).get();
}

inline absl::Status Write(SessionStore& store, int session, uint8_t fence, std::string record) {
  return Write(store, WriteRequestOf(session, fence, std::move(record)));
}

inline absl::StatusOr<StoredRecord> TakeStored(SessionStore& store, int session, const StoreFence& fence,
                                               absl::Duration wait = kLong) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<StoredRecord>>>();
  store.Take(IdOf(session), fence, SteadyNow() + wait,
             [promise](absl::StatusOr<StoredRecord> taken) { promise->set_value(std::move(taken)); });
  return promise->get_future().get();
}

inline absl::StatusOr<std::string> Take(SessionStore& store, int session, uint8_t fence, absl::Duration wait = kLong) {
  absl::StatusOr<StoredRecord> taken = TakeStored(store, session, FenceOf(fence), wait);
  if (!taken.ok()) return taken.status();
  return std::move(taken->bytes);
}

inline absl::StatusOr<StoredRecord> Read(SessionStore& store, int session) {
  auto promise = std::make_shared<std::promise<absl::StatusOr<StoredRecord>>>();
  store.Read(IdOf(session), SteadyNow() + kLong,
             [promise](absl::StatusOr<StoredRecord> read) { promise->set_value(std::move(read)); });
  return promise->get_future().get();
}

// As Redis knows the record.
inline std::string KeyText(int session) {
  char text[64];
  snprintf(text, sizeof text, "rnnserve:session:{%032x}", static_cast<unsigned>(session));
  return text;
}

}  // namespace rnnserve
