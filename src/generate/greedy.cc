// Greedy search: each step takes the token with the largest logit, which a decoder may know without all logits.
#include "generate/greedy.h"

#include "generate/rows.h"
#include "generate/rules.h"
#include "heed/error.h"
#include "heed/ops.h"

namespace heed::generate {
namespace {

constexpr const char* kCaller = "beam_search";

}  // namespace

bool is_greedy(const BeamOptions& options) {
  // With StopWhen::possible the second best token may live on behind an end.
  return options.beam == 1 && options.n_best == 1 && !options.scores && options.no_repeat_ngram == 0 &&
         options.repetition_penalty == 1 && options.suppressed_sequences.empty() && !options.on_step &&
         options.stop_when.value_or(StopWhen::best) != StopWhen::possible;
}

std::vector<std::vector<Hypothesis>> greedy_search(models::Decoder& decoder, int64_t sources, int32_t begin_id,
                                                   int32_t end_id, std::span<const int64_t> limits,
                                                   const BeamOptions& options) {
  const TokenRules rules(options, decoder.vocabulary(), end_id, kCaller);
  std::vector<std::vector<Hypothesis>> results(static_cast<size_t>(sources));
  const auto result_of = [&](int64_t source) -> Hypothesis& { return results[static_cast<size_t>(source)][0]; };
  std::vector<int64_t> active, rows;  // sources that go on, and the rows that they have in the decoder
  std::vector<int32_t> tokens;
  for (int64_t s = 0; s < sources; ++s) {
    results[static_cast<size_t>(s)].resize(1);
    result_of(s).score = kNoScore;
    if (limits[static_cast<size_t>(s)] <= 0) continue;
    active.push_back(s);
    rows.push_back(s);
    tokens.push_back(begin_id);
  }
  int64_t decoder_rows = sources;
  for (int64_t length = 0; !active.empty(); ++length) {
    if (std::ssize(rows) < decoder_rows) decoder.reorder(rows);
    decoder_rows = std::ssize(rows);
    if (options.stop && options.stop()) {
      for (const int64_t s : active) results[static_cast<size_t>(s)].clear();  // the end may still have been to come
      break;
    }
    const Tensor input = Tensor::from(std::span<const int32_t>(tokens), {decoder_rows, 1});
    const std::vector<int32_t> largest = decoder.step_greedy(input, rules.blocked(length));
    require(std::ssize(largest) == decoder_rows, kCaller, "a token for each of ", decoder_rows, " rows; found ",
            largest.size());
    std::vector<int64_t> still_active;
    rows.clear();
    tokens.clear();
    for (int64_t r = 0; r < decoder_rows; ++r) {
      const int64_t source = active[static_cast<size_t>(r)], limit = limits[static_cast<size_t>(source)];
      int32_t id = largest[static_cast<size_t>(r)];
      require_finite(id != ops::kNotFinite, kCaller);
      if (const int32_t forced = rules.forced(length, limit); forced >= 0) id = forced;
      if (id == ops::kNoLargest) continue;  // nothing may follow: what there is is the result
      Hypothesis& result = result_of(source);
      if (id == end_id && rules.may_end(length, limit)) {
        result.finished = true;
        continue;
      }
      result.ids.push_back(id);
      if (length + 1 >= limit) continue;
      still_active.push_back(source);
      rows.push_back(r);
      tokens.push_back(id);
    }
    active = std::move(still_active);
  }
  return results;
}

}  // namespace heed::generate
