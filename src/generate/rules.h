// The part of a search's options that is about tokens: which must come next, which may not, and which lose.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/generate.h"

namespace heed::generate {

// Hypotheses that a search keeps. Far more than anybody searches with, and each of them is a row of the decoder.
inline constexpr int64_t kLargestBeam = 10000;

class TokenRules {
 public:
  // Throws Error, naming `function`, for ids outside of the vocabulary.
  TokenRules(const BeamOptions& options, int64_t vocabulary, int32_t end_id, const char* function);

  [[nodiscard]] bool in_prefix(int64_t length) const { return length < std::ssize(prefix_); }
  // The token that must come after `length` tokens, whatever its probability; -1: any. `limit`: the most tokens there
  // may be; -1: any number.
  [[nodiscard]] int32_t forced(int64_t length, int64_t limit) const;
  // Whether the end id ends an output of `length` tokens: it may be a token of the prefix.
  [[nodiscard]] bool may_end(int64_t length, int64_t limit) const {
    return !in_prefix(length) || (length + 1 == limit && last_id_ >= 0);
  }
  // For each token of the vocabulary, 1 where it may not come after `length` tokens, whatever these are.
  [[nodiscard]] const std::vector<uint8_t>& blocked(int64_t length) const {
    if (length == std::ssize(prefix_)) return length < min_length_ ? first_no_end_ : first_;
    return length < min_length_ ? blocked_no_end_ : blocked_;
  }
  // Whether the tokens before decide, too, which of them may come next.
  [[nodiscard]] bool look_back() const { return repeat_ > 0 || !sequences_.empty(); }
  // Adds every token that may not come after `ids`, the begin id being the first of these: it would complete n tokens
  // that `ids` have already, or a suppressed sequence.
  void block_after(std::span<const int32_t> ids, std::vector<uint8_t>& blocked) const;
  // What repetition_penalty makes of the scores (V) of what comes after `ids`; penalises(): it changes some.
  [[nodiscard]] bool penalises() const { return penalty_ != 1; }
  void penalise(const Ids& ids, std::span<float> scores) const;

 private:
  Ids prefix_;
  int32_t last_id_;
  int64_t min_length_, repeat_;
  double penalty_;
  std::vector<Ids> sequences_;
  std::vector<uint8_t> blocked_, blocked_no_end_;
  std::vector<uint8_t> first_, first_no_end_;  // of the first token behind the prefix
};

// The longest output for a source of so many tokens, by length_factor: at least min_length. -1: any.
[[nodiscard]] int64_t longest_for(const BeamOptions& options, int64_t source_length);

// No text has padding or begin inside. But a model that others trained goes by the settings in its folder alone.
void suppress_special(BeamOptions& options, const models::Transformer& model);

}  // namespace heed::generate
