// C = A B (+ C), then bias and activation: f32, any strides of A and B, rows of C contiguous.
//
// The lanes of a vector run over columns of C; each element is one chain of fused multiply-adds over k in order, which
// continues through C's memory where k is cut. Hence no tile shape, thread count, instruction set or number of rows
// changes a bit. oneDNN 2.6.3, for comparison, was seen to change bits with the number of rows and of threads.
#pragma once

#include <cstdint>

#include "base/memory.h"
#include "heed/ops_options.h"
#include "kernels/gemm/int8.h"

namespace heed::kernels {

// A B that many products share, packed once in the order in which the tile of one instruction set reads it: blocks of
// `depth` steps of k, in each the panels of at most `panel` vectors of columns. A step is one number of each column, or
// two that are rounded to bf16.
class PackedB {
 public:
  // b[p * b_row + j * b_column], k x n, for the instruction set that is in use; bf16 needs one that multiplies it.
  PackedB(const float* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n, bool bf16 = false);
  void column(int64_t j, float* out) const;  // b[p * b_row + j * b_column] at out[p]; of bf16 the rounded numbers
  void unpack(float* out) const;             // n x k: all columns

  struct Layout {
    int64_t k = 0, n = 0, lanes = 0, panel = 0, steps = 0, depth = 0;
    bool bf16 = false;
    friend bool operator==(const Layout&, const Layout&) = default;
  };
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] const float* data() const { return data_.data(); }
  [[nodiscard]] int64_t nbytes() const { return data_.size() * static_cast<int64_t>(sizeof(float)); }

 private:
  Layout layout_;
  Buffer<float> data_;
};

struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;  // a[i * a_row + p * a_column]
  int64_t a_row = 0, a_column = 1;
  const float* b = nullptr;  // b[p * b_row + j * b_column]
  int64_t b_row = 0, b_column = 1;
  const PackedB* packed = nullptr;  // in place of b
  // Likewise in place of b: the rows of A (a_column = 1) are rounded to int8 as well. Not with accumulate.
  const PackedInt8* int8 = nullptr;
  float* c = nullptr;  // c[i * c_row + j]; no overlap with a or b
  int64_t c_row = 0;
  bool accumulate = false;      // the chain starts from c instead of 0
  const float* bias = nullptr;  // (n), added after the chain
  Activation activation = Activation::none;
  float* saved = nullptr;  // where the values before the activation go, rows c_row apart
  // Operands rounded to bf16, two products a step, where multiplies_bf16(); else as in f32. A `packed` that is
  // in bf16 is multiplied in bf16 in any case.
  // The chain is over pairs of k: as independent of everything as in f32, within one instruction set.
  bool bf16 = false;
};

void gemm(const Gemm& gemm);

}  // namespace heed::kernels
