// The error of the kernels' exp() over all 2^32 inputs, and whether every instruction set gives the same bits.
//
//   cmake --build build/release --target exp_error && build/release/tests/exp_error
//
// Two functions of kernels/simd/exp-inl.h: full_exp(), for any input, and attention_exp(), for inputs up to
// 88 (its inputs are scores less the largest), which gives 0 where the result would be subnormal. Takes minutes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "../tools/exp_error.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void Attention(const float* x, float* y, int64_t count) {
  for (int64_t n = 0; n < count; n += kLanes) hn::StoreU(attention_exp(hn::LoadU(kF, x + n)), kF, y + n);
}

void General(const float* x, float* y, int64_t count) {
  for (int64_t n = 0; n < count; n += kLanes) hn::StoreU(full_exp(kF, hn::LoadU(kF, x + n)), kF, y + n);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "base/threads.h"

namespace heed {
namespace {

HWY_EXPORT(Attention);
HWY_EXPORT(General);

void attention_exp(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(Attention)(x, y, count); }
void general_exp(const float* x, float* y, int64_t count) { HWY_DYNAMIC_DISPATCH(General)(x, y, count); }

constexpr int64_t kPart = 1 << 16;
constexpr int64_t kParts = (int64_t{1} << 32) / kPart;

struct Worst {
  double units = 0;
  float at = 0;
  int64_t wrong = 0;  // NaN, infinity or zero where it should not be, or not where it should
};

// Units in the last place of the exact result; `flushes`: results below the smallest normal number may be 0.
void judge(float x, float found, bool flushes, Worst& worst) {
  if (x != x) {
    worst.wrong += found == found;
    return;
  }
  const double exact = std::exp(static_cast<double>(x));
  if (exact > static_cast<double>(std::numeric_limits<float>::max()) * (1 + 0x1p-25)) {
    worst.wrong += !std::isinf(found);
    return;
  }
  if (flushes && exact < 0x1p-126 * 1.01 && (found == 0 || found < 0x1.1p-126f)) return;
  // 2^(e - 23) for a result in [2^e, 2^(e + 1)); that of the smallest normal number below it.
  const uint64_t exponent = std::max<uint64_t>(std::bit_cast<uint64_t>(exact) >> 52, 1023 - 126);
  const double units = std::fabs(static_cast<double>(found) - exact) / std::bit_cast<double>((exponent - 23) << 52);
  if (!(units < 1e6)) {
    ++worst.wrong;
  } else if (units > worst.units) {
    worst.units = units, worst.at = x;
  }
}

Worst over_all(void (*function)(const float*, float*, int64_t), float most, bool flushes) {
  std::vector<Worst> parts(static_cast<size_t>(kParts));
  parallel_for(kParts, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> x(kPart), y(kPart);
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t n = 0; n < kPart; ++n) {
        const float value = std::bit_cast<float>(static_cast<uint32_t>(part * kPart + n));
        x[static_cast<size_t>(n)] = value > most ? 0.0f : value;
      }
      function(x.data(), y.data(), kPart);
      for (size_t n = 0; n < x.size(); ++n) judge(x[n], y[n], flushes, parts[static_cast<size_t>(part)]);
    }
  });
  Worst worst;
  for (const Worst& part : parts) {
    worst.wrong += part.wrong;
    if (part.units > worst.units) worst.units = part.units, worst.at = part.at;
  }
  return worst;
}

// How many parts give other bits on another instruction set; of the slow portable one a sixteenth.
int64_t differences(void (*function)(const float*, float*, int64_t), Isa a, Isa b) {
  const int64_t step = b == Isa::portable ? 16 : 1;
  int64_t count = 0;
  std::vector<uint32_t> sums[2];
  for (const Isa isa : {a, b}) {
    set_isa(isa);
    std::vector<uint32_t>& hashes = sums[isa == a ? 0 : 1];
    hashes.resize(static_cast<size_t>(kParts));
    parallel_for(kParts, 1, [&](int64_t begin, int64_t end) {
      std::vector<float> x(kPart), y(kPart);
      for (int64_t part = (begin + step - 1) / step * step; part < end; part += step) {
        for (int64_t n = 0; n < kPart; ++n) {
          x[static_cast<size_t>(n)] = std::bit_cast<float>(static_cast<uint32_t>(part * kPart + n));
        }
        function(x.data(), y.data(), kPart);
        uint32_t hash = 2166136261u;  // FNV-1a; every NaN counts as one
        for (const float value : y) {
          hash = (hash ^ (value == value ? std::bit_cast<uint32_t>(value) : 0x7FC00000u)) * 16777619u;
        }
        hashes[static_cast<size_t>(part)] = hash;
      }
    });
  }
  for (size_t n = 0; n < sums[0].size(); ++n) count += sums[0][n] != sums[1][n];
  return count;
}

}  // namespace
}  // namespace heed

int main() {
  using namespace heed;
  const struct {
    const char* name;
    void (*function)(const float*, float*, int64_t);
    float most;
    bool flushes;
  } functions[] = {{"Exp", general_exp, std::numeric_limits<float>::infinity(), false},
                   {"attention_exp (x <= 88)", attention_exp, 88.0f, true}};
  const Isa best = available_isas().back();
  bool good = true;
  for (const auto& f : functions) {
    set_isa(best);
    const Worst worst = over_all(f.function, f.most, f.flushes);
    std::printf("%s: at most %.4f units in the last place, at %.9g; %lld wrong\n", f.name, worst.units,
                static_cast<double>(worst.at), static_cast<long long>(worst.wrong));
    good = good && worst.units < 1.5 && worst.wrong == 0;
    for (const Isa isa : available_isas()) {
      if (isa == best) continue;
      const int64_t other = differences(f.function, best, isa);
      std::printf("  other bits on %s: %lld parts of %d\n", std::string(to_string(isa)).c_str(),
                  static_cast<long long>(other), isa == Isa::portable ? 4096 : 65536);
      good = good && other == 0;
    }
  }
  return good ? 0 : 1;
}
#endif
