// Ten or twenty chains of multiply-adds in registers: more than latency times ports (4 x 2), on every target.
#include "kernels/simd/peak.h"

#include <algorithm>
#include <chrono>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int kChains = HWY_TARGET <= HWY_AVX3 ? 20 : 10;
constexpr int64_t kSteps = 64;  // of every chain, in a round

// The compiler may not see through the sums (they converge to 1), nor keep them anywhere but in registers.
float run_peak_body(int64_t rounds) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  V half = hn::Set(d, 0.5f);
  V sums[kChains];
  HWY_UNROLL(20)
  for (int n = 0; n < kChains; ++n) sums[n] = hn::Set(d, 1.0f + static_cast<float>(n) * 0x1p-20f);
  for (int64_t step = 0; step < rounds * kSteps; ++step) {
    HWY_UNROLL(20)
    for (int n = 0; n < kChains; ++n) sums[n] = fma(sums[n], half, half);
  }
  V total = hn::Zero(d);
  HWY_UNROLL(20)
  for (int n = 0; n < kChains; ++n) total = hn::Add(total, sums[n]);
  return hn::GetLane(total);
}

// Four chains of additions, so that memory is what they wait for.
float run_read_floats(const float* from, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  for (int64_t n = 0; n + 4 * lanes <= count; n += 4 * lanes) {
    a = hn::Add(a, hn::LoadU(d, from + n));
    b = hn::Add(b, hn::LoadU(d, from + n + lanes));
    c = hn::Add(c, hn::LoadU(d, from + n + 2 * lanes));
    e = hn::Add(e, hn::LoadU(d, from + n + 3 * lanes));
  }
  return hn::GetLane(hn::Add(hn::Add(a, b), hn::Add(c, e)));
}

int64_t flops_of_round() { return 2 * kChains * kSteps * static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_peak_body);
HWY_EXPORT(flops_of_round);
HWY_EXPORT(run_read_floats);

int64_t run_peak(int64_t rounds) {
  dispatch_ready();
  volatile float sink = HWY_DYNAMIC_DISPATCH(run_peak_body)(rounds);
  (void)sink;
  return rounds * HWY_DYNAMIC_DISPATCH(flops_of_round)();
}

void read_floats(const float* from, int64_t count) {
  dispatch_ready();
  volatile float sink = HWY_DYNAMIC_DISPATCH(run_read_floats)(from, count);
  (void)sink;
}

double peak_gflops(int repeats, int64_t (*run)(int64_t rounds)) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  for (int n = 0; n < repeats; ++n) {
    // About a millisecond: long enough for the clock, short enough to find a moment when nobody else is running.
    const auto start = Clock::now();
    const int64_t flops = run(4000);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, static_cast<double>(flops) / seconds * 1e-9);
  }
  return best;
}

}  // namespace heed::kernels
#endif
