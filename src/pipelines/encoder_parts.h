// What an Encoder has besides its model and its tokenizer.
#pragma once

#include <filesystem>
#include <string>

#include "heed/pipelines.h"
#include "pipelines/sentence_modules.h"
#include "pipelines/sentence_settings.h"
#include "pipelines/sequences.h"

namespace heed {

struct Encoder::Parts {
  std::filesystem::path folder;
  std::shared_ptr<const models::Bert> model;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  pipelines::SentenceModules modules;
  pipelines::SentenceSettings settings;
  pipelines::Scores scores;
  int64_t longest;  // tokens, special ones included
  int32_t mask_id;  // -1: none
  std::string mask_token;

  // A text as the model reads it. heed's own models stand between the begin and the end id, as in training; for those
  // of others the tokenizer knows what stands around.
  [[nodiscard]] text::Tokens read(std::string_view text, const text::TokensOptions& tokens, int64_t place,
                                  const TextOptions& options, const char* function) const;
  // The same, where the mask token in the text is the mask, of a model that guesses masked tokens.
  [[nodiscard]] text::Tokens read_with_masks(std::string_view text, const TextOptions& options,
                                             const char* function) const;
  [[nodiscard]] pipelines::Sequence sequence_of(const text::Tokens& tokens) const;
  // Throw Error unless the model has this head, or that which finds answers.
  void require_head(models::Head head, const char* function) const;
  void require_answers(const char* function) const;
};

}  // namespace heed
