// The tensors of a call as the kernels see them: raw pointers and strides of one group.
#pragma once

#include "attention/call/problem.h"
#include "heed/kv_cache.h"
#include "kernels/attention/group.h"

namespace heed {

// A tensor (B, H, rows, columns) seen from sequence b and head h on.
template <class T>
[[nodiscard]] kernels::StridedRows<T> strided(const Tensor& tensor, int64_t b, int64_t h) {
  const Shape& strides = tensor.strides();
  return {tensor.data<std::remove_const_t<T>>() + b * strides[0] + h * strides[1], strides[1], strides[2],
          tensor.rank() > 3 ? strides[3] : 0};
}

// Rows of a bf16 tensor whose columns can be read or written in pairs: contiguous, even in number, aligned to 4 bytes.
// Null where they cannot.
[[nodiscard]] kernels::StridedRows<uint16_t> bf16_pairs_of(const Tensor& tensor, int64_t b, int64_t h);

// Rows in words of 4 bytes: f32, or bf16 in pairs. Null where they are neither.
[[nodiscard]] kernels::StridedRows<float> words_of(const Tensor& tensor, int64_t b, int64_t h);

// Where sequence b of a memory without pages lies.
[[nodiscard]] inline int64_t piece_of(const KeyValues& memory, int64_t b) {
  return memory.pieces.defined() ? memory.pieces.data<int32_t>()[b * memory.pieces.stride(0)] : b;
}

[[nodiscard]] bool is_element(DType dtype);              // one of f32, bf16, f16, i8: what kernels read
[[nodiscard]] kernels::Element element_of(DType dtype);  // of such a dtype

// `heads` query heads of sequence b from `first_head` on, which all read key/value head first_head / group(). A query
// in half precision is left to HalfRows (schedule/half_rows.h). The problem must outlive the group.
[[nodiscard]] kernels::AttentionGroup make_group(const AttentionProblem& problem, const Tensor& query,
                                                 const KeyValues& memory, int64_t b, int64_t first_head, int64_t heads);
// Names the group of key/value head h of sequence b as the one that comes next, for prefetching.
void set_next(kernels::AttentionGroup& group, const KeyValues& memory, int64_t b, int64_t h);

}  // namespace heed
