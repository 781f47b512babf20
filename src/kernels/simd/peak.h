// How many multiply-adds a thread can do, and how fast it reads: what kernel speeds are measured against.
#pragma once

#include <cstdint>

namespace heed::kernels {

// Runs `rounds` of independent fused multiply-adds that stay in registers, with the instruction set in use. Returns the
// floating-point operations done (two a multiply-add and lane).
[[nodiscard]] int64_t run_peak(int64_t rounds);

// Reads that much memory, and nothing else: what decoding is measured against.
void read_floats(const float* from, int64_t count);

// The best of `repeats` timings of run(rounds), in GFLOP/s of one thread. A round is some thousand cycles.
[[nodiscard]] double peak_gflops(int repeats, int64_t (*run)(int64_t rounds) = run_peak);

}  // namespace heed::kernels
