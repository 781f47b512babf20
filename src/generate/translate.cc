// Many sentences: sorted by length, cut into batches, searched, and put back in order. And scoring of given targets.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "generate/rows.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "heed/text.h"

namespace heed::generate {
namespace {

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

// Longest first: a batch that does not fit in memory fails at once, and the rest of the bar runs faster than it
// promised.
std::vector<int64_t> by_length(size_t count, const std::function<int64_t(int64_t)>& length) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length(a) > length(b); });
  return order;
}

}  // namespace

std::vector<std::vector<Hypothesis>> translate(const models::Transformer& model, std::span<const Ids> sources,
                                               const TranslateOptions& options,
                                               const std::function<void(int64_t, int64_t)>& progress) {
  constexpr const char* kName = "translate";
  const models::Config& config = model.config();
  require(options.batch_tokens >= 1, kName, "batches of 1 token or more; found ", options.batch_tokens);
  check_ids(kName, "source", sources, config.source_vocabulary, config.max_length);
  const NoGradScope no_grad;

  BeamOptions search = options.search;
  search.one_row = true;
  require(search.beam >= 1, kName, "a beam of 1 or more; found ", search.beam);
  // No text has these inside; but a model that others trained goes by the settings in its folder alone.
  for (const int64_t id : {config.padding_id, config.begin_id})
    if (model.origin() == nullptr && id >= 0 && id < config.target_vocabulary && id != config.end_id)
      search.suppressed.push_back(static_cast<int32_t>(id));

  const auto limit_of = [&](size_t source_length) {
    int64_t limit = std::min(search.max_length, config.max_length - 1);
    if (search.length_factor > 0)
      limit = std::min(
          limit, static_cast<int64_t>(search.length_factor * static_cast<double>(source_length)) + search.length_extra);
    return std::max<int64_t>(limit, 1);
  };

  std::vector<std::vector<Hypothesis>> results(sources.size());
  const auto length = [&](int64_t i) { return static_cast<int64_t>(sources[static_cast<size_t>(i)].size()); };
  const std::vector<int64_t> order = by_length(sources.size(), length);
  const int64_t count = static_cast<int64_t>(order.size());
  int64_t begin = 0;
  while (begin < count) {
    const int64_t longest = length(order[static_cast<size_t>(begin)]);
    if (longest == 0) break;
    if (search.stop && search.stop()) return results;
    int64_t end = begin;
    while (end < count && length(order[static_cast<size_t>(end)]) > 0 &&
           (end == begin || (end - begin + 1) * longest * search.beam <= options.batch_tokens))
      ++end;
    const std::span<const int64_t> members(order.data() + begin, static_cast<size_t>(end - begin));
    const text::Padded batch = pad(sources, members, config.padding_id);
    std::vector<int64_t> limits;
    for (const int64_t i : members) limits.push_back(limit_of(sources[static_cast<size_t>(i)].size()));
    const auto decoder = model.start(batch.ids, batch.lengths, 1, options.cache);
    auto found = beam_search(*decoder, end - begin, static_cast<int32_t>(config.begin_id),
                             static_cast<int32_t>(config.end_id), limits, search);
    for (size_t b = 0; b < members.size(); ++b) results[static_cast<size_t>(members[b])] = std::move(found[b]);
    begin = end;
    if (progress) progress(begin, count);
  }
  for (; begin < count; ++begin) {  // nothing is the translation of nothing
    results[static_cast<size_t>(order[static_cast<size_t>(begin)])].resize(1);
    results[static_cast<size_t>(order[static_cast<size_t>(begin)])][0].finished = true;
  }
  return results;
}

std::vector<std::vector<float>> score(const models::Transformer& model, std::span<const Ids> sources,
                                      std::span<const Ids> targets) {
  constexpr const char* kName = "score";
  constexpr int64_t kBatchTokens = 2048;  // with a vocabulary of 8,000 the logits take 64 MB
  const models::Config& config = model.config();
  require(sources.size() == targets.size(), kName, "as many targets as sources; found ", targets.size(), " and ",
          sources.size());
  check_ids(kName, "source", sources, config.source_vocabulary, config.max_length);
  check_ids(kName, "target", targets, config.target_vocabulary, config.max_length - 1);
  for (size_t i = 0; i < sources.size(); ++i)
    require(!sources[i].empty(), kName, "sources of at least one token; sentence ", i + 1, " is empty");
  const NoGradScope no_grad;

  std::vector<Ids> inputs(targets.size());  // begin, then the target
  for (size_t i = 0; i < targets.size(); ++i) {
    inputs[i].push_back(static_cast<int32_t>(config.begin_id));
    inputs[i].insert(inputs[i].end(), targets[i].begin(), targets[i].end());
  }
  const auto length = [&](int64_t i) {
    return static_cast<int64_t>(
        std::max(sources[static_cast<size_t>(i)].size(), inputs[static_cast<size_t>(i)].size()));
  };
  const std::vector<int64_t> order = by_length(sources.size(), length);
  std::vector<std::vector<float>> results(sources.size());
  const int64_t count = static_cast<int64_t>(order.size());
  for (int64_t begin = 0; begin < count;) {
    const int64_t fit = std::max<int64_t>(1, kBatchTokens / length(order[static_cast<size_t>(begin)]));
    const int64_t end = std::min(count, begin + fit);
    const std::span<const int64_t> members(order.data() + begin, static_cast<size_t>(end - begin));
    const text::Padded source = pad(sources, members, config.padding_id);
    const text::Padded target = pad(inputs, members, config.padding_id);
    const Tensor logits = model.forward(source.ids, source.lengths, target.ids).data().contiguous();      // (B, L, V)
    const std::vector<float> logsumexps = finite_logsumexp(logits.reshape({-1, logits.size(2)}), kName);  // B * L
    const int64_t longest = logits.size(1), vocabulary = logits.size(2);
    for (int64_t b = 0; b < end - begin; ++b) {
      const size_t i = static_cast<size_t>(members[static_cast<size_t>(b)]);
      for (size_t t = 0; t <= targets[i].size(); ++t) {
        const int64_t id = t < targets[i].size() ? targets[i][t] : config.end_id;
        const int64_t row = b * longest + static_cast<int64_t>(t);
        results[i].push_back(logits.data<float>()[row * vocabulary + id] - logsumexps[static_cast<size_t>(row)]);
      }
    }
    begin = end;
  }
  return results;
}

}  // namespace heed::generate
