// Selection: most vectors hold nothing larger than what has been found, and are passed over.
#include "kernels/rows/select.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/select.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

using kernels::Selected;

constexpr int64_t kVectors = 4;  // looked at together

int64_t run_select_largest(const float* HWY_RESTRICT x, int64_t size, const uint8_t* blocked, int64_t count,
                           Selected* out) {
  int64_t found = 0;
  // Places come in ascending order, so an equal number never displaces an earlier one.
  float threshold = -std::numeric_limits<float>::infinity();
  const auto offer = [&](int64_t place) {
    const float value = x[place];
    if (!(value > threshold) || (blocked != nullptr && blocked[place] != 0)) return;
    int64_t at = found < count ? found++ : count - 1;
    for (; at > 0 && out[at - 1].value < value; --at) out[at] = out[at - 1];
    out[at] = {value, static_cast<int32_t>(place)};
    if (found == count) threshold = out[count - 1].value;
  };
  int64_t i = 0;
  for (; i + kVectors * kLanes <= size; i += kVectors * kLanes) {
    const FV least = hn::Set(kF, threshold);
    const auto larger = [&](int64_t v) { return hn::Gt(hn::LoadU(kF, x + i + v * kLanes), least); };
    if (hn::AllFalse(kF, hn::Or(hn::Or(larger(0), larger(1)), hn::Or(larger(2), larger(3))))) continue;
    for (int64_t v = 0; v < kVectors; ++v) {
      if (hn::AllFalse(kF, larger(v))) continue;
      for (int64_t lane = 0; lane < kLanes; ++lane) offer(i + v * kLanes + lane);
    }
  }
  for (; i < size; ++i) offer(i);
  return found;
}

bool run_all_below_infinity(const float* HWY_RESTRICT x, int64_t size) {
  const FV largest = hn::Set(kF, std::numeric_limits<float>::max());
  auto below = hn::Eq(largest, largest);  // all true
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) below = hn::And(below, hn::Le(hn::LoadU(kF, x + i), largest));
  bool all = hn::AllTrue(kF, below);
  for (; i < size; ++i) all = all && x[i] <= std::numeric_limits<float>::max();
  return all;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_select_largest);
HWY_EXPORT(run_all_below_infinity);

int64_t select_largest(const float* x, int64_t size, const uint8_t* blocked, int64_t count, Selected* out) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_select_largest)(x, size, blocked, count, out);
}

bool all_below_infinity(const float* x, int64_t size) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_all_below_infinity)(x, size);
}

}  // namespace heed::kernels
#endif
