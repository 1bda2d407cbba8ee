// SPDX-License-Identifier: Apache-2.0
// The C ABI of the plugin: every entry turns exceptions into a code and a text.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>
#include <string>

#include "engine/cuda/device.h"
#include "engine/cuda/error.h"
#include "engine/cuda/execution_context.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/program.h"
#include "engine/plugin/engine_abi.h"

namespace {

using rnnserve::cuda::ContextLease;
using rnnserve::cuda::Device;
using rnnserve::cuda::Error;
using rnnserve::cuda::Program;
using rnnserve::cuda::StateHandle;

Device* ToDevice(rnnserve_engine* engine) { return reinterpret_cast<Device*>(engine); }
const Program* ToProgram(const rnnserve_program* program) { return reinterpret_cast<const Program*>(program); }
StateHandle* ToState(rnnserve_state* state) { return reinterpret_cast<StateHandle*>(state); }
const StateHandle* ToState(const rnnserve_state* state) { return reinterpret_cast<const StateHandle*>(state); }

int32_t Report(int32_t code, const char* text, char* error, size_t error_size) {
  if (error != nullptr && error_size > 0) std::snprintf(error, error_size, "%s", text);
  return code;
}

// Runs `body`; a lost context takes the device out of service.
template <typename Body>
int32_t Guard(Device* device, char* error, size_t error_size, Body body) {
  try {
    body();
    return RNNSERVE_OK;
  } catch (const Error& failed) {
    if (failed.sticky() && device != nullptr) device->Fail(failed.what());
    return Report(failed.code(), failed.what(), error, error_size);
  } catch (const std::bad_alloc&) {
    return Report(RNNSERVE_RESOURCE_EXHAUSTED, "the host's memory is exhausted", error, error_size);
  } catch (const std::exception& failed) {
    return Report(RNNSERVE_INTERNAL, failed.what(), error, error_size);
  }
}

// The libraries load now and a kernel that does nothing runs, or they say why not.
void Probe(Device& device) {
  const ContextLease lease(device);
  rnnserve::cuda::LaunchGatherStates(RNNSERVE_FLOAT, nullptr, RNNSERVE_FLOAT, nullptr, nullptr, 0, 1,
                                     lease.context().stream());
  rnnserve::cuda::CheckLaunch("launching a kernel");
  lease.context().Synchronize();
}

int32_t Open(const rnnserve_engine_options* options, rnnserve_engine** engine, char* error, size_t error_size) {
  return Guard(nullptr, error, error_size, [&] {
    auto device = std::make_unique<Device>(*options);
    Probe(*device);
    *engine = reinterpret_cast<rnnserve_engine*>(device.release());
  });
}

void Close(rnnserve_engine* engine) { delete ToDevice(engine); }

int32_t DeviceInfo(rnnserve_engine* engine, rnnserve_device_info* info, char* error, size_t error_size) {
  return Guard(nullptr, error, error_size, [&] { ToDevice(engine)->Describe(*info); });
}

int32_t Supports(rnnserve_engine* engine, const rnnserve_cell* cell, char* error, size_t error_size) {
  return Guard(ToDevice(engine), error, error_size, [&] { Program::CheckSupported(*cell); });
}

int32_t ProgramCreate(rnnserve_engine* engine, const rnnserve_cell* cell, const rnnserve_weights* weights,
                      rnnserve_program** program, char* error, size_t error_size) {
  return Guard(ToDevice(engine), error, error_size, [&] {
    ToDevice(engine)->Enter();
    *program = reinterpret_cast<rnnserve_program*>(new Program(*ToDevice(engine), *cell, *weights));
  });
}

void ProgramDestroy(rnnserve_program* program) { delete ToProgram(program); }
int64_t ProgramBytes(const rnnserve_program* program) { return ToProgram(program)->bytes(); }

int32_t StateCreate(const rnnserve_program* program, rnnserve_state** state, char* error, size_t error_size) {
  Device& device = ToProgram(program)->device();
  return Guard(&device, error, error_size, [&] {
    device.Enter();
    *state = reinterpret_cast<rnnserve_state*>(ToProgram(program)->NewState().release());
  });
}

void StateDestroy(rnnserve_state* state) { delete ToState(state); }

int32_t StateImport(const rnnserve_program* program, rnnserve_state* state, int32_t type, const void* h, const void* c,
                    char* error, size_t error_size) {
  return Guard(&ToProgram(program)->device(), error, error_size,
               [&] { ToProgram(program)->Import(*ToState(state), type, h, c); });
}

int32_t StateExport(const rnnserve_program* program, const rnnserve_state* state, int32_t type, void* h, void* c,
                    char* error, size_t error_size) {
  Device& device = ToProgram(program)->device();
  return Guard(&device, error, error_size, [&] {
    // States that never reached the device can still be read after it failed.
    if (ToState(state)->where == StateHandle::Where::kDevice) {
      if (!device.healthy()) throw Error(RNNSERVE_DATA_LOSS, "the state was on a CUDA device that has failed");
      device.Enter();
    }
    ToProgram(program)->Export(*ToState(state), type, h, c);
  });
}

// The contexts of the device do the work of workspaces: handles and buffers are shared by all programs.
int32_t WorkspaceCreate(const rnnserve_program*, rnnserve_workspace** workspace, char* error, size_t error_size) {
  return Guard(nullptr, error, error_size, [&] { *workspace = reinterpret_cast<rnnserve_workspace*>(new char); });
}
void WorkspaceDestroy(rnnserve_workspace* workspace) { delete reinterpret_cast<char*>(workspace); }

bool AnyStateOnDevice(const rnnserve_slice* slices, size_t count) {
  return std::any_of(slices, slices + count, [](const rnnserve_slice& slice) {
    return slice.before != nullptr && ToState(slice.before)->where == StateHandle::Where::kDevice;
  });
}

int32_t Advance(const rnnserve_program* program, const rnnserve_slice* slices, size_t count, rnnserve_workspace*,
                char* error, size_t error_size) {
  Device& device = ToProgram(program)->device();
  return Guard(&device, error, error_size, [&] {
    const bool may_lose = AnyStateOnDevice(slices, count);
    if (!device.healthy() && may_lose) {
      throw Error(RNNSERVE_DATA_LOSS, "the state was on a CUDA device that has failed; start the sequence anew");
    }
    device.Enter();
    try {
      ToProgram(program)->Advance({slices, count});
    } catch (const Error& failed) {
      if (!failed.sticky() || may_lose) throw;
      throw Error(RNNSERVE_UNAVAILABLE, std::string(failed.what()) + "; no state was lost, send it again", true);
    }
  });
}

constexpr rnnserve_api kApi = {
    RNNSERVE_HANDSHAKE, "cuda",        &Open,        &Close,        &DeviceInfo,  &Supports,    &ProgramCreate,
    &ProgramDestroy,    &ProgramBytes, &StateCreate, &StateDestroy, &StateImport, &StateExport, &WorkspaceCreate,
    &WorkspaceDestroy,  &Advance};

}  // namespace

extern "C" __attribute__((visibility("default"))) const rnnserve_api* rnnserve_engine_api(
    const rnnserve_handshake* host) {
  return host != nullptr && host->abi_version == RNNSERVE_ENGINE_ABI_VERSION ? &kApi : nullptr;
}
