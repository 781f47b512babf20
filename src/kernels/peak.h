// How many multiply-adds a thread can do: what kernel speeds are measured against.
#pragma once

#include <cstdint>

namespace heed::kernels {

// Runs `rounds` of independent fused multiply-adds that stay in registers, with the instruction set in use. Returns the
// floating-point operations done (two a multiply-add and lane).
[[nodiscard]] int64_t run_peak(int64_t rounds);

// The best of `repeats` timings of run_peak(), in f32 GFLOP/s of one thread.
[[nodiscard]] double peak_gflops(int repeats);

}  // namespace heed::kernels
