// A decoder without a network: the logits are a pure function of what a row has read.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "heed/generate.h"

namespace heed::generate::test {

class ToyDecoder : public models::Decoder {
 public:
  using Logits = std::function<std::vector<float>(const Ids& read, int64_t source)>;

  ToyDecoder(int64_t sources, int64_t copies, int64_t vocabulary, Logits logits)
      : vocabulary_(vocabulary), logits_(std::move(logits)) {
    for (int64_t r = 0; r < sources * copies; ++r) rows_.push_back({r / copies, {}});
  }
  Tensor step(const Tensor& tokens) override {
    most_rows = std::max(most_rows, tokens.size(0));
    last_rows = tokens.size(0);
    std::vector<int64_t> all(static_cast<size_t>(tokens.size(0)));
    std::iota(all.begin(), all.end(), 0);
    return step_some(all, tokens);
  }
  [[nodiscard]] bool steps_some() const override { return by_parts; }
  Tensor step_some(std::span<const int64_t> rows, const Tensor& tokens) override {
    ++steps;
    row_steps += tokens.size(0);
    // As Decoder has it: no row takes a step before all others have taken the one before or are given up.
    size_t shortest = rows_.front().read.size();
    for (const Row& row : rows_) shortest = std::min(shortest, row.read.size());
    for (const int64_t r : rows)
      if (rows_.at(static_cast<size_t>(r)).read.size() != shortest) throw std::logic_error("a row is ahead of others");
    Tensor out = Tensor::empty({tokens.size(0), vocabulary_});
    for (int64_t r = 0; r < tokens.size(0); ++r) {
      Row& row = rows_.at(static_cast<size_t>(rows[static_cast<size_t>(r)]));
      for (int64_t t = 0; t < tokens.size(1); ++t) row.read.push_back(static_cast<int32_t>(tokens.at({r, t})));
      const std::vector<float> x = logits_(row.read, row.source);
      std::copy(x.begin(), x.end(), out.data<float>() + r * vocabulary_);
    }
    return out;
  }
  void step_by_parts(std::span<const int64_t> rows, const Tensor& tokens, const UseLogits& use) override {
    const Tensor all = rows.empty() ? step(tokens) : step_some(rows, tokens);
    const int64_t together = rows_of_part > 0 ? rows_of_part : all.size(0);
    for (int64_t first = 0; first < all.size(0); first += together)
      use(first, all.slice(0, first, std::min(first + together, all.size(0))));
  }
  void reorder(std::span<const int64_t> rows) override {
    std::vector<Row> next;
    for (const int64_t r : rows) next.push_back(rows_.at(static_cast<size_t>(r)));
    rows_ = std::move(next);
  }
  [[nodiscard]] int64_t vocabulary() const override { return vocabulary_; }

  int64_t steps = 0, most_rows = 0, last_rows = 0, row_steps = 0;
  bool by_parts = false;     // steps_some()
  int64_t rows_of_part = 0;  // of step_by_parts(); 0: all

 private:
  struct Row {
    int64_t source = 0;
    Ids read;
  };
  int64_t vocabulary_;
  Logits logits_;
  std::vector<Row> rows_;
};

// Logits in [-scale, scale] that depend on everything read, on the source and on the seed.
inline ToyDecoder::Logits random_logits(int64_t vocabulary, uint64_t seed, float scale = 2) {
  return [=](const Ids& read, int64_t source) {
    uint64_t h = seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(source) + 1;
    const auto mix = [&h](uint64_t x) {
      h ^= x + 0x9E3779B97F4A7C15u + (h << 6) + (h >> 2);
      h *= 0xBF58476D1CE4E5B9u;
      h ^= h >> 29;
    };
    for (const int32_t id : read) mix(static_cast<uint64_t>(id) + 17);
    std::vector<float> x;
    for (int64_t v = 0; v < vocabulary; ++v) {
      mix(static_cast<uint64_t>(v) + 1000);
      x.push_back(scale * (static_cast<float>(h >> 40) * 0x1p-23f - 1.0f));
    }
    return x;
  };
}

inline std::vector<double> log_softmax(const std::vector<float>& x) {
  double total = 0;
  for (const float v : x) total += std::exp(static_cast<double>(v));
  std::vector<double> out;
  for (const float v : x) out.push_back(static_cast<double>(v) - std::log(total));
  return out;
}

}  // namespace heed::generate::test
