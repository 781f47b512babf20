// Many sentences: sorted by length, cut into batches, searched, and put back in order. And scoring of given targets.
#include <algorithm>

#include "generate/rows.h"
#include "generate/rules.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "heed/text.h"
#include "kernels/gemm/int8.h"
#include "models/batches.h"

namespace heed::generate {
namespace {

// Tokens in a batch. On Zen 4, with the shipped model and a beam of 5, 1,536 to 3,072 are equally fast in f32, and 512
// by 8 % slower; in int8, whose products take a third of the time, 512 are by 12 % faster than 2,048, because what lies
// between two products stays in L2. Where int8 has no instructions of its own, its products take as long as those of
// f32, and 512 are by 12 % slower (Zen 3). With a model of the size of OPUS-MT, of width 512, 1,024 tokens are as fast
// as 2,048 and take 110 MB less (Zen 5, a beam of 5, one thread).
constexpr int64_t kBatchTokens = 2048;
constexpr int64_t kWideBatchTokens = 1024;
constexpr int64_t kWideModel = 512;
constexpr int64_t kInt8BatchTokens = 512;
constexpr int64_t kLeastTokens = 512;              // no smaller batches are made for the sake of more threads
constexpr int64_t kMostLogits = int64_t{1} << 26;  // of score(), in all threads: 268 MB

int64_t batch_tokens_for(const models::Transformer& model) {
  if (model.packed_as(WeightFormat::int8) && kernels::multiplies_int8()) return kInt8BatchTokens;
  return model.config().width < kWideModel ? kBatchTokens : kWideBatchTokens;
}

text::Padded pad(std::span<const Ids> sentences, std::span<const int64_t> members, int64_t padding_id) {
  std::vector<Ids> batch;
  for (const int64_t m : members) batch.push_back(sentences[static_cast<size_t>(m)]);
  return text::pad(batch, static_cast<int32_t>(padding_id));
}

void check_ids(const char* function, const char* side, std::span<const Ids> sentences, int64_t vocabulary,
               int64_t longest) {
  for (size_t i = 0; i < sentences.size(); ++i) {
    require(static_cast<int64_t>(sentences[i].size()) <= longest, function, side, " sentences of at most ", longest,
            " tokens; sentence ", i + 1, " has ", sentences[i].size());
    for (const int32_t id : sentences[i])
      require(id >= 0 && id < vocabulary, function, side, " ids below ", vocabulary, "; sentence ", i + 1, " has ", id);
  }
}

}  // namespace

std::vector<std::vector<Hypothesis>> translate(const models::Transformer& model, std::span<const Ids> sources,
                                               const TranslateOptions& options,
                                               const std::function<void(int64_t, int64_t)>& progress) {
  constexpr const char* kName = "translate";
  const models::Config& config = model.config();
  require(options.batch_tokens >= 0, kName, "batches of 1 token or more, or 0; found ", options.batch_tokens);
  check_ids(kName, "source", sources, config.source_vocabulary, config.max_length);

  BeamOptions search = options.search;
  search.one_row = true;
  require(search.beam >= 1 && search.beam <= kLargestBeam, kName, "a beam from 1 to ", kLargestBeam, "; found ",
          search.beam);
  require(search.max_length >= 1, kName, "a max_length of 1 token or more; found ", search.max_length);
  require(search.min_length >= 0, kName, "a min_length of 0 tokens or more; found ", search.min_length);
  require(search.begin_id < config.target_vocabulary, kName, "a begin_id below the ", config.target_vocabulary,
          " of the vocabulary; found ", search.begin_id);
  const int32_t begin_id = search.begin_id >= 0 ? search.begin_id : static_cast<int32_t>(config.begin_id);
  suppress_special(search, model);

  const auto limit_of = [&](size_t source_length) {
    const int64_t limit = std::min(search.max_length, config.max_length - 1);
    const int64_t by_source = longest_for(search, static_cast<int64_t>(source_length));
    return std::max<int64_t>(by_source < 0 ? limit : std::min(limit, by_source), 1);
  };

  const int64_t most = options.batch_tokens > 0 ? options.batch_tokens : batch_tokens_for(model);
  std::vector<int64_t> lengths;  // of the sources, times the beam
  for (const Ids& source : sources) lengths.push_back(std::ssize(source) * search.beam);
  models::Batches batches(lengths, {.most = most, .least = kLeastTokens},
                          search.on_step ? 1 : models::Batches::most_threads());
  const auto ended = [&batches, stop = search.stop] {  // stop() is asked on the calling thread alone
    if (stop && batches.on_caller() && stop()) batches.end();
    return batches.ended();
  };
  search.stop = ended;
  std::vector<std::vector<Hypothesis>> results(sources.size());
  batches.run(
      [&](std::span<const int64_t> members) {
        if (ended()) return;
        const text::Padded batch = pad(sources, members, config.padding_id);
        std::vector<int64_t> limits;
        for (const int64_t i : members) limits.push_back(limit_of(sources[static_cast<size_t>(i)].size()));
        const auto decoder = model.start(batch.ids, batch.lengths, 1, options.cache);
        auto found =
            beam_search(*decoder, std::ssize(members), begin_id, static_cast<int32_t>(config.end_id), limits, search);
        for (size_t b = 0; b < members.size(); ++b) results[static_cast<size_t>(members[b])] = std::move(found[b]);
      },
      [&, tell = batches.tells([&](int64_t done) {
        if (progress) progress(done, std::ssize(sources));
      })] {
        if (!ended()) tell();
      });
  for (size_t i = 0; i < sources.size() && !batches.ended(); ++i) {
    if (!sources[i].empty()) continue;
    results[i].resize(1);  // nothing is the translation of nothing
    results[i][0].finished = true;
  }
  return results;
}

std::vector<std::vector<float>> score(const models::Transformer& model, std::span<const Ids> sources,
                                      std::span<const Ids> targets) {
  constexpr const char* kName = "score";
  const models::Config& config = model.config();
  require(sources.size() == targets.size(), kName, "as many targets as sources; found ", targets.size(), " and ",
          sources.size());
  check_ids(kName, "source", sources, config.source_vocabulary, config.max_length);
  check_ids(kName, "target", targets, config.target_vocabulary, config.max_length - 1);
  for (size_t i = 0; i < sources.size(); ++i)
    require(!sources[i].empty(), kName, "sources of at least one token; sentence ", i + 1, " is empty");

  std::vector<Ids> inputs(targets.size());  // begin, then the target
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < targets.size(); ++i) {
    inputs[i].push_back(static_cast<int32_t>(config.begin_id));
    inputs[i].insert(inputs[i].end(), targets[i].begin(), targets[i].end());
    lengths.push_back(std::max(std::ssize(sources[i]), std::ssize(inputs[i])));
  }
  std::vector<std::vector<float>> results(sources.size());
  const auto score_batch = [&](std::span<const int64_t> members) {
    const text::Padded source = pad(sources, members, config.padding_id);
    const text::Padded target = pad(inputs, members, config.padding_id);
    const Tensor logits = model.forward(source.ids, source.lengths, target.ids).data().contiguous();      // (B, L, V)
    const std::vector<float> logsumexps = finite_logsumexp(logits.reshape({-1, logits.size(2)}), kName);  // B * L
    const int64_t longest = logits.size(1), vocabulary = logits.size(2);
    for (int64_t b = 0; b < std::ssize(members); ++b) {
      const size_t i = static_cast<size_t>(members[static_cast<size_t>(b)]);
      for (size_t t = 0; t <= targets[i].size(); ++t) {
        const int64_t id = t < targets[i].size() ? targets[i][t] : config.end_id;
        const int64_t row = b * longest + static_cast<int64_t>(t);
        results[i].push_back(logits.data<float>()[row * vocabulary + id] - logsumexps[static_cast<size_t>(row)]);
      }
    }
  };
  const int64_t room = kMostLogits / config.target_vocabulary / models::Batches::most_threads();
  const int64_t most = std::clamp<int64_t>(room, 1, kBatchTokens);
  models::Batches(lengths, {.most = most, .least = std::min(most, kLeastTokens)}).run(score_batch, [] {});
  return results;
}

}  // namespace heed::generate
