// An attention problem: the shapes and options of a call, checked once. The fused passes and the reference share it.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "heed/attention.h"
#include "kernels/attention/group.h"

namespace heed {

// Keys [begin, end) that a query may see by position: causal, window and key length together.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// A problem may be a part of a larger call: where its queries and keys begin there. Across ranks, one problem holds
// some queries of a rank and at most 512 keys; attention_of_rows() has some queries and all keys. Causal masks,
// windows, key lengths, score functions and dropout go by positions in the whole call.
struct PartOfProblem {
  int64_t queries = 0, keys = 0;           // L and S of the whole call
  int64_t first_query = 0, first_key = 0;  // positions in the whole call of the problem's query 0 and key 0
};

struct AttentionProblem {
  int64_t batch = 0;       // B
  int64_t sequence = 0;    // the number of its first sequence, for dropout
  int64_t first_head = 0;  // the number of its first head, for score functions and dropout
  int64_t heads = 0;       // H
  int64_t kv_heads = 0;    // Hkv
  int64_t queries = 0;     // L
  int64_t keys = 0;        // S
  int64_t size = 0;        // D
  int64_t value_size = 0;  // Dv
  double scale = 1;
  AttentionOptions options;
  // Set for a part of a larger problem; key_lengths and offset() are then those of the larger problem.
  std::optional<PartOfProblem> part;
  Tensor additive;  // (H, D): the weights of additive scores; undefined: dot products
  Tensor mask;      // expanded to (B, H, L, S), or undefined
  Tensor bias;      // likewise

  // The score functions that are applied before the bias, in order, each with its table as dense f32 (or none); and the
  // same compiled for the instruction set in use.
  struct Stage {
    Score function;
    Tensor table;
  };
  std::vector<Stage> stages;
  std::vector<kernels::ScoreStage> compiled;
  [[nodiscard]] int64_t stage_of_alibi() const { return options.softcap > 0 ? 1 : 0; }
  [[nodiscard]] int64_t stage_of_score() const { return static_cast<int64_t>(stages.size()) - 1; }

  [[nodiscard]] int64_t group() const { return kv_heads == 0 ? 1 : heads / kv_heads; }  // query heads a key/value head
  [[nodiscard]] int64_t key_length(int64_t b) const;
  // Query i stands at key position i + offset: for causal, window and ALiBi. Both are positions in the whole call.
  [[nodiscard]] int64_t offset(int64_t b) const;
  // The offset that score functions see: within +-2^30.
  [[nodiscard]] int64_t score_offset(int64_t b) const {
    return std::clamp(offset(b), -(int64_t{1} << 30), int64_t{1} << 30);
  }
  // The keys of query i: clamp(i + begin) to clamp(i + end) of unclamped_range(), within [0, key_length(b)].
  [[nodiscard]] KeyRange visible(int64_t b, int64_t i) const;
  // The keys of a query at position 0, before clamping; far outside where there is no bound.
  [[nodiscard]] KeyRange unclamped_range(int64_t b) const;

 private:
  // Of the whole call, where this problem is a piece of one.
  [[nodiscard]] int64_t whole_key_length(int64_t b) const;
};

// Throws Error, in the name of `function`, when shapes, dtypes or options do not fit. `dtype` is that of query, key,
// value.
[[nodiscard]] AttentionProblem check_attention(std::string_view function, const Tensor& query, const Tensor& key,
                                               const Tensor& value, const AttentionOptions& options, DType dtype);

// Whether rows can be written to it: unit stride along the last axis, and no place of memory belongs to two elements.
// (Some strides that interleave without sharing a place count as if they did.)
[[nodiscard]] bool has_rows_of_its_own(const Tensor& output);

// The part of check_attention() that needs no tensors: query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv).
// `dtype` is what the scores are computed in.
[[nodiscard]] AttentionProblem check_shapes(std::string_view function, const Shape& query, const Shape& key,
                                            const Shape& value, const AttentionOptions& options, DType dtype);

// Half precision: stored in 16 bits, computed in f32.
[[nodiscard]] inline bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

// `tensor` broadcast to (B, H, L, S), aligned at the right: a view with strides of 0 where it is broadcast.
[[nodiscard]] Tensor expand_to_scores(std::string_view function, std::string_view name, const Tensor& tensor,
                                      const Shape& scores);

// Dropout keeps a weight iff its 16 random bits are at least this. 65,536 steps: a rate is met to within 8e-6.
[[nodiscard]] uint32_t attention_dropout_threshold(float rate);

}  // namespace heed
