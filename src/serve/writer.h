// A model that writes one token after the other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heed/generate.h"
#include "serve/changes.h"

namespace heed::serve {

// Without changes it decodes with a cache; with changes each step reads everything anew, under the changes. Both have
// the same bits where the changes are none.
class Writer {
 public:
  // From a reading that decodes.
  Writer(Reading start, const std::vector<Change>& changes);
  // The logits (V) of what comes next.
  [[nodiscard]] std::span<const float> logits();
  void write(int32_t id);
  [[nodiscard]] const Reading& reading() const { return reading_; }
  // Whether another token fits into what the model reads.
  [[nodiscard]] bool has_room() const;

 private:
  Reading reading_;
  Changes changes_;
  std::unique_ptr<models::Decoder> decoder_;
  size_t read_ = 0;  // tokens that the decoder has read
  Tensor row_;
};

// How the next token is chosen.
struct Choice {
  generate::SamplingOptions sampling = {.temperature = 0};
  bool ignore_end = false;
};
struct Step {
  int64_t written = 0;  // tokens so far
  int64_t most = -1;    // that are written; -1: no limit
};
// The token after a reading. Of a model that translates, equal to what generate::translate() chooses with a beam of 1
// and the search of its folder.
[[nodiscard]] int32_t choose(const Reading& reading, std::span<const float> logits, const Choice& choice, Step step);
// The most tokens that are written for a source, as generate::translate() has it.
[[nodiscard]] int64_t most_tokens(const Reading& reading, int64_t wanted);

}  // namespace heed::serve
