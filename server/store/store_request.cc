// SPDX-License-Identifier: Apache-2.0
#include "server/store/store_request.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/view.h"

namespace rnnserve {
namespace {

// In bytes.
constexpr size_t kSince = 8, kOwner = 16, kSerial = 8;
constexpr size_t kHead = kSince + kOwner + kSerial;

// ARGV: fence, serial and record in one; the TTL in ms; 1: this process has had no record. A number of 64 bits is exact
// up to 2^53, as Lua counts in doubles.
constexpr std::string_view kWrite = R"(
local head = redis.call('GETRANGE', KEYS[1], 0, 31)
if #head == 32 then
  if string.sub(head, 9, 24) ~= string.sub(ARGV[1], 9, 24) then
    if ARGV[3] == '1' or struct.unpack('>I8', head) >= struct.unpack('>I8', ARGV[1]) then return 'TAKEN' end
  elseif struct.unpack('>I8', head, 25) > struct.unpack('>I8', ARGV[1], 25) then
    return 'STALE'
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if #head == 0 then return 'ANEW' end
return 'OK'
)";

// ARGV: fence, or nothing to look only. The new owner counts its writes anew. SETRANGE leaves the time to live as it
// is.
constexpr std::string_view kTake = R"(
local value = redis.call('GET', KEYS[1])
if not value then return false end
if #ARGV == 1 and #value >= 32 and string.sub(value, 9, 24) ~= string.sub(ARGV[1], 9, 24) then
  local since = math.max(struct.unpack('>I8', value) + 1, (struct.unpack('>I8', ARGV[1])))
  local head = struct.pack('>I8', since) .. string.sub(ARGV[1], 9, 24) .. string.rep('\0', 8)
  redis.call('SETRANGE', KEYS[1], 0, head)
  return head .. string.sub(value, 33)
end
return value
)";

struct Script {
  std::string_view text;
  std::string sha1;  // as EVALSHA takes it

  explicit Script(std::string_view script) : text(script) {
    std::array<uint8_t, EVP_MAX_MD_SIZE> digest = {};
    unsigned size = 0;
    EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr);
    sha1 = absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
  }
};

const Script& ScriptOf(StoreOperation operation) {
  static const Script write(kWrite);
  static const Script take(kTake);
  return operation == StoreOperation::kWrite ? write : take;
}

absl::string_view Bytes(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The braces make the id alone decide on the slot of a cluster.
std::string KeyOf(const SessionId& id) {
  return absl::StrCat("rnnserve:session:{", absl::BytesToHexString(Bytes(id.bytes)), "}");
}

std::string BigEndian(uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (56 - 8 * i));
  return bytes;
}

std::string FenceBytes(const StoreFence& fence) { return absl::StrCat(BigEndian(fence.since), Bytes(fence.owner)); }

}  // namespace

size_t StoreRequest::bytes() const {
  size_t sum = key.size();
  for (const std::string& argument : arguments) sum += argument.size();
  return sum;
}

StoreRequest WriteOf(const SessionStore::WriteRequest& request, uint64_t serial) {
  const int64_t ttl = std::max<int64_t>(absl::ToInt64Milliseconds(request.ttl), 1);
  return {.operation = StoreOperation::kWrite,
          .key = KeyOf(request.id),
          .arguments = {absl::StrCat(FenceBytes(request.fence), BigEndian(serial), request.record), absl::StrCat(ttl),
                        request.create ? "1" : "0"}};
}

StoreRequest TakeOf(const SessionId& id, const StoreFence& fence) {
  return {.operation = StoreOperation::kTake, .key = KeyOf(id), .arguments = {FenceBytes(fence)}};
}

StoreRequest ReadOf(const SessionId& id) { return {.operation = StoreOperation::kRead, .key = KeyOf(id)}; }

std::vector<std::string_view> WordsOf(const StoreRequest& request) {
  const Script& script = ScriptOf(request.operation);
  std::vector<std::string_view> words = {request.whole_script ? "EVAL" : "EVALSHA",
                                         request.whole_script ? script.text : script.sha1, "1", request.key};
  words.insert(words.end(), request.arguments.begin(), request.arguments.end());
  return words;
}

absl::StatusOr<std::string> MeaningOf(const StoreRequest& request, const redisReply& reply) {
  const std::string_view text = ReplyText(reply);
  if (request.operation != StoreOperation::kWrite) {
    if (reply.type == REDIS_REPLY_NIL) return absl::NotFoundError("the store has no record of this session");
    if (reply.type == REDIS_REPLY_STRING) return std::string(text);
  } else if (reply.type == REDIS_REPLY_STRING) {
    if (text == "OK") return std::string();
    if (text == kWrittenAnew) return std::string(text);
    if (text == "TAKEN") return absl::AbortedError("another server owns the record of this session");
    if (text == "STALE") return absl::UnavailableError("a later write of this session came first");
  }
  return absl::UnavailableError("the store answered something else than the script says");
}

StoredRecord ParseStored(std::string value) {
  if (value.size() < kHead) return {.fence = {}, .bytes = std::move(value)};
  StoredRecord stored;
  for (size_t i = 0; i < kSince; ++i) stored.fence.since = stored.fence.since << 8 | static_cast<uint8_t>(value[i]);
  std::memcpy(stored.fence.owner.data(), value.data() + kSince, kOwner);
  stored.bytes = std::move(value);
  stored.bytes.erase(0, kHead);
  return stored;
}

}  // namespace rnnserve
