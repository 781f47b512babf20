// The packed int8 operand, and which units this processor has.
#include "kernels/gemm/int8.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/fork.h"
#include "base/threads.h"
#include "heed/cpu.h"
#include "kernels/gemm/quantise.h"

namespace heed::kernels {
namespace {

struct Int8Instructions {
  bool avx_vnni = false, vnni = false, amx = false;
};

// Intel's manual, volume 2, CPUID leaf 7. Whether the system keeps tiles for the process, active_isa() knows.
Int8Instructions read_int8_instructions() {
  Int8Instructions found;
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) {
    found.vnni = (c >> 11 & 1u) != 0;
    found.amx = (d >> 25 & 1u) != 0;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) found.avx_vnni = (a >> 4 & 1u) != 0;
#endif
  return found;
}

const Int8Instructions& int8_instructions() {
  static const Int8Instructions found = read_int8_instructions();
  return found;
}
const MadeBeforeFork kInt8Instructions([] { (void)int8_instructions(); });

constexpr Int8Unit kInt8Units[] = {Int8Unit::portable, Int8Unit::avx2, Int8Unit::avx512,
                                   Int8Unit::avx_vnni, Int8Unit::vnni, Int8Unit::amx};

bool can_use(Int8Unit unit) {
  const Int8Instructions& machine = int8_instructions();
  const Isa isa = active_isa();
  switch (unit) {
    case Int8Unit::portable: return isa == Isa::portable;
    case Int8Unit::avx2: return isa == Isa::avx2;
    case Int8Unit::avx512: return isa >= Isa::avx512;
    case Int8Unit::avx_vnni: return isa == Isa::avx2 && machine.avx_vnni;
    case Int8Unit::vnni: return isa >= Isa::avx512 && machine.vnni;
    case Int8Unit::amx: return isa == Isa::amx && machine.amx;
  }
  return false;
}

// As even as multiples of `unit` go.
int64_t depth_of_groups(int64_t width, int64_t most, int64_t unit) {
  const int64_t groups = std::max<int64_t>(1, (width + most - 1) / most);
  return std::max(unit, (width / unit + groups - 1) / groups * unit);
}

// The root of each row's root mean square, 1 where that is no number above 0. Element p of each row of the weight is of
// row p. Sums are in the order of the weight's rows, whatever the number of threads; so many rows are there at a time.
std::vector<float> balance_of(const WeightRow& weight_row, int64_t k, int64_t n) {
  constexpr int64_t kRowsTogether = 128;
  std::vector<double> squares(static_cast<size_t>(k), 0.0);
  const Buffer<float> rows(std::min(n, kRowsTogether) * k);
  for (int64_t first = 0; first < n; first += kRowsTogether) {
    const int64_t count = std::min(kRowsTogether, n - first);
    parallel_for(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) weight_row(first + j, rows.data() + j * k);
    });
    parallel_for(k, 64, [&](int64_t begin, int64_t end) {
      for (int64_t j = 0; j < count; ++j) {
        for (int64_t p = begin; p < end; ++p) {
          const double w = static_cast<double>(rows[j * k + p]);
          squares[static_cast<size_t>(p)] += w * w;
        }
      }
    });
  }
  std::vector<float> balance(static_cast<size_t>(k), 1.0f);
  for (size_t p = 0; p < balance.size(); ++p) {
    const auto root = static_cast<float>(std::sqrt(std::sqrt(squares[p] / static_cast<double>(n))));
    if (std::isnormal(root)) balance[p] = root;
  }
  return balance;
}

}  // namespace

WeightRow rows_at(const float* weight, int64_t k) {
  return [=](int64_t j, float* out) { std::copy_n(weight + j * k, k, out); };
}

std::vector<Int8Unit> int8_units() {
  std::vector<Int8Unit> units;
  for (const Int8Unit unit : kInt8Units) {
    if (can_use(unit)) units.push_back(unit);
  }
  return units;
}

Int8Unit fastest_int8_unit() {
  Int8Unit fastest = Int8Unit::portable;
  for (const Int8Unit unit : kInt8Units) {
    if (can_use(unit)) fastest = unit;
  }
  return fastest;
}

bool multiplies_int8() { return fastest_int8_unit() >= Int8Unit::avx_vnni; }

PackedInt8::PackedInt8(int64_t k, int64_t n)
    : k_(k),
      n_(n),
      depth_(depth_of_groups(padded_k(), kMostOfGroup, kDepth)),
      data_(strips() * kColumns * padded_k()),
      scales_(static_cast<size_t>(strips() * kColumns), 0.0f),
      balance_(static_cast<size_t>(k), 1.0f),
      sums_(static_cast<size_t>(groups() * strips() * kColumns), 0) {
  std::memset(data_.data(), 0, static_cast<size_t>(data_.size()));
}

int64_t PackedInt8::place(int64_t p, int64_t j) const {
  return j / kColumns * kColumns * padded_k() + p / 4 * 4 * kColumns + j % kColumns * 4 + p % 4;
}

void PackedInt8::put(int64_t column, const int8_t* numbers, float scale) {
  int8_t* const to = data_.data() + place(0, column);
  for (int64_t group = 0; group < groups(); ++group) {
    const int64_t begin = group * depth_, end = std::min(begin + depth_, k_);
    const int32_t sum = std::accumulate(numbers + begin, numbers + end, 0);
    sums_[static_cast<size_t>(group * strips() * kColumns + column)] = sum;
  }
  int64_t p = 0;
  for (; p + 4 <= k_; p += 4) std::memcpy(to + p * kColumns, numbers + p, 4);
  for (; p < k_; ++p) data_[place(p, column)] = numbers[p];
  scales_[static_cast<size_t>(column)] = scale;
}

PackedInt8::PackedInt8(const WeightRow& weight_row, int64_t k, int64_t n) : PackedInt8(k, n) {
  balance_ = balance_of(weight_row, k, n);
  parallel_for(n, 16, [&](int64_t begin, int64_t end) {
    const Buffer<float> balanced(k);
    const Buffer<int8_t> row(k);
    for (int64_t j = begin; j < end; ++j) {
      weight_row(j, balanced.data());
      for (int64_t p = 0; p < k; ++p) balanced[p] /= balance_[static_cast<size_t>(p)];
      const float scale = quantise(balanced.data(), k, row.data());
      put(j, row.data(), scale);
    }
  });
}

PackedInt8::PackedInt8(const int8_t* numbers, const float* scales, const float* balance, int64_t k, int64_t n)
    : PackedInt8(k, n) {
  if (balance != nullptr) std::copy_n(balance, k, balance_.data());
  for (int64_t j = 0; j < n; ++j) put(j, numbers + j * k, scales[j]);
}

void PackedInt8::numbers(int8_t* out) const {
  for (int64_t j = 0; j < n_; ++j) {
    for (int64_t p = 0; p < k_; ++p) out[j * k_ + p] = data_[place(p, j)];
  }
}

void PackedInt8::column(int64_t j, float* out) const {
  const float scale = scales_[static_cast<size_t>(j)];
  for (int64_t p = 0; p < k_; ++p)
    out[p] = static_cast<float>(data_[place(p, j)]) * scale * balance_[static_cast<size_t>(p)];
}

void PackedInt8::unpack(float* out) const {
  for (int64_t j = 0; j < n_; ++j) column(j, out + j * k_);
}

int64_t PackedInt8::nbytes() const {
  return data_.size() + static_cast<int64_t>(sizeof(float) * (scales_.size() + balance_.size() + sums_.size()));
}

}  // namespace heed::kernels
