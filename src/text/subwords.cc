// Forward filtering, backward sampling over the lattice of a unigram model.
#include "text/subwords.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "heed/error.h"
#include "text/utf8.h"

namespace heed::text {

namespace {

constexpr double kUnknownPenalty = 10;  // SentencePiece's kUnkPenalty

Scaled product(const Scaled& a, const Scaled& b) { return {a.fraction * b.fraction, a.exponent + b.exponent}; }

// value / 2^exponent; 0 where that is too small to count beside a number near 1.
double in_units_of(int64_t exponent, const Scaled& value) {
  const int64_t difference = value.exponent - exponent;
  return difference < -1000 ? 0.0 : std::ldexp(value.fraction, static_cast<int>(difference));
}

Scaled normalised(double value, int64_t exponent) {
  int more = 0;
  const double fraction = std::frexp(value, &more);
  return {fraction, exponent + more};
}

// The byte at which each character begins, and the number of bytes.
std::vector<size_t> character_starts(std::string_view text) {
  std::vector<size_t> starts;
  for (size_t at = 0; at < text.size(); at += std::max<size_t>(1, code_point_size(text.substr(at)))) {
    starts.push_back(at);
  }
  starts.push_back(text.size());
  return starts;
}

}  // namespace

Scaled scaled_exp(double x) {
  constexpr double kLog2E = 1.4426950408889634, kLn2High = 0.6931471803691238, kLn2Low = 1.9082149292705877e-10;
  x = std::clamp(x, -1e6, 1e6);  // so that the exponents of long lines do not overflow
  const double power = std::floor(x * kLog2E + 0.5);
  const double r = (x - power * kLn2High) - power * kLn2Low;  // |r| <= 0.35
  double sum = 1;
  for (int n = 14; n > 0; --n) sum = 1 + sum * r / n;
  return normalised(sum, static_cast<int64_t>(power));
}

UnigramSampler::UnigramSampler(const std::vector<Piece>& pieces, int32_t unknown, double alpha,
                               std::function<std::string(std::string_view)> normalise)
    : normalise_(std::move(normalise)) {
  require(alpha > 0 && alpha <= 100, "sampler", "an alpha above 0 and at most 100; found ", alpha);
  require(!pieces.empty(), "sampler", "a unigram model with pieces; found none");
  double lowest = pieces.front().score;
  for (const Piece& piece : pieces) {
    lowest = std::min(lowest, piece.score);
    longest_ = std::max(longest_, character_starts(piece.text).size() - 1);
    pieces_.emplace(piece.text, Entry{piece.id, scaled_exp(alpha * piece.score)});
  }
  unknown_ = {unknown, scaled_exp(alpha * (lowest - kUnknownPenalty))};
}

std::vector<int32_t> UnigramSampler::encode(std::string_view text, uint64_t key, uint64_t stream) const {
  const std::string line = normalise_(text);
  const std::vector<size_t> starts = character_starts(line);
  const size_t count = starts.size() - 1;

  // A piece that may be the last one of the line's first `end` characters. Its weight is that of all segmentations of
  // those characters that end with it.
  struct Choice {
    size_t start = 0;
    int32_t id = 0;
    Scaled weight;
  };
  std::vector<Choice> choices;              // ordered by `end`, then by `start`
  std::vector<size_t> first(count + 2, 0);  // of each `end`
  std::vector<Scaled> prefix(count + 1);    // the weights of all segmentations of the first characters, added up
  prefix[0] = {0.5, 1};
  for (size_t end = 1; end <= count; ++end) {
    first[end] = choices.size();
    int64_t largest = INT64_MIN;
    for (size_t start = end - std::min(end, longest_); start < end; ++start) {
      const auto found = pieces_.find(std::string_view(line).substr(starts[start], starts[end] - starts[start]));
      if (found == pieces_.end() && start + 1 < end) continue;
      const Entry& entry = found == pieces_.end() ? unknown_ : found->second;
      choices.push_back({start, entry.id, product(prefix[start], entry.weight)});
      largest = std::max(largest, choices.back().weight.exponent);
    }
    double sum = 0;
    for (size_t c = first[end]; c < choices.size(); ++c) sum += in_units_of(largest, choices[c].weight);
    prefix[end] = normalised(sum, largest);
  }
  first[count + 1] = choices.size();

  std::vector<int32_t> ids;
  uint64_t draw = 0;
  for (size_t end = count; end > 0;) {
    double sum = 0;
    for (size_t c = first[end]; c < first[end + 1]; ++c) sum += in_units_of(prefix[end].exponent, choices[c].weight);
    const auto words = philox(key, stream, draw++);
    double left = uniform_double(words[0], words[1]) * sum;
    size_t taken = first[end];
    for (; taken + 1 < first[end + 1]; ++taken) {
      const double weight = in_units_of(prefix[end].exponent, choices[taken].weight);
      if (left < weight) break;
      left -= weight;
    }
    const Choice& choice = choices[taken];
    end = choice.start;
    const bool same_run = choice.id == unknown_.id && !ids.empty() && ids.back() == unknown_.id;
    if (!same_run) ids.push_back(choice.id);
  }
  std::reverse(ids.begin(), ids.end());
  return ids;
}

}  // namespace heed::text
