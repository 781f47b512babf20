// One call across ranks: the whole problem, which all ranks know, and what this rank holds of it.
#pragma once

#include <functional>
#include <string_view>

#include "attention/across_ranks/layout.h"
#include "attention/call/call.h"

namespace heed::distributed {

// Keys that travel together: a whole number of chunks, so that every softmax state of a chunk is made at one place.
inline constexpr int64_t kUnitKeys = kernels::kChunkKeys;

// This rank's rows of a mask or bias (B or 1, H or 1, Lr or 1, S or 1).
struct ScoreRows {
  Tensor tensor;          // undefined: none
  bool each_row = false;  // one row for each query, not one for all
};

struct WholeCall {
  AttentionProblem problem;  // of the whole sequence, without masks, biases and documents
  DType dtype = DType::f32;  // of query, key and value
  const kernels::Engine* engine = nullptr;
  AttentionLayouts layouts;  // never empty
  ScoreRows mask, bias;
  Tensor query_documents;  // (B, 1, Lr, 1), as key_documents (B, 1, Sr, 1); undefined: none
  Tensor key_documents;

  [[nodiscard]] int64_t units() const { return (problem.keys + kUnitKeys - 1) / kUnitKeys; }
  [[nodiscard]] Run unit(int64_t n) const { return {n * kUnitKeys, std::min(kUnitKeys, problem.keys - n * kUnitKeys)}; }
  [[nodiscard]] int64_t groups() const { return problem.batch * problem.kv_heads; }
  // Whether a query of the run may see a key of the unit, by position.
  [[nodiscard]] bool sees(const Run& queries, const Run& unit) const;
};

// Checks what this rank was called with, and compares it with the other ranks. `more` checks what else there is.
[[nodiscard]] WholeCall agree_on_call(Communicator& ranks, std::string_view function, const Tensor& query,
                                      const Tensor& key, const Tensor& value, const AttentionOptions& options,
                                      const AttentionLayouts& layouts, bool backward,
                                      const std::function<void(const AttentionProblem& own)>& more);

// A unit of keys and values, here or on its way. Views: the caller keeps the message alive that they point into.
struct UnitKeys {
  Run run;
  Tensor key;        // (B, Hkv, count, D)
  Tensor value;      // (B, Hkv, count, Dv)
  Tensor documents;  // (B, 1, count, 1), or undefined
};

// The problem of the queries of a run, which begin at `row` of this rank's rows, and the keys of a unit.
[[nodiscard]] AttentionProblem problem_of(const WholeCall& call, const Run& queries, int64_t row, const UnitKeys& unit);

}  // namespace heed::distributed
