// A tokenizer of Hugging Face's kind: normalizer, pre-tokenizers, model, post-processor and decoders in a row.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fork.h"
#include "heed/text.h"
#include "text/huggingface/added_tokens.h"
#include "text/huggingface/decoders.h"
#include "text/huggingface/model.h"
#include "text/huggingface/normalizers.h"
#include "text/huggingface/post_processor.h"
#include "text/huggingface/pre_tokenizers.h"

namespace heed::text::huggingface {

// A file as it was read, so that it can be written again.
struct KeptFile {
  std::string name, bytes;
};

struct TokenizerParts {
  NormalizerPointer normalizer = {};  // may be none
  std::vector<PreTokenizerPointer> pre_tokenizers = {};
  ModelPointer model = {};
  std::vector<AddedToken> added_tokens = {};
  PostProcessor post_processor = {};
  std::vector<DecoderPointer> decoders = {};  // none: tokens are joined with spaces
  Truncation truncation = {};
  SpecialIds special = {.padding = -1, .begin = -1, .end = -1, .unknown = -1};
  std::vector<KeptFile> files = {};
};

class HuggingFaceTokenizer : public Tokenizer {
 public:
  explicit HuggingFaceTokenizer(TokenizerParts parts);

  [[nodiscard]] std::vector<int32_t> encode(std::string_view text) const override;
  [[nodiscard]] Tokens tokens(std::string_view text, const TokensOptions& options) const override;
  [[nodiscard]] std::optional<int32_t> id_of(std::string_view token) const override;
  [[nodiscard]] std::string decode(std::span<const int32_t> ids) const override;
  [[nodiscard]] std::string piece(int32_t id) const override;
  [[nodiscard]] int64_t vocabulary() const override { return vocabulary_; }
  [[nodiscard]] SpecialIds special() const override { return parts_.special; }
  [[nodiscard]] std::string kind() const override { return parts_.model->kind(); }
  [[nodiscard]] bool cuts_left() const override { return parts_.truncation.from_left; }
  void save(const std::filesystem::path& folder, Side side) const override;

 private:
  class Encoding;
  struct Way {  // how a text is read
    bool parse_special = false, with_spans = false, lowercase = false;
  };
  [[nodiscard]] Encoded encoded(std::string_view text, const Way& way) const;
  [[nodiscard]] std::vector<const Normalizer*> normalizers(bool lowercase) const;
  [[nodiscard]] const AddedTokens& added_in(const Way& way) const;

  TokenizerParts parts_;
  AddedTokens added_;
  int64_t vocabulary_ = 0;
  bool needs_origins_ = false;
  // For texts that are read in lower case. The tokens are made when the first such text comes.
  NormalizerPointer lowercase_ = lowercase_normalizer();
  mutable std::once_flag lower_made_;
  mutable AddedTokens lower_added_;
  std::vector<Encoded::Spaces> spaces_;  // [id], where spans are trimmed
  mutable ForkSafeMutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace heed::text::huggingface
