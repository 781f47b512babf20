// How an encoder-only model reads a text: for results, and for pages that show its tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "heed/pipelines.h"
#include "models/sentence_settings.h"

namespace heed::pipelines {

inline constexpr const char* kPromptName = "the prompt";  // in errors

struct EncoderReader {
  std::shared_ptr<const models::Bert> model;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  int64_t longest = 0;      // tokens, special ones included, where no limit is asked for
  int64_t positions = 0;    // as many tokens as the model has: the largest limit
  bool lowercases = false;  // texts that become vectors or scores, as sentence-transformers reads them
  int32_t mask_id = -1;     // -1: none
  std::string mask_token = {};
  bool mask_is_token = false;  // the tokenizer finds it in a text; heed's own tokenizers have none

  // As `folder`, where the tokenizer is, and the settings say.
  [[nodiscard]] static EncoderReader of(std::shared_ptr<const models::Bert> model,
                                        std::shared_ptr<const text::Tokenizer> tokenizer,
                                        const std::filesystem::path& folder, const models::SentenceSettings& settings,
                                        const char* function);

  // A text as the model reads it. heed's own models stand between the begin and the end id, as in training; for those
  // of others the tokenizer knows what stands around.
  [[nodiscard]] text::Tokens read(std::string_view text, const text::TokensOptions& tokens, int64_t place,
                                  const TextOptions& options, const char* function) const;
  // The tokens in front of a text that belong to the prompt, as sentence-transformers counts them: those of the prompt
  // alone without the special one at its end. 0 for an empty prompt.
  [[nodiscard]] int64_t length_of_prompt(const std::string& prompt, const text::TokensOptions& tokens,
                                         const TextOptions& options, const char* function) const;
  // The same, where the mask token in the text is the mask, of a model that guesses masked tokens.
  [[nodiscard]] text::Tokens read_with_masks(std::string_view text, const TextOptions& options,
                                             const char* function) const;
  // A text whose tokens are shown: with its masks where it has any, otherwise as for a vector.
  [[nodiscard]] text::Tokens show(std::string_view text, const TextOptions& options, const char* function) const;
};

// Throws Error for a limit that leaves no token between the special ones; 0 is none.
void require_longest(int64_t longest, const char* function);

}  // namespace heed::pipelines
