// SPDX-License-Identifier: Apache-2.0
// cuda_selftest: what its parts share. Needs the CUDA toolkit and the C ABI, nothing else.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/plugin/engine_abi.h"

namespace rnnserve::selftest {

// Prints "PASS name: text" or "FAIL name: text" and counts.
void Report(bool pass, const std::string& name, const char* format, ...) __attribute__((format(printf, 3, 4)));
// A measurement that is neither right nor wrong.
void Note(const std::string& name, const char* format, ...) __attribute__((format(printf, 2, 3)));
// The largest distance of a result from the reference, for the summary.
void Measured(int type, double distance);
int Failures();
// What passed and what failed, by name, and the worst error of each type.
void Summarise();

// --- the host reference: plain loops in double, recurrent-operators.md section 5 ---
struct Weights {
  std::vector<double> w, r, wb, rb, p;  // ONNX block order
};
struct HostState {
  std::vector<double> h, c;
};
int64_t Gates(const rnnserve_cell& cell);
rnnserve_cell MakeCell(int kind, int64_t inputs, int64_t hidden, int data_type);  // default activations
Weights RandomWeights(const rnnserve_cell& cell, std::mt19937& random, double scale = 1.0);
// One sequence; x is [steps, I], the result [steps, H]; `state` in and out.
std::vector<double> RunReference(const rnnserve_cell& cell, const Weights& weights, const std::vector<double>& x,
                                 int64_t steps, HostState& state);
// The least distance of a ThresholdedRelu's input from its jump since the last call (then reset).
double TakeJumpMargin();

// --- element types ---
size_t ElementBytes(int type);
const char* TypeName(int type);
double Tolerance(int type);  // engines.md, section 7
void Encode(int type, const double* values, size_t count, void* out);
void Decode(int type, const void* in, size_t count, double* values);
double RoundTo(int type, double value);

// |a - b| relative to 1 + |b|; infinite where only one is NaN.
double Distance(double a, double b);
double WorstDistance(const std::vector<double>& a, const std::vector<double>& b);

// --- the parts ---
void RunFacts();
void RunRiskyFacts();  // what may leave the context broken: in a process of its own
void RunCases(const rnnserve_api& api);
void RunResident(const rnnserve_api& api);
void RunReplay(const rnnserve_api& api, const std::string& path);
void RunBench(const rnnserve_api& api);

}  // namespace rnnserve::selftest
