// SPDX-License-Identifier: Apache-2.0
// Times through the C ABI, host memory to host memory, next to bare cuDNN in the same process.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/engine/cuda/selftest/bare_rnn.h"
#include "tests/engine/cuda/selftest/plugin.h"

namespace rnnserve::selftest {
namespace {

// Median microseconds of a call; warm, at least 5 rounds, about 60 ms in all.
double Time(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  for (int k = 0; k < 5; ++k) call();
  std::vector<double> times;
  const auto begin = Clock::now();
  while (times.size() < 5 || (times.size() < 400 && Clock::now() - begin < std::chrono::milliseconds(60))) {
    const auto start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

struct Shape {
  int steps, rows, hidden;
};

// Bare cuDNN, its best algorithm; x and y on the device ("device") or through pinned memory ("copies").
struct Peer {
  double device = std::numeric_limits<double>::infinity();
  double copies = std::numeric_limits<double>::infinity();
  double launch = 0;  // host time of the call alone
  const char* algo = "-";
};

Peer TimePeer(int kind, const Shape& shape) {
  Peer peer;
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  for (const auto algo : {CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H}) {
    RnnCase c;
    c.kind = kind;
    c.inputs = c.hidden = shape.hidden;
    c.rows = shape.rows;
    c.steps = shape.steps;
    c.algo = algo;
    PreparedRnn rnn(c, MakeData(c, 1), stream);
    if (!rnn.ok() || rnn.Run() != CUDNN_STATUS_SUCCESS || cudaStreamSynchronize(stream) != cudaSuccess) continue;
    void *in = nullptr, *out = nullptr;
    cudaMallocHost(&in, rnn.x_bytes());
    cudaMallocHost(&out, rnn.y_bytes());
    const double device = Time([&] {
      rnn.Run();
      cudaStreamSynchronize(stream);
    });
    const double copies = Time([&] {
      cudaMemcpyAsync(rnn.x(), in, rnn.x_bytes(), cudaMemcpyHostToDevice, stream);
      rnn.Run();
      cudaMemcpyAsync(out, rnn.y(), rnn.y_bytes(), cudaMemcpyDeviceToHost, stream);
      cudaStreamSynchronize(stream);
    });
    if (device < peer.device) {
      peer.device = device;
      peer.algo = algo == CUDNN_RNN_ALGO_STANDARD ? "standard" : "small_h";
      using Clock = std::chrono::steady_clock;
      peer.launch = std::numeric_limits<double>::infinity();
      for (int k = 0; k < 20; ++k) {
        const auto start = Clock::now();
        rnn.Run();
        peer.launch = std::min(peer.launch, std::chrono::duration<double, std::micro>(Clock::now() - start).count());
        cudaStreamSynchronize(stream);
      }
    }
    peer.copies = std::min(peer.copies, copies);
    cudaFreeHost(in);
    cudaFreeHost(out);
  }
  cudaStreamDestroy(stream);
  return peer;
}

// A batch of equal sequences, [T, N, *] in plain memory; states stay on the device from call to call if `carry`.
class Run {
 public:
  Run(const Engine& engine, const rnnserve_cell& cell, const Weights& weights, const Shape& shape, bool carry)
      : program_(engine, cell, weights),
        x_(Elements(shape, cell.input_size), 0.25f),
        y_(Elements(shape, cell.hidden_size)) {
    const auto inputs = static_cast<size_t>(cell.input_size), hidden = static_cast<size_t>(cell.hidden_size);
    for (size_t k = 0; k < x_.size(); ++k)
      x_[k] = static_cast<float>(static_cast<int>(k * 2654435761u % 2001) - 1000) * 1e-3f;
    if (program_.code() != RNNSERVE_OK) return;
    const auto rows = static_cast<size_t>(shape.rows);
    for (size_t n = 0; n < rows; ++n) {
      states_.push_back(std::make_unique<State>(program_));
      slices_.push_back({x_.data() + n * inputs, static_cast<std::ptrdiff_t>(rows * inputs * 4), y_.data() + n * hidden,
                         static_cast<std::ptrdiff_t>(rows * hidden * 4), shape.steps,
                         carry ? states_.back()->get() : nullptr, states_.back()->get()});
    }
  }
  double Microseconds() {
    if (program_.code() != RNNSERVE_OK) return std::numeric_limits<double>::quiet_NaN();
    return Time([&] { program_.Advance(slices_); });
  }

 private:
  static size_t Elements(const Shape& shape, int64_t width) {
    return static_cast<size_t>(shape.steps) * static_cast<size_t>(shape.rows) * static_cast<size_t>(width);
  }
  Program program_;
  std::vector<float> x_, y_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<rnnserve_slice> slices_;
};

constexpr Shape kShapes[] = {{1, 1, 128},  {1, 1, 256},   {1, 1, 512},   {1, 1, 1024},  {1, 32, 512},  {1, 64, 1024},
                             {32, 1, 512}, {32, 16, 256}, {64, 32, 512}, {100, 1, 256}, {16, 64, 1024}};

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a script of measurements.
void RunBench(const rnnserve_api& api) {
  const Engine automatic(api, ""), general(api, "general"), cudnn(api, "cudnn"), resident(api, "resident");
  std::mt19937 random(3);
  std::printf(
      "\nBENCH calls, float32, I = H, microseconds a call (median). abi: host to host through the C ABI, by path.\n"
      "peer: bare cuDNN with x, y on the device / with pinned copies in and out; launch: host time of "
      "cudnnRNNForward.\n");
  std::printf("%-9s %4s %4s %5s | %9s %9s %9s %9s | %9s %9s %8s %-8s | %s\n", "op", "T", "N", "H", "abi auto",
              "abi cudnn", "abi gen", "abi res", "peer dev", "peer copy", "launch", "algo",
              "peer copy/auto  gen/cudnn  gen/res");
  for (const int kind : {RNNSERVE_LSTM, RNNSERVE_GRU, RNNSERVE_RNN}) {
    for (const Shape& shape : kShapes) {
      const rnnserve_cell cell = MakeCell(kind, shape.hidden, shape.hidden, RNNSERVE_FLOAT);
      const Weights weights = RandomWeights(cell, random);
      const double a = Run(automatic, cell, weights, shape, false).Microseconds();
      const double c = Run(cudnn, cell, weights, shape, false).Microseconds();
      const double g = Run(general, cell, weights, shape, false).Microseconds();
      const double r = Run(resident, cell, weights, shape, false).Microseconds();
      const Peer peer = TimePeer(kind, shape);
      std::printf("%-9s %4d %4d %5d | %9.1f %9.1f %9.1f %9.1f | %9.1f %9.1f %8.1f %-8s | %6.2f %6.2f %6.2f\n",
                  kind == RNNSERVE_LSTM  ? "LSTM"
                  : kind == RNNSERVE_GRU ? "GRU"
                                         : "RNN",
                  shape.steps, shape.rows, shape.hidden, a, c, g, r, peer.device, peer.copies, peer.launch, peer.algo,
                  peer.copies / a, g / c, g / r);
      std::fflush(stdout);
    }
  }
  std::printf(
      "\nBENCH general path only, the same shapes: GRU linear_before_reset = 0, and LSTM with peepholes and clip, "
      "against the default cell by trial\n");
  for (const Shape& shape : {Shape{1, 32, 512}, Shape{32, 16, 256}, Shape{64, 32, 512}, Shape{16, 64, 1024}}) {
    rnnserve_cell gru = MakeCell(RNNSERVE_GRU, shape.hidden, shape.hidden, RNNSERVE_FLOAT);
    const Weights gru_weights = RandomWeights(gru, random);
    const double linear = Run(automatic, gru, gru_weights, shape, false).Microseconds();
    gru.linear_before_reset = 0;
    const double reset = Run(general, gru, gru_weights, shape, false).Microseconds();
    const double reset_resident = Run(resident, gru, gru_weights, shape, false).Microseconds();
    rnnserve_cell lstm = MakeCell(RNNSERVE_LSTM, shape.hidden, shape.hidden, RNNSERVE_FLOAT);
    const double plain = Run(automatic, lstm, RandomWeights(lstm, random), shape, false).Microseconds();
    lstm.has_peephole = 1;
    lstm.clip = 3;
    const Weights rich_weights = RandomWeights(lstm, random);
    const double rich = Run(general, lstm, rich_weights, shape, false).Microseconds();
    const double rich_resident = Run(resident, lstm, rich_weights, shape, false).Microseconds();
    std::printf(
        "T %d N %d H %d: GRU lbr=1 %.1f, lbr=0 %.1f, resident %.1f us; LSTM %.1f, peephole+clip %.1f, resident %.1f "
        "us\n",
        shape.steps, shape.rows, shape.hidden, linear, reset, reset_resident, plain, rich, rich_resident);
  }
  std::printf("\nBENCH streaming, T = 1, states kept on the device, float32 (us a call; abi host to host)\n");
  std::printf("%-9s %5s %5s | %9s %9s %9s | %9s %9s | %s\n", "op", "N", "H", "abi auto", "abi cudnn", "abi gen",
              "peer dev", "peer copy", "peer copy/auto");
  for (const int kind : {RNNSERVE_LSTM, RNNSERVE_GRU}) {
    for (const int hidden : {128, 512}) {
      for (const int rows : {64, 256, 1024, 4096}) {
        const Shape shape{1, rows, hidden};
        const rnnserve_cell cell = MakeCell(kind, hidden, hidden, RNNSERVE_FLOAT);
        const Weights weights = RandomWeights(cell, random);
        const double a = Run(automatic, cell, weights, shape, true).Microseconds();
        const double c = Run(cudnn, cell, weights, shape, true).Microseconds();
        const double g = Run(general, cell, weights, shape, true).Microseconds();
        const Peer peer = TimePeer(kind, shape);
        std::printf("%-9s %5d %5d | %9.1f %9.1f %9.1f | %9.1f %9.1f | %6.2f\n", kind == RNNSERVE_LSTM ? "LSTM" : "GRU",
                    rows, hidden, a, c, g, peer.device, peer.copies, peer.copies / a);
        std::fflush(stdout);
      }
    }
  }
  // Where a streaming call's time goes besides computing.
  std::printf(
      "\nBENCH parts: host gather of N rows of 512 floats into pinned memory, pinned copy in, empty launch + "
      "synchronize (us)\n");
  for (const size_t rows : {64, 1024, 4096}) {
    const size_t bytes = rows * 2048;
    std::vector<char> source(bytes);
    void *pinned = nullptr, *device = nullptr;
    cudaMallocHost(&pinned, bytes);
    cudaMalloc(&device, bytes);
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    const double gather = Time([&] {
      for (size_t k = 0; k < rows; ++k)
        std::memcpy(static_cast<char*>(pinned) + k * 2048, source.data() + k * 2048, 2048);
    });
    const double back = Time([&] {
      for (size_t k = 0; k < rows; ++k)
        std::memcpy(source.data() + k * 2048, static_cast<char*>(pinned) + k * 2048, 2048);
    });
    const double copy = Time([&] {
      cudaMemcpyAsync(device, pinned, bytes, cudaMemcpyHostToDevice, stream);
      cudaStreamSynchronize(stream);
    });
    const double tiny = Time([&] {
      cudaMemsetAsync(device, 0, 4, stream);
      cudaStreamSynchronize(stream);
    });
    std::printf("N %5zu: gather %.1f, scatter %.1f, copy in %.1f, tiny launch %.1f\n", rows, gather, back, copy, tiny);
    cudaStreamDestroy(stream);
    cudaFree(device);
    cudaFreeHost(pinned);
  }
}

}  // namespace rnnserve::selftest
