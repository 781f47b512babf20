// B of a product in whole numbers from -127 to 127, each column times a scale of its own and each row times a balance.
//
// Columns of A with small weights may have large numbers, and the other way round. Column p of A is therefore
// multiplied by balance[p], and row p of B divided by it: the root of that row's root mean square (Xiao et al. 2023,
// SmoothQuant, with the weights alone). A row of A is rounded in groups of at most 256 columns, each to 256 steps from
// its smallest to its largest number. On all-MiniLM-L6-v2 the vectors of 1,097 sentences have a cosine of 0.9994 with
// those of f32 on average. Steps to both sides of 0 for a whole row, without a balance, gave 0.9950 in a simulation on
// 220 of them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/memory.h"

namespace heed::kernels {

// Writes row j of a weight, k numbers. Called by several threads at once.
using WeightRow = std::function<void(int64_t j, float* out)>;
[[nodiscard]] WeightRow rows_at(const float* weight, int64_t k);  // row j is at weight + j * k

// Packed once, in one order for all instruction sets: strips of 16 columns, in each four numbers of k side by side. k
// is filled up to a multiple of 64 with zeros, so that a strip is a row of AMX tiles.
class PackedInt8 {
 public:
  static constexpr int64_t kColumns = 16, kDepth = 64;
  static constexpr int64_t kMostK = 65536;  // above it a sum of unsigned times signed numbers could leave 32 bits

  static constexpr int64_t kMostOfGroup = 256;  // columns of A that are rounded together

  // Row j of a weight is column j, divided by the balance and rounded to the nearest multiple of its column's scale:
  // largest magnitude / 127. Each row is asked for twice: a vocabulary's weight is never there whole.
  PackedInt8(const WeightRow& row, int64_t k, int64_t n);
  // numbers[j * k + p] times scales[j] times balance[p]; null: 1.
  PackedInt8(const int8_t* numbers, const float* scales, const float* balance, int64_t k, int64_t n);

  void numbers(int8_t* out) const;           // n x k
  void column(int64_t j, float* out) const;  // k numbers times their scale and balance
  void unpack(float* out) const;             // n x k: all columns

  [[nodiscard]] int64_t k() const { return k_; }
  [[nodiscard]] int64_t n() const { return n_; }
  [[nodiscard]] int64_t padded_k() const { return (k_ + kDepth - 1) / kDepth * kDepth; }
  [[nodiscard]] int64_t strips() const { return (n_ + kColumns - 1) / kColumns; }
  [[nodiscard]] const int8_t* strip(int64_t i) const { return data_.data() + i * padded_k() * kColumns; }
  [[nodiscard]] const float* scales() const { return scales_.data(); }    // strips * 16
  [[nodiscard]] const float* balance() const { return balance_.data(); }  // k
  // Groups of k, all of `depth()` but the last one.
  [[nodiscard]] int64_t groups() const { return (padded_k() + depth_ - 1) / depth_; }
  [[nodiscard]] int64_t depth() const { return depth_; }
  // Of each column's numbers in a group, strips * 16.
  [[nodiscard]] const int32_t* sums(int64_t group) const { return sums_.data() + group * strips() * kColumns; }
  [[nodiscard]] int64_t nbytes() const;

 private:
  PackedInt8(int64_t k, int64_t n);
  void put(int64_t column, const int8_t* numbers, float scale);
  [[nodiscard]] int64_t place(int64_t p, int64_t j) const;

  int64_t k_, n_, depth_;
  Buffer<int8_t> data_;
  std::vector<float> scales_, balance_;
  std::vector<int32_t> sums_;
};

// What multiplies: the product's sums are exact in each, so its bits are the same.
//   portable        one number at a time
//   avx2, avx512    pairs, widened to 16 bits (without the saturating instruction)
//   avx_vnni, vnni  four at a time, in vectors of 256 and of 512 bits
//   amx             tiles
enum class Int8Unit { portable, avx2, avx512, avx_vnni, vnni, amx };
// Those that can be used with the instruction set in use, the fastest last; and that one.
[[nodiscard]] std::vector<Int8Unit> int8_units();
[[nodiscard]] Int8Unit fastest_int8_unit();
// Whether fastest_int8_unit() multiplies bytes (AVX-VNNI, VNNI, AMX).
[[nodiscard]] bool multiplies_int8();

}  // namespace heed::kernels
