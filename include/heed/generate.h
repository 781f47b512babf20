// Decoding: greedy, beam and sampling, over anything that can take a step (models::Decoder).
//
//   auto hypotheses = generate::translate(transformer, sources, {.beam = 5});
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "heed/export.h"
#include "heed/models.h"

HEED_EXPORT_BEGIN
namespace heed::generate {

using Ids = std::vector<int32_t>;

struct Hypothesis {
  Ids ids;                       // without begin and end
  std::vector<float> log_probs;  // of each id, then of the end id where it was reached
  bool finished = false;         // ended by itself, not by the limit
  double score = 0;              // what hypotheses are ranked by; NaN where BeamOptions::scores is false
};

// One step of a beam search, of one source: what became of its hypotheses. Nodes are tokens; a hypothesis is the way
// from a first token (parent -1) to a node.
struct BeamStep {
  struct Node {
    int64_t node = -1;  // its number; -1: the end token, which no hypothesis goes on from
    int64_t parent = -1;
    int32_t id = -1;
    double log_prob = 0;
    double sum = 0;  // of the log probabilities
  };
  struct Dropped {
    int64_t node = -1;  // of which no extension went on
    double best = 0;    // the largest sum of its extensions
    double least = 0;   // the smallest sum of an extension that went on instead
  };
  int64_t source = 0;
  int64_t length = 0;             // tokens before this step
  std::vector<Node> chosen = {};  // extensions that go on, and ends among the best `beam`, the best first
  std::vector<Dropped> dropped = {};
};

// When a search for a source ends before its limit, once `beam` hypotheses are finished: each says what the best living
// one must not exceed.
enum class StopWhen {
  best,      // with its present length, the best finished one
  worst,     // with its present length, the worst of the finished ones (early_stopping false in transformers)
  possible,  // with its longest length, the worst of the finished ones ("never" in transformers)
  full       // nothing: `beam` finished ones are enough (early_stopping true in transformers)
};

struct BeamOptions {
  int64_t beam = 5;    // 1: greedy
  int64_t n_best = 1;  // how many hypotheses to return, best first; at most beam
  // false: nobody needs scores and log probabilities. Hypotheses have NaN and none. Greedy search then finds the same
  // tokens without most of the logits.
  bool scores = true;
  // score = sum of log probabilities / length_norm + length_reward |y|, the length |y| counting the end token.
  // alpha: length_norm = |y|^alpha, or ((5 + |y|) / 6)^alpha with `gnmt`. Not given: 1; Translator takes what the
  // model's folder says.
  std::optional<double> length_penalty = {};
  bool gnmt = false;  // Wu et al. 2016, equation 14
  // Models of little data leave words out; a reward for each token brings them back (Murray and Chiang 2018, with
  // length_penalty 0). Below 0: shorter outputs.
  double length_reward = 0;
  int64_t max_length = 256;  // tokens, the end not counted
  int64_t min_length = 0;
  // Longest output for a source of n tokens: min(max_length, max(min_length, factor * n + extra)); 0:
  // max_length alone.
  // Not given: 2; Translator takes 0 for models of others.
  std::optional<double> length_factor = {};
  int64_t length_extra = 20;
  std::optional<StopWhen> stop_when = {};  // not given: best; Translator takes what the model's folder says
  int32_t begin_id = -1;                   // what the decoder of translate() begins with; -1: the model's begin_id
  Ids prefix = {};                         // forced first tokens
  int32_t last_id = -1;      // the forced last token of an output that reaches its limit, the end as a rule; -1: none
  bool forced_free = false;  // what is forced adds nothing to the sum, as in transformers
  int64_t no_repeat_ngram = 0;  // no n tokens occur twice in an output, the begin id counted; 0: they may
  // Tokens that an output has already, the begin id counted, lose: their log probabilities are multiplied by it. With a
  // beam of 1 it is their logits, which are divided where they are above 0 (Keskar et al. 2019, section 4.1). 1: off.
  double repetition_penalty = 1;
  std::vector<int32_t> suppressed = {};        // never chosen
  std::vector<Ids> suppressed_sequences = {};  // the last token of each is never chosen behind the others
  std::vector<int32_t> suppressed_first = {};  // not chosen as the first token behind the prefix
  // Probabilities are those among the tokens that may come next, as with renormalize_logits in transformers. Else they
  // are the model's, and blocked tokens keep their share.
  bool renormalised = false;
  bool one_row = false;  // the decoder begins with one row a source, not with `beam` equal ones: a step costs less
  // Asked before each step. Once it says true the search ends, and sources that are not done have no hypotheses.
  std::function<bool()> stop = {};
  // Told after each step, source by source.
  std::function<void(const BeamStep&)> on_step = {};
};

// One decoder of `sources * beam` rows (`sources` with one_row), grouped by source; every row starts with begin_id.
// limits: the longest output of each source; a hypothesis that reaches it is returned unfinished. options.stop_when
// says when a source is done. Returns at most n_best hypotheses a source, best first. Equal sums of log probabilities
// are ordered by beam row, then by token id. Log probabilities are the model's: suppressed and forced tokens do not
// change them (but see forced_free, renormalised and repetition_penalty).
[[nodiscard]] std::vector<std::vector<Hypothesis>> beam_search(models::Decoder& decoder, int64_t sources,
                                                               int32_t begin_id, int32_t end_id,
                                                               std::span<const int64_t> limits,
                                                               const BeamOptions& options);

// What a folder of Hugging Face says of its search: generation_config.json, or config.json in older folders. Settings
// that heed's search does not have are refused by name. heed never samples in a search: see asks_for_samples().
[[nodiscard]] BeamOptions search_settings(const std::filesystem::path& folder);
// Whether this file says "do_sample", so that transformers would draw tokens at random.
[[nodiscard]] bool asks_for_samples(const std::filesystem::path& folder);

struct SamplingOptions {
  double temperature = 1.0;  // 0: greedy
  int64_t top_k = 0;         // 0: all
  double top_p = 1.0;        // nucleus: the smallest set of tokens with this probability (Holtzman et al. 2020)
  double min_p = 0.0;        // tokens with at least this share of the best one's probability
  uint64_t seed = 0;
  int64_t max_tokens = 256;
  std::vector<int32_t> stop_ids = {};  // end the text; not part of it
  KeyValueCache::Options cache = {};   // how keys and values are kept between steps
  // Asked before each step, and every 1,024 tokens of a prompt. Once it says true the text ends.
  std::function<bool()> stop = {};
};

// The filtered, renormalised distribution of one step, sorted as the ids are: probabilities (V), zero where excluded.
[[nodiscard]] std::vector<double> sampling_distribution(std::span<const float> logits, const SamplingOptions& options);
// The token that `uniform` in [0, 1) selects. Pure: randomness comes in as a number.
[[nodiscard]] int32_t sample(std::span<const double> distribution, double uniform);

// Continues `prompt` (one id at least). Where the model's max_length is reached, it reads the newer half of its window
// again and goes on. on_token sees each new id as it is made and may return false to stop.
[[nodiscard]] Hypothesis sample_text(const models::Gpt& model, const Ids& prompt, const SamplingOptions& options,
                                     const std::function<bool(int32_t)>& on_token = {});

struct TranslateOptions {
  BeamOptions search = {};
  // Source tokens in one batch at most, padding and beam included. 0: 2,048; 1,024 for models of width 512 and more;
  // 512 where weights are packed as int8 and the processor multiplies int8 (VNNI, AVX-VNNI or AMX).
  int64_t batch_tokens = 0;
  KeyValueCache::Options cache = {};  // how keys and values are kept between steps
};
// Sources as the encoder reads them (models of train::train() have the end id last) -> n_best hypotheses each, in the
// given order; batched by length inside. No result depends on the batches. Padding and begin are never chosen. An empty
// source gives one empty hypothesis. Where search.stop() ends the work, the sources that are not done have none.
// Several batches are searched at once, each on a thread of its own and in memory of its own; with search.on_step, one.
// stop(), on_step() and
// progress(done, all) are called on the calling thread alone.
[[nodiscard]] std::vector<std::vector<Hypothesis>> translate(
    const models::Transformer& model, std::span<const Ids> sources, const TranslateOptions& options = {},
    const std::function<void(int64_t, int64_t)>& progress = {});

// Log probabilities of given targets (without begin and end), sources as for translate(): one list a pair, the end's
// last.
[[nodiscard]] std::vector<std::vector<float>> score(const models::Transformer& model, std::span<const Ids> sources,
                                                    std::span<const Ids> targets);

}  // namespace heed::generate
HEED_EXPORT_END
