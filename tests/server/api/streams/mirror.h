// SPDX-License-Identifier: Apache-2.0
// What one session must hold, by a model of a page: rows of memories, numbers, checkpoints; and the operations that
// change it, with the replies they must get.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "rnnserve/v1/sessions.pb.h"
#include "tests/engine/support/remembering_cell.h"

namespace rnnserve {

inline constexpr int64_t kRemembered = 16;  // H

using Rows = std::vector<Memory>;

// A session after a number.
struct Moment {
  uint64_t number = 0;
  uint64_t position = 0;
  Rows rows;
};

// An operation with the next number, and what it must lead to.
struct Planned {
  v1::Operation operation;
  Moment after;
  std::vector<std::vector<float>> y;  // of each step and row; padding is zeros
  std::vector<std::string> outputs;   // in the reply
  std::vector<float> values;          // x that are to be computed
  bool closes = false;
};

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool Chance(int percent) { return Draw(1, 100) <= percent; }
  template <typename List>
  void Shuffle(List& list) {
    std::shuffle(list.begin(), list.end(), random_);
  }
  // A value that no other x of this run has.
  float FreshValue() { return static_cast<float>(++last_value_); }

 private:
  std::mt19937_64 random_;
  int64_t last_value_ = 0;
};

struct Mirror {
  std::string key;
  Moment now;
  std::map<std::string, Moment> checkpoints;
  // The newest operations with the replies they got: what the window holds.
  std::map<uint64_t, std::pair<Planned, v1::OperationReply>> kept;
};

v1::OpenRequest OpenRemembering(int64_t rows);
v1::StateTensors StateMessage(const Rows& rows);
Rows RowsOf(const v1::StateTensors& state);

// The next chunk: `steps` of fresh values, each row with a length of its own now and then.
Planned PlanChunk(Dice& dice, const std::string& key, const Moment& before, int64_t steps);
// Any operation but Close. Checkpoints are those of `mirror`.
Planned PlanChange(Dice& dice, const Mirror& mirror, const Moment& before);
Planned PlanClose(const std::string& key, const Moment& before);

// What is wrong with the reply of an applied operation; "" if nothing is.
std::string Mistake(const Planned& planned, const v1::OperationReply& reply);
std::string Mistake(const Moment& moment, const v1::GetStateResponse& reply);
// Whether a repetition is the first reply, bit for bit.
bool IsSame(const v1::OperationReply& first, const v1::OperationReply& repetition);

}  // namespace rnnserve
