// SPDX-License-Identifier: Apache-2.0
// The plugin as its host sees it: thin owners around the C ABI.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/cuda/selftest/selftest.h"

namespace rnnserve::selftest {

class Engine {
 public:
  // `path`: RNNSERVE_CUDA_PATH, "" for the plugin's own choice.
  Engine(const rnnserve_api& api, const std::string& path, int64_t memory_limit = 0) : api_(api) {
    setenv("RNNSERVE_CUDA_PATH", path.c_str(), 1);
    const rnnserve_engine_options options{memory_limit, 0, 0};
    code_ = api.open(&options, &engine_, error_, sizeof error_);
  }
  ~Engine() { api_.close(engine_); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int code() const { return code_; }
  const char* error() const { return error_; }
  const rnnserve_api& api() const { return api_; }
  rnnserve_engine* get() const { return engine_; }

 private:
  const rnnserve_api& api_;
  rnnserve_engine* engine_ = nullptr;
  int code_ = 0;
  char error_[512] = {};
};

class Program {
 public:
  Program(const Engine& engine, const rnnserve_cell& cell, const Weights& weights) : api_(engine.api()), cell_(cell) {
    const int type = cell.data_type == RNNSERVE_DOUBLE ? RNNSERVE_DOUBLE : RNNSERVE_FLOAT;
    std::vector<std::vector<unsigned char>> parts;
    for (const auto* part : {&weights.w, &weights.r, &weights.wb, &weights.rb, &weights.p}) {
      parts.emplace_back(part->size() * ElementBytes(type));
      Encode(type, part->data(), part->size(), parts.back().data());
    }
    const rnnserve_weights raw{parts[0].data(), parts[1].data(), parts[2].data(), parts[3].data(), parts[4].data()};
    code_ = api_.program_create(engine.get(), &cell, &raw, &program_, error_, sizeof error_);
    if (code_ == RNNSERVE_OK) code_ = api_.workspace_create(program_, &workspace_, error_, sizeof error_);
  }
  ~Program() {
    if (workspace_ != nullptr) api_.workspace_destroy(workspace_);
    if (program_ != nullptr) api_.program_destroy(program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int code() const { return code_; }
  const char* error() const { return error_; }
  const rnnserve_api& api() const { return api_; }
  rnnserve_program* get() const { return program_; }
  const rnnserve_cell& cell() const { return cell_; }
  int Advance(const std::vector<rnnserve_slice>& slices) {
    return code_ = api_.advance(program_, slices.data(), slices.size(), workspace_, error_, sizeof error_);
  }

 private:
  const rnnserve_api& api_;
  rnnserve_cell cell_;
  rnnserve_program* program_ = nullptr;
  rnnserve_workspace* workspace_ = nullptr;
  int code_ = 0;
  char error_[512] = {};
};

class State {
 public:
  explicit State(const Program& program) : program_(program) {
    char error[256];
    program.api().state_create(program.get(), &state_, error, sizeof error);
  }
  ~State() { program_.api().state_destroy(state_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  rnnserve_state* get() const { return state_; }

  int Import(const HostState& values) {
    const int type = Type();
    std::vector<unsigned char> h(values.h.size() * ElementBytes(type)), c(values.c.size() * ElementBytes(type));
    Encode(type, values.h.data(), values.h.size(), h.data());
    Encode(type, values.c.data(), values.c.size(), c.data());
    char error[256];
    return program_.api().state_import(program_.get(), state_, type, h.data(), c.data(), error, sizeof error);
  }
  HostState Export() const {
    const int type = Type();
    const auto hidden = static_cast<size_t>(program_.cell().hidden_size);
    std::vector<unsigned char> h(hidden * ElementBytes(type)), c(hidden * ElementBytes(type));
    char error[256];
    HostState values{std::vector<double>(hidden, -99.0), std::vector<double>(hidden, 0.0)};
    if (program_.api().state_export(program_.get(), state_, type, h.data(), c.data(), error, sizeof error) ==
        RNNSERVE_OK) {
      Decode(type, h.data(), hidden, values.h.data());
      if (program_.cell().kind == RNNSERVE_LSTM) Decode(type, c.data(), hidden, values.c.data());
    }
    return values;
  }

 private:
  int Type() const { return program_.cell().data_type == RNNSERVE_DOUBLE ? RNNSERVE_DOUBLE : RNNSERVE_FLOAT; }
  const Program& program_;
  rnnserve_state* state_ = nullptr;
};

}  // namespace rnnserve::selftest
