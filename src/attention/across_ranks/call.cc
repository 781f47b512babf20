#include "attention/across_ranks/call.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "attention/across_ranks/agreement.h"
#include "base/sha256.h"
#include "heed/error.h"

namespace heed::distributed {
namespace {

// Whether the rows of a mask fit one row for each query, and one for all. Both where a rank has one query or none.
enum RowFlags : int64_t { kEachMaskRow = 1, kOneMaskRow = 2, kEachBiasRow = 4, kOneBiasRow = 8 };

std::string numbers(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const std::string_view bytes(static_cast<const char*>(dense.raw()), static_cast<size_t>(dense.nbytes()));
  const std::array<uint8_t, 32> hash = sha256(bytes);
  const std::string text(hash.begin(), hash.end());
  return to_string(tensor.shape()) + " with hash " + base64(text).substr(0, 8);
}

std::string numbers_or_none(const Tensor& tensor) { return tensor.defined() ? numbers(tensor) : "none"; }

std::string exact(float number) {
  std::string text;
  detail::append(text, number);
  return text;
}

std::string text_of(const Causal& causal) {
  if (!causal.enabled()) return "none";
  const int64_t a = causal.offset_for(0, 0), b = causal.offset_for(0, 1);
  return a == b ? "offset " + std::to_string(a) : "bottom right";
}

Tensor with_four_axes(const Tensor& tensor) {
  Shape shape;
  for (int axis = tensor.rank(); axis < 4; ++axis) shape.push_back(1);
  for (int axis = 0; axis < tensor.rank(); ++axis) shape.push_back(tensor.size(axis));
  return tensor.rank() == 4 ? tensor : tensor.expand(shape);
}

// All axes but that of the queries.
std::string text_of_scores(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  const Tensor four = with_four_axes(tensor);
  return "(" + std::to_string(four.size(0)) + ", " + std::to_string(four.size(1)) + ", any, " +
         std::to_string(four.size(3)) + ")";
}

int64_t row_flags(const Tensor& tensor, int64_t queries, int64_t each, int64_t one) {
  if (!tensor.defined() || queries == 0) return each | one;
  const int64_t rows = with_four_axes(tensor).size(2);
  return (rows == queries ? each : 0) | (rows == 1 ? one : 0);
}

ScoreRows score_rows(std::string_view function, std::string_view name, const Tensor& tensor, int64_t flags,
                     int64_t each, int64_t one) {
  if (!tensor.defined()) return {};
  require((flags & (each | one)) != 0, function, "a ", name,
          " with a row for each query on all ranks, or with one row for all of them on all ranks; found both");
  return {with_four_axes(tensor), (flags & each) != 0};
}

// Six digits: processors may differ in the last one of sixteen.
std::string rounded(double number) {
  if (number != number) return "NaN";
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", std::abs(number) < 1e-6 ? 0.0 : number);
  return text;
}

// What a score function makes of a few scores, for a few pairs of the problem. The numbers of its table, which are
// compared as such, are 0 here; how the function uses them shows in the slope.
void add_score_results(Facts& facts, const AttentionProblem& p, const Score& score) {
  if (std::min({p.batch, p.heads, p.queries, p.keys}) == 0) return;
  const int64_t entries = score.has_table() ? score.table().numel() : 0;
  constexpr int64_t kPairs = 5;
  for (int64_t n = 0; n < kPairs; ++n) {
    const auto place = [&](int64_t count, int64_t step) { return (count - 1) * (n * step % kPairs) / (kPairs - 1); };
    const int64_t b = place(p.batch, 1), h = place(p.heads, 2), i = place(p.queries, 3), offset = p.score_offset(b);
    const int64_t near = std::clamp<int64_t>(i + offset - 2 * n + 1, 0, p.keys - 1);
    for (const int64_t j : {near, place(p.keys, 4)}) {
      for (const double given : {-3.0, 0.5, 2.0, 5.0, 12.0}) {
        const score::Evaluated found = score.one(given, nullptr, entries, score::OnePair{h, i, j, offset, b});
        std::string text = rounded(found.value) + " with slope " + rounded(found.by_score);
        if (score.has_table()) {
          text += ", and slope " + rounded(found.by_entry) + " for table element " + std::to_string(found.entry) + ",";
        }
        facts.add("result of the score function", text + " for a score of " + rounded(given) + " (sequence " +
                                                      std::to_string(b) + ", head " + std::to_string(h) + ", query " +
                                                      std::to_string(i) + ", key " + std::to_string(j) + ")");
      }
    }
  }
}

Facts facts_of(const AttentionProblem& p, DType dtype, const AttentionLayouts& layouts, std::string_view function,
               const AttentionOptions& o, const kernels::Engine& engine) {
  Facts facts;
  facts.add("function", std::string(function));
  facts.add("batch size", std::to_string(p.batch));
  facts.add("number of query heads", std::to_string(p.heads));
  facts.add("number of key/value heads", std::to_string(p.kv_heads));
  facts.add("head size of query and key", std::to_string(p.size));
  facts.add("head size of value", std::to_string(p.value_size));
  facts.add("dtype", std::string(to_string(dtype)));
  facts.add("layout of the queries", text_of(layouts.queries));
  facts.add("layout of the keys", text_of(layouts.keys));
  facts.add("scale", exact(static_cast<float>(p.scale)));
  facts.add("causal mask", text_of(o.causal));
  facts.add("window", std::to_string(o.window.left) + " and " + std::to_string(o.window.right));
  facts.add("key_lengths", numbers_or_none(o.key_lengths));
  facts.add("shape of the mask", text_of_scores(o.mask));
  facts.add("shape of the bias", text_of_scores(o.bias));
  facts.add("softcap", exact(o.softcap));
  facts.add("alibi_slopes", numbers_or_none(o.alibi_slopes));
  facts.add("score function", !o.score.defined()    ? "none"
                              : o.score.has_table() ? "one with a table " + numbers(o.score.table())
                                                    : "one without a table");
  if (o.score.defined()) add_score_results(facts, p, o.score);
  facts.add("sinks", numbers_or_none(o.sinks));
  facts.add("documents", o.query_documents.defined() ? "given" : "none");
  facts.add("dropout", "rate " + exact(o.dropout.rate) + " with seed " + std::to_string(o.dropout.seed));
  if (dtype == DType::bf16) facts.add("engine for bf16", engine.name);
  return facts;
}

void refuse_what_needs_all_keys(std::string_view function, const AttentionOptions& options) {
  const auto refuse = [&](bool wanted, std::string_view name) {
    require(!wanted, function, "no ", name, ", which are not computed across ranks; found them wanted");
  };
  refuse(options.want.weights, "want.weights");
  refuse(options.want.scores, "want.scores");
  refuse(options.want.taps.any(), "want.taps");
}

void check_layout(std::string_view function, std::string_view what, const Communicator& ranks,
                  const SequenceLayout& layout, int64_t rows) {
  layout.check(function);
  require(layout.ranks() == ranks.size(), function, "a layout of the ", what, " for ", ranks.size(),
          " ranks; found one for ", layout.ranks());
  const int64_t own = layout.rows(ranks.rank());
  require(own == rows, function, own, " ", what, " on ", ranks.name_of(ranks.rank()), ", as its layout says; found ",
          rows);
}

// (B, 1, rows, 1)
Tensor as_rows(const Tensor& documents) {
  if (!documents.defined()) return {};
  const Tensor dense = documents.contiguous();
  return dense.reshape({dense.size(0), 1, dense.size(1), 1});
}

}  // namespace

bool WholeCall::sees(const Run& queries, const Run& unit) const {
  for (int64_t b = 0; b < problem.batch; ++b) {
    const KeyRange range = problem.unclamped_range(b);
    const int64_t end = std::min(unit.end(), problem.key_length(b));
    if (range.begin < range.end && queries.first + range.begin < end && unit.first < end &&
        queries.end() - 1 + range.end > unit.first) {
      return true;
    }
  }
  return false;
}

WholeCall agree_on_call(Communicator& ranks, std::string_view function, const Tensor& query, const Tensor& key,
                        const Tensor& value, const AttentionOptions& options, const AttentionLayouts& layouts,
                        bool backward, const std::function<void(const AttentionProblem& own)>& more) {
  const auto rows = [](const Tensor& tensor) { return tensor.defined() && tensor.rank() == 4 ? tensor.size(2) : 0; };
  const int64_t mine[2] = {rows(query), rows(key)};
  std::vector<int64_t> lengths(2 * static_cast<size_t>(ranks.size()));
  ranks.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(lengths)));

  WholeCall call;
  Facts facts;
  std::string failure;
  int64_t flags = 0;
  try {
    call.dtype = query.defined() && is_half(query.dtype()) ? query.dtype() : DType::f32;
    // What every rank has whole, with this rank's rows; then the whole; then what has this rank's rows of queries.
    AttentionOptions common = options;
    common.mask = common.bias = common.query_documents = common.key_documents = common.want.output = Tensor();
    AttentionOptions local = common;
    local.key_lengths = Tensor();
    local.query_documents = options.query_documents, local.key_documents = options.key_documents;
    (void)check_attention(function, query, key, value, local, call.dtype);
    refuse_what_needs_all_keys(function, options);
    call.layouts = layouts;
    for (const bool keys : {false, true}) {
      SequenceLayout& layout = keys ? call.layouts.keys : call.layouts.queries;
      if (layout.runs.empty()) {
        std::vector<int64_t> own;
        for (size_t r = 0; r < lengths.size() / 2; ++r) own.push_back(lengths[2 * r + (keys ? 1 : 0)]);
        layout = SequenceLayout::of_lengths(own);
      }
      check_layout(function, keys ? "keys" : "queries", ranks, layout, mine[keys ? 1 : 0]);
    }
    Shape q = query.shape(), k = key.shape(), v = value.shape();
    k[2] = v[2] = call.layouts.keys.length();
    AttentionOptions own = common;
    own.mask = options.mask, own.bias = options.bias, own.want.output = options.want.output;
    more(check_shapes(function, q, k, v, own, call.dtype));
    q[2] = call.layouts.queries.length();
    call.problem = check_shapes(function, q, k, v, common, call.dtype);
    const AttentionProblem& p = call.problem;
    const bool bf16 = call.dtype == DType::bf16;
    call.engine = &(backward ? backward_engine(p, bf16) : forward_engine(p, bf16));
    if (call.engine->whole_groups) call.engine = &kernels::f32_tiles();  // decoding has the same bits
    facts = facts_of(p, call.dtype, call.layouts, function, options, *call.engine);
    flags = row_flags(options.mask, mine[0], kEachMaskRow, kOneMaskRow) |
            row_flags(options.bias, mine[0], kEachBiasRow, kOneBiasRow);
  } catch (const Error& error) {
    failure = error.what();
  }
  for (const int64_t theirs : agree(ranks, function, facts, failure, flags)) flags &= theirs;
  call.mask = score_rows(function, "mask", options.mask, flags, kEachMaskRow, kOneMaskRow);
  call.bias = score_rows(function, "bias", options.bias, flags, kEachBiasRow, kOneBiasRow);
  call.query_documents = as_rows(options.query_documents);
  call.key_documents = as_rows(options.key_documents);
  return call;
}

AttentionProblem problem_of(const WholeCall& call, const Run& queries, int64_t row, const UnitKeys& unit) {
  AttentionProblem p = call.problem;
  p.part = {.queries = p.queries, .keys = p.keys, .first_query = queries.first, .first_key = unit.run.first};
  const auto scores = [&](const ScoreRows& rows) {
    if (!rows.tensor.defined()) return Tensor();
    const Tensor own = rows.each_row ? rows.tensor.slice(2, row, row + queries.count) : rows.tensor;
    return own.expand({p.batch, p.heads, queries.count, p.part->keys}).slice(3, unit.run.first, unit.run.end());
  };
  p.mask = scores(call.mask);
  p.bias = scores(call.bias);
  p.queries = queries.count;
  p.keys = unit.run.count;
  if (call.query_documents.defined()) {
    const auto without_ones = [](const Tensor& documents) { return documents.select(3, 0).select(1, 0); };
    p.options.query_documents = without_ones(call.query_documents.slice(2, row, row + queries.count));
    p.options.key_documents = without_ones(unit.documents);
  }
  return p;
}

}  // namespace heed::distributed
