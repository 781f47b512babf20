// Ragged batches: every sequence is a call of its own on views of the rows.
#include <vector>

#include "attention/backward/backward.h"
#include "attention/call/explain.h"
#include "attention/forward/forward.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

std::vector<int64_t> checked_lengths(std::string_view function, std::string_view name, const Tensor& lengths,
                                     int64_t rows) {
  require(lengths.defined() && lengths.rank() == 1 && lengths.size(0) >= 1 && lengths.dtype() == DType::i32, function,
          name, " of shape (B + 1) in i32; found ", lengths.defined() ? to_string(lengths.shape()) : "none");
  std::vector<int64_t> begins;
  for (int64_t n = 0; n < lengths.size(0); ++n) {
    begins.push_back(lengths.data<int32_t>()[n * lengths.stride(0)]);
    const int64_t before = n == 0 ? 0 : begins[static_cast<size_t>(n) - 1];
    require(n == 0 ? begins[0] == 0 : begins.back() >= before, function, name, " from 0 on, never decreasing; found ",
            begins.back(), " after ", before);
  }
  require(begins.back() == rows, function, name, " that end with the number of rows, ", rows, "; found ",
          begins.back());
  return begins;
}

// Rows [begin, end) of (T, H, D) as one sequence (1, H, L, D).
Tensor sequence_of(const Tensor& all, int64_t begin, int64_t end) {
  const Tensor rows = all.slice(0, begin, end).transpose(0, 1);
  return rows.expand({1, rows.size(0), rows.size(1), rows.size(2)});
}

// Columns [begin, end) of (H, T) as (1, H, L).
Tensor columns_of(const Tensor& all, int64_t begin, int64_t end) {
  const Tensor part = all.slice(1, begin, end);
  return part.expand({1, part.size(0), part.size(1)});
}

// The sequences of a ragged batch as problems of their own.
struct Ragged {
  DType dtype = DType::f32;
  std::vector<int64_t> queries, keys;
  std::vector<AttentionProblem> problems;

  Ragged(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
         const CuSeqlens& cu_seqlens, const AttentionOptions& options) {
    require(query.defined() && key.defined() && value.defined() && query.rank() == 3 && key.rank() == 3 &&
                value.rank() == 3,
            function, "query (T, H, D), key (U, Hkv, D) and value (U, Hkv, Dv); found ", query.shape(), ", ",
            key.shape(), " and ", value.shape());
    require(key.size(0) == value.size(0), function, "as many values as keys; found key ", key.shape(), " and value ",
            value.shape());
    require(!options.mask.defined() && !options.bias.defined() && !options.key_lengths.defined() &&
                !options.query_documents.defined() && !options.key_documents.defined(),
            function, "no mask, bias, key_lengths or documents; found one");
    require(!options.want.weights && !options.want.scores && !options.want.taps.any() && !options.want.output.defined(),
            function, "no weights, scores, taps or output wanted; found one");
    queries = checked_lengths(function, "cu_seqlens.queries", cu_seqlens.queries, query.size(0));
    keys = checked_lengths(function, "cu_seqlens.keys", cu_seqlens.keys, key.size(0));
    require(queries.size() == keys.size(), function, "as many sequences of keys as of queries; found ", keys.size() - 1,
            " and ", queries.size() - 1);
    if (is_half(query.dtype())) dtype = query.dtype();
    // Once for them all, also where there is no sequence.
    (void)check_attention(function, sequence_of(query, 0, query.size(0)), sequence_of(key, 0, key.size(0)),
                          sequence_of(value, 0, value.size(0)), options, dtype);
    for (size_t b = 0; b + 1 < queries.size(); ++b) {
      AttentionProblem problem = check_attention(function, sequence_of(query, queries[b], queries[b + 1]),
                                                 sequence_of(key, keys[b], keys[b + 1]),
                                                 sequence_of(value, keys[b], keys[b + 1]), options, dtype);
      problem.sequence = static_cast<int64_t>(b);
      problems.push_back(std::move(problem));
    }
  }
};

}  // namespace

