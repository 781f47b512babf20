// BLEU (Papineni et al. 2002), computed as sacreBLEU 2 does (Post 2018): n-grams to order 4 over the whole corpus,
// counts clipped at the most any reference has, the closest reference length, "exp" smoothing.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "heed/error.h"
#include "heed/train.h"
#include "train/bleu_tokenize.h"

namespace heed::train {
namespace {

constexpr size_t kOrder = 4;

using Counts = std::array<std::unordered_map<std::string, int64_t>, kOrder>;

Counts count_ngrams(const std::vector<std::string>& tokens) {
  Counts counts;
  for (size_t begin = 0; begin < tokens.size(); ++begin) {
    std::string ngram;
    for (size_t n = 0; n < kOrder && begin + n < tokens.size(); ++n) {
      if (n > 0) ngram += ' ';  // tokens have no spaces
      ngram += tokens[begin + n];
      ++counts[n][ngram];
    }
  }
  return counts;
}

struct Statistics {
  std::array<int64_t, kOrder> correct{};
  std::array<int64_t, kOrder> total{};
};

Bleu score(const Statistics& s, int64_t system_length, int64_t reference_length) {
  Bleu result{.system_length = system_length, .reference_length = reference_length};
  result.brevity_penalty = 1;
  if (system_length < reference_length) {
    result.brevity_penalty =
        system_length > 0 ? std::exp(1 - static_cast<double>(reference_length) / static_cast<double>(system_length))
                          : 0;
  }
  if (std::all_of(s.correct.begin(), s.correct.end(), [](int64_t count) { return count == 0; })) return result;
  double smoothing = 1;  // doubles for every order without a match
  double sum = 0;
  for (size_t n = 0; n < kOrder && s.total[n] > 0; ++n) {
    if (s.correct[n] == 0) smoothing *= 2;
    result.precisions[n] = s.correct[n] == 0
                               ? 100 / (smoothing * static_cast<double>(s.total[n]))
                               : 100 * static_cast<double>(s.correct[n]) / static_cast<double>(s.total[n]);
  }
  for (const double precision : result.precisions) sum += precision > 0 ? std::log(precision) : -9999999999.0;
  result.score = result.brevity_penalty * std::exp(sum / kOrder);
  return result;
}

std::string fixed(double value, int digits) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits).ptr};
}

}  // namespace

Bleu bleu(std::span<const std::string> system, std::span<const std::vector<std::string>> references,
          const BleuOptions& options) {
  const BleuTokenizer tokenizer = parse_bleu_tokenizer(options.tokenize);
  require(!system.empty(), "bleu", "sentences to score; found none");
  require(!references.empty(), "bleu", "at least one set of references; found none");
  for (size_t r = 0; r < references.size(); ++r) {
    require(references[r].size() == system.size(), "bleu", "a reference for each of ", system.size(),
            " sentences; set ", r + 1, " has ", references[r].size());
  }

  Statistics statistics;
  int64_t system_length = 0, reference_length = 0;
  for (size_t i = 0; i < system.size(); ++i) {
    const std::vector<std::string> tokens = bleu_tokens(system[i], tokenizer, options.lowercase);
    const auto length = static_cast<int64_t>(tokens.size());
    const bool some =
        std::any_of(references.begin(), references.end(), [i](const auto& set) { return !set[i].empty(); });
    Counts most;
    int64_t closest = -1;
    for (const std::vector<std::string>& set : references) {
      if (some && set[i].empty()) continue;  // no such reference; where all are empty, the reference is empty
      const std::vector<std::string> reference = bleu_tokens(set[i], tokenizer, options.lowercase);
      const auto candidate = static_cast<int64_t>(reference.size());
      const int64_t distance = std::abs(candidate - length), best = std::abs(closest - length);
      if (closest < 0 || distance < best || (distance == best && candidate < closest)) closest = candidate;
      const Counts counts = count_ngrams(reference);
      for (size_t n = 0; n < kOrder; ++n) {
        for (const auto& [ngram, count] : counts[n]) {
          int64_t& seen = most[n][ngram];
          seen = std::max(seen, count);
        }
      }
    }
    const Counts counts = count_ngrams(tokens);
    for (size_t n = 0; n < kOrder; ++n) {
      for (const auto& [ngram, count] : counts[n]) {
        statistics.total[n] += count;
        if (const auto found = most[n].find(ngram); found != most[n].end()) {
          statistics.correct[n] += std::min(count, found->second);
        }
      }
    }
    system_length += length;
    reference_length += closest;
  }
  return score(statistics, system_length, reference_length);
}

std::string to_string(const Bleu& bleu) {
  const double ratio = bleu.reference_length > 0
                           ? static_cast<double>(bleu.system_length) / static_cast<double>(bleu.reference_length)
                           : 0;
  std::string text = "BLEU = " + fixed(bleu.score, 2);
  for (size_t n = 0; n < kOrder; ++n) text += (n == 0 ? ' ' : '/') + fixed(bleu.precisions[n], 1);
  return text + " (BP = " + fixed(bleu.brevity_penalty, 3) + " ratio = " + fixed(ratio, 3) +
         " hyp_len = " + std::to_string(bleu.system_length) + " ref_len = " + std::to_string(bleu.reference_length) +
         ")";
}

}  // namespace heed::train
