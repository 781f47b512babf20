// The loop that continues a text, a token at a time.
#include <algorithm>

#include "base/philox.h"
#include "generate/rows.h"
#include "heed/error.h"
#include "heed/generate.h"

namespace heed::generate {
namespace {

constexpr size_t kPromptPart = 1024;  // tokens of a prompt between two looks at options.stop(): some tenths of a second

}  // namespace

Hypothesis sample_text(const models::Gpt& model, const Ids& prompt, const SamplingOptions& options,
                       const std::function<bool(int32_t)>& on_token) {
  constexpr const char* kName = "sample_text";
  const models::Config& config = model.config();
  require(!prompt.empty(), kName, "a prompt of at least one token");
  require(options.max_tokens >= 0, kName, "max_tokens of 0 or more; found ", options.max_tokens);
  const int64_t room = config.max_length;
  const NoGradScope no_grad;

  Ids context = prompt;  // what the model has read or is about to read
  const auto stopped = [&] { return options.stop && options.stop(); };
  const auto start = [&](int64_t keep) {
    if (static_cast<int64_t>(context.size()) > keep) context.erase(context.begin(), context.end() - keep);
    auto decoder = model.start(options.cache);
    Tensor logits;  // undefined once options.stop() has said so
    for (std::span<const int32_t> rest = context; !rest.empty();) {
      if (stopped()) return std::pair(std::move(decoder), Tensor());
      const auto part = rest.first(std::min(rest.size(), kPromptPart));
      logits = decoder->step(Tensor::from(part, {int64_t{1}, std::ssize(part)}));
      rest = rest.subspan(part.size());
    }
    return std::pair(std::move(decoder), std::move(logits));
  };

  Hypothesis result;
  if (options.max_tokens == 0) return result;
  auto [decoder, logits] = start(room);
  for (int64_t n = 0; n < options.max_tokens && logits.defined(); ++n) {
    const Tensor row = logits.contiguous();  // (1, V)
    const std::span<const float> x(row.data<float>(), static_cast<size_t>(row.numel()));
    const std::vector<double> distribution = sampling_distribution(x, options);
    const auto words = philox(options.seed, 0, static_cast<uint64_t>(n));
    const int32_t id = sample(distribution, uniform_double(words[0], words[1]));
    const double log_prob = static_cast<double>(x[static_cast<size_t>(id)] - finite_logsumexp(row, kName)[0]);
    result.log_probs.push_back(static_cast<float>(log_prob));
    result.score += log_prob;
    if (std::find(options.stop_ids.begin(), options.stop_ids.end(), id) != options.stop_ids.end()) {
      result.finished = true;
      break;
    }
    result.ids.push_back(id);
    if (on_token && !on_token(id)) break;
    if (n + 1 == options.max_tokens) break;
    context.push_back(id);
    if (static_cast<int64_t>(context.size()) > room) {
      // The window is full: read its newer half again and go on from there. Two passes a token at most, on average.
      std::tie(decoder, logits) = start(std::max<int64_t>(1, room / 2));
    } else if (stopped()) {
      break;
    } else {
      logits = decoder->step(Tensor::from(std::span<const int32_t>(&id, 1), {int64_t{1}, int64_t{1}}));
    }
  }
  return result;
}

}  // namespace heed::generate