AttentionResult attention_varlen(const Tensor& query, const Tensor& key, const Tensor& value,
                                 const CuSeqlens& cu_seqlens, const AttentionOptions& options) {
  const Ragged ragged("attention_varlen", query, key, value, cu_seqlens, options);
  AttentionResult result;
  result.output = Tensor::empty({query.size(0), query.size(1), value.size(2)}, ragged.dtype);
  if (options.want.logsumexp) result.logsumexp = Tensor::empty({query.size(1), query.size(0)});
  std::vector<AttentionCall> calls;
  Explain explain("attention_varlen", 1);
  for (size_t b = 0; b < ragged.problems.size(); ++b) {
    const int64_t q0 = ragged.queries[b], q1 = ragged.queries[b + 1], k0 = ragged.keys[b], k1 = ragged.keys[b + 1];
    AttentionResult part;
    part.output = sequence_of(result.output, q0, q1);
    if (result.logsumexp.defined()) part.logsumexp = columns_of(result.logsumexp, q0, q1);
    const AttentionProblem& problem = ragged.problems[b];
    calls.push_back({problem,
                     sequence_of(query, q0, q1),
                     {sequence_of(key, k0, k1), sequence_of(value, k0, k1)},
                     &forward_engine(problem, ragged.dtype == DType::bf16),
                     part});
    explain.add(calls.back());
  }
  run_forward(calls);
  return result;
}

AttentionGradients attention_varlen_backward(const Tensor& d_output, const Tensor& query, const Tensor& key,
                                             const Tensor& value, const CuSeqlens& cu_seqlens,
                                             const AttentionResult& forward, const AttentionOptions& options,
                                             const AttentionWantGradients& want) {
  constexpr std::string_view kName = "attention_varlen_backward";
  const Ragged ragged(kName, query, key, value, cu_seqlens, options);
  const Shape output{query.size(0), query.size(1), value.size(2)}, rows{query.size(1), query.size(0)};
  require_like(kName, "d_output", d_output, output, ragged.dtype);
  require_like(kName, "the forward pass's output", forward.output, output, ragged.dtype);
  require_like(kName, "the forward pass's logsumexp (ask for it with want.logsumexp)", forward.logsumexp, rows,
               DType::f32);
  check_wanted(kName, options, want);
  AttentionGradients gradients;
  gradients.query = Tensor::empty(query.shape(), ragged.dtype);
  gradients.key = Tensor::empty(key.shape(), ragged.dtype);
  gradients.value = Tensor::empty(value.shape(), ragged.dtype);
  Tensor d_sinks;
  if (options.sinks.defined()) d_sinks = Tensor::empty(rows);
  std::vector<BackwardCall> calls;
  for (size_t b = 0; b < ragged.problems.size(); ++b) {
    const int64_t q0 = ragged.queries[b], q1 = ragged.queries[b + 1], k0 = ragged.keys[b], k1 = ragged.keys[b + 1];
    const AttentionProblem& problem = ragged.problems[b];
    BackwardCall call;
    call.problem = problem;
    call.query = sequence_of(query, q0, q1);
    call.memory = {sequence_of(key, k0, k1), sequence_of(value, k0, k1)};
    call.engine = &backward_engine(problem, ragged.dtype == DType::bf16);
    call.result.output = sequence_of(forward.output, q0, q1);
    call.result.logsumexp = columns_of(forward.logsumexp, q0, q1);
    call.d_output = sequence_of(d_output, q0, q1);
    call.gradients.query = sequence_of(gradients.query, q0, q1);
    call.gradients.key = sequence_of(gradients.key, k0, k1);
    call.gradients.value = sequence_of(gradients.value, k0, k1);
    if (d_sinks.defined()) call.d_sinks = columns_of(d_sinks, q0, q1);
    calls.push_back(std::move(call));
  }
  if (want.alibi_slopes) gradients.alibi_slopes = Tensor::zeros(options.alibi_slopes.shape());
  if (want.score_table) gradients.score_table = Tensor::zeros(options.score.table().shape());
  {
    Explain explain(kName, 2.5);
    for (const BackwardCall& call : calls) explain.add(call);
    run_backward(calls, gradients);
  }
  if (d_sinks.defined()) gradients.sinks = sum_sinks(d_sinks.expand({1, rows[0], rows[1]}));
  return gradients;
}

}  // namespace heed
