// SPDX-License-Identifier: Apache-2.0
// The fake plugin as its tests load it.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/plugin/plugin_engine.h"

namespace rnnserve::plugin {

// `fault` as fake_plugin.c names it; "": none.
inline absl::StatusOr<std::unique_ptr<PluginEngine>> LoadFake(const std::string& fault, PluginOptions options = {}) {
  setenv("RNNSERVE_FAKE_PLUGIN", fault.c_str(), 1);
  absl::StatusOr<std::unique_ptr<PluginEngine>> engine = PluginEngine::Load(FAKE_PLUGIN, std::move(options));
  unsetenv("RNNSERVE_FAKE_PLUGIN");
  return engine;
}

// A function of the loaded fake, past the ABI.
template <typename Function>
Function* FakeFunction(const char* name) {
  void* const library = dlopen(FAKE_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function*>(dlsym(library, name));
}
inline int FakeAlive() { return FakeFunction<int()>("fake_plugin_alive")(); }

// h' = tanh(x + h / 2), one unit.
inline CellPtr OneUnit() {
  CellSpec spec;
  spec.kind = CellKind::kRnn;
  spec.input_size = 1;
  spec.hidden_size = 1;
  spec.activations[0] = {ActivationKind::kTanh};
  return std::make_shared<const Cell>(spec, CellWeights<float>{{1}, {0.5f}, {0}, {0}, {}});
}

// A program of OneUnit with what one call needs.
struct OneCall {
  explicit OneCall(const Engine& engine) : OneCall(engine.Compile(OneUnit(), {}).value()) {}
  explicit OneCall(ProgramPtr compiled)
      : program(std::move(compiled)), workspace(program->NewWorkspace()), state(program->NewState()) {}

  absl::Status Advance() {
    SequenceSlice slice;
    slice.x = reinterpret_cast<const std::byte*>(x);
    slice.x_stride = sizeof(float);
    slice.y = reinterpret_cast<std::byte*>(y);
    slice.y_stride = sizeof(float);
    slice.steps = 2;
    slice.before = state.get();
    slice.after = state.get();
    return program->Advance(std::vector<SequenceSlice>{slice}, *workspace);
  }
  void Import(float h) {
    program->ImportState(DataType::kFloat, reinterpret_cast<const std::byte*>(&h), nullptr, *state);
  }
  float Export() const {
    float h = -99;
    program->ExportState(*state, DataType::kFloat, reinterpret_cast<std::byte*>(&h), nullptr);
    return h;
  }

  ProgramPtr program;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<State> state;
  float x[2] = {0.25f, -1};
  float y[2] = {-99, -99};
};

}  // namespace rnnserve::plugin
