// The checks of an attention call.
#include "attention/call/problem.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "heed/error.h"

namespace heed {
namespace {

// Positions and window extents beyond this mean no bound, and sums of a few of them cannot overflow.
constexpr int64_t kFar = int64_t{1} << 60;

int64_t bounded(int64_t value) { return std::clamp(value, -kFar, kFar); }

void require_vector(std::string_view function, std::string_view name, const Tensor& tensor, int64_t extent,
                    std::string_view letter, DType dtype) {
  if (!tensor.defined()) return;
  require(tensor.rank() == 1 && tensor.size(0) == extent, function, name, " of shape (", letter, ") = (", extent,
          "); found ", tensor.shape());
  require(tensor.dtype() == dtype, function, name, " in ", dtype, "; found ", tensor.dtype());
}

void require_documents(std::string_view function, std::string_view name, const Tensor& tensor, int64_t batch,
                       int64_t length, std::string_view letters) {
  require(tensor.rank() == 2 && tensor.size(0) == batch && tensor.size(1) == length, function, name, " of shape ",
          letters, " = (", batch, ", ", length, "); found ", tensor.shape());
  require(tensor.dtype() == DType::i32, function, name, " in i32; found ", tensor.dtype());
}

}  // namespace

int64_t AttentionProblem::whole_key_length(int64_t b) const {
  if (!options.key_lengths.defined()) return part ? part->keys : keys;
  return options.key_lengths.data<int32_t>()[b * options.key_lengths.stride(0)];
}

int64_t AttentionProblem::key_length(int64_t b) const {
  const int64_t length = whole_key_length(b);
  return part ? std::clamp<int64_t>(length - part->first_key, 0, keys) : length;
}

int64_t AttentionProblem::offset(int64_t b) const {
  const int64_t length = whole_key_length(b), all_queries = part ? part->queries : queries;
  return options.causal.enabled() ? bounded(options.causal.offset_for(all_queries, length)) : length - all_queries;
}

KeyRange AttentionProblem::unclamped_range(int64_t b) const {
  const int64_t at = offset(b) + (part ? part->first_query - part->first_key : 0);
  KeyRange range{-2 * kFar, 2 * kFar};
  if (options.window.left >= 0) range.begin = at - bounded(options.window.left);
  if (options.window.right >= 0) range.end = at + bounded(options.window.right) + 1;
  if (options.causal.enabled()) range.end = std::min(range.end, at + 1);
  return range;
}

KeyRange AttentionProblem::visible(int64_t b, int64_t i) const {
  const KeyRange at_zero = unclamped_range(b);
  const int64_t length = key_length(b);
  const int64_t begin = std::clamp<int64_t>(at_zero.begin + i, 0, length);
  return {begin, std::max(begin, std::clamp<int64_t>(at_zero.end + i, 0, length))};
}

Tensor expand_to_scores(std::string_view function, std::string_view name, const Tensor& tensor, const Shape& scores) {
  bool fits = tensor.rank() <= scores.rank();
  for (int axis = 1; fits && axis <= tensor.rank(); ++axis) {
    fits = tensor.size(-axis) == 1 || tensor.size(-axis) == scores[scores.rank() - axis];
  }
  require(fits, function, name, " of a shape that broadcasts to (B, H, L, S) = ", scores, "; found ", tensor.shape());
  return tensor.expand(scores);
}

AttentionProblem check_attention(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
                                 const AttentionOptions& options, DType dtype) {
  require(query.defined() && key.defined() && value.defined(), function,
          "query, key and value; found an undefined tensor");
  const AttentionProblem problem = check_shapes(function, query.shape(), key.shape(), value.shape(), options, dtype);
  require(query.dtype() == dtype && key.dtype() == dtype && value.dtype() == dtype, function,
          "query, key and value in ", dtype, "; found ", query.dtype(), ", ", key.dtype(), " and ", value.dtype());
  return problem;
}

bool has_rows_of_its_own(const Tensor& output) {
  if (output.size(-1) > 1 && output.stride(-1) != 1) return false;
  if (output.numel() == 0) return true;
  std::vector<std::pair<int64_t, int64_t>> axes;  // how far a step is, and how many elements there are
  for (int axis = 0; axis < output.rank(); ++axis)
    if (output.size(axis) > 1) axes.emplace_back(std::abs(output.stride(axis)), output.size(axis));
  std::ranges::sort(axes);
  int64_t reached = 0;  // from the first element, by the shorter steps
  for (const auto& [step, size] : axes) {
    if (step <= reached) return false;
    reached += step * (size - 1);
  }
  return true;
}

AttentionProblem check_shapes(std::string_view function, const Shape& query, const Shape& key, const Shape& value,
                              const AttentionOptions& options, DType dtype) {
  require(query.rank() == 4 && key.rank() == 4 && value.rank() == 4, function,
          "query (B, H, L, D), key (B, Hkv, S, D) and value (B, Hkv, S, Dv); found ", query, ", ", key, " and ", value);
  require(query[0] == key[0] && key[0] == value[0], function, "one batch size; found query ", query, ", key ", key,
          " and value ", value);
  require(key[1] == value[1] && key[2] == value[2], function, "as many values as keys; found key ", key, " and value ",
          value);
  require(query[3] == key[3], function, "query and key of one head size; found ", query, " and ", key);
  require(key[1] == query[1] || (key[1] > 0 && query[1] % key[1] == 0), function,
          "query heads as a multiple of key/value heads; found ", query[1], " and ", key[1]);

  AttentionProblem problem;
  problem.batch = query[0];
  problem.heads = query[1];
  problem.kv_heads = key[1];
  problem.queries = query[2];
  problem.keys = key[2];
  problem.size = query[3];
  problem.value_size = value[3];
  problem.options = options;
  problem.scale = options.scale       ? static_cast<double>(*options.scale)
                  : problem.size == 0 ? 1.0
                                      : 1.0 / std::sqrt(static_cast<double>(problem.size));
  require(std::isfinite(problem.scale), function, "a finite scale; found ", problem.scale);
  require(std::isfinite(options.softcap) && options.softcap >= 0, function, "a softcap of 0 (off) or more; found ",
          options.softcap);
  require(options.dropout.rate >= 0 && options.dropout.rate < 1, function, "a dropout rate in [0, 1); found ",
          options.dropout.rate);
  require(options.window.left >= -1 && options.window.right >= -1, function,
          "window extents of 0 or more, or -1 for no bound; found ", options.window.left, " and ",
          options.window.right);

  const Shape scores{problem.batch, problem.heads, problem.queries, problem.keys};
  if (options.mask.defined()) {
    require(options.mask.dtype() == DType::boolean, function, "a boolean mask (true = attends); found ",
            options.mask.dtype());
    problem.mask = expand_to_scores(function, "a mask", options.mask, scores);
  }
  if (options.bias.defined()) {
    const DType found = options.bias.dtype();
    require(found == DType::f32 || (found == DType::f64 && dtype == DType::f64), function, "a bias in f32; found ",
            found);
    problem.bias = expand_to_scores(function, "a bias", options.bias, scores);
  }
  require_vector(function, "key_lengths", options.key_lengths, problem.batch, "B", DType::i32);
  if (options.key_lengths.defined()) {
    for (int64_t b = 0; b < problem.batch; ++b) {
      const int64_t length = problem.key_length(b);
      require(0 <= length && length <= problem.keys, function, "key_lengths from 0 to S = ", problem.keys, "; found ",
              length, " for sequence ", b);
    }
  }
  require_vector(function, "alibi_slopes", options.alibi_slopes, problem.heads, "H", DType::f32);
  require_vector(function, "sinks", options.sinks, problem.heads, "H",
                 options.sinks.defined() && dtype == DType::f64 ? options.sinks.dtype() : DType::f32);
  if (options.softcap > 0) problem.stages.push_back({score::Softcap{options.softcap}, {}});
  if (options.alibi_slopes.defined()) {
    problem.stages.push_back({score::Alibi{options.alibi_slopes}, options.alibi_slopes.contiguous()});
  }
  if (options.score.defined()) {
    const Tensor& table = options.score.table();
    if (options.score.has_table()) {
      require(table.defined() && table.dtype() == DType::f32 && table.numel() > 0 && table.numel() <= INT32_MAX,
              function, "a score function's table in f32 of at least one element; found ",
              table.defined() ? to_string(table.shape()) : "none",
              table.defined() ? std::string(" in ") + std::string(to_string(table.dtype())) : "");
    }
    if (const std::optional<Shape> shape = options.score.table_shape(problem.heads)) {
      require(table.shape() == *shape, function, "a table of shape ", *shape, " for this score function and ",
              problem.heads, " heads; found ", table.shape());
    }
    problem.stages.push_back({options.score, options.score.has_table() ? table.contiguous() : Tensor()});
  }
  for (const AttentionProblem::Stage& stage : problem.stages) {
    const bool table = stage.table.defined();
    problem.compiled.push_back({stage.function.function(), stage.function.run(active_isa()),
                                table ? stage.table.data<float>() : nullptr,
                                static_cast<int32_t>(table ? stage.table.numel() : 0)});
  }
  if (options.want.output.defined()) {
    const Tensor& output = options.want.output;
    const Shape shape{problem.batch, problem.heads, problem.queries, problem.value_size};
    require(output.shape() == shape && output.dtype() == dtype, function, "an output of shape ", shape, " in ", dtype,
            "; found ", output.shape(), " in ", output.dtype());
    require(has_rows_of_its_own(output), function,
            "an output with unit stride along its last axis and no element twice; found strides ", output.strides());
  }
  require(options.query_documents.defined() == options.key_documents.defined(), function,
          "both query_documents and key_documents, or neither; found one");
  if (options.query_documents.defined()) {
    require_documents(function, "query_documents", options.query_documents, problem.batch, problem.queries, "(B, L)");
    require_documents(function, "key_documents", options.key_documents, problem.batch, problem.keys, "(B, S)");
  }
  return problem;
}

uint32_t attention_dropout_threshold(float rate) {
  return static_cast<uint32_t>(std::min(65535.0, std::round(static_cast<double>(rate) * 65536.0)));
}

// Eight weights of one query share a Philox block: keys 8n .. 8n + 7, 16 bits each, low halves first. A weight gets 16
// bits, not 32: in the fused kernels the generator would otherwise cost more than the exponentials.
bool attention_dropout_keeps(const AttentionOptions::Dropout& dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
  const uint32_t threshold = attention_dropout_threshold(dropout.rate);
  const uint64_t high = (static_cast<uint64_t>(b) << 32) | static_cast<uint32_t>(h);
  const uint64_t low = (static_cast<uint64_t>(j / 8) << 32) | static_cast<uint32_t>(i);
  const auto words = philox(dropout.seed, high, low);
  const uint32_t word = words[static_cast<size_t>((j % 8) / 2)];
  return ((j % 2 == 0) ? (word & 0xFFFFu) : (word >> 16)) >= threshold;
}

Tensor mask_from_blocked(const Tensor& blocked) {
  require(blocked.defined() && blocked.dtype() == DType::boolean, "mask_from_blocked", "a boolean mask; found ",
          blocked.defined() ? to_string(blocked.dtype()) : std::string_view("an undefined tensor"));
  Tensor mask = blocked.clone();
  bool* const values = mask.data<bool>();
  for (int64_t n = 0; n < mask.numel(); ++n) values[n] = !values[n];
  return mask;
}

}  // namespace heed
