// Sentences and streams in mapped token files.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "train/sentences.h"
#include "train/token_file.h"

namespace heed::train {

// All parts of a text, in their order. For one thread at a time. However large they are, 64 MB of them at most count as
// memory of this process: pages that were read are given back, and fetched again when they are needed.
class TokenParts {
 public:
  // `kind.part` is that of each file in turn.
  TokenParts(const std::vector<std::filesystem::path>& files, TokenFileKind kind);

  [[nodiscard]] const TokenCounts& counts() const { return counts_; }  // of all parts together
  [[nodiscard]] const TokenFile& part(size_t p) const { return *parts_[p]; }
  [[nodiscard]] size_t size() const { return parts_.size(); }
  // The part with this sentence or token, and the number of the part's first one.
  struct Place {
    size_t part;
    int64_t first;
  };
  [[nodiscard]] Place of_sentence(int64_t sentence) const { return place(first_sentences_, sentence); }
  [[nodiscard]] Place of_token(int64_t token) const { return place(first_tokens_, token); }
  // Notes that bytes were read here, and gives pages back where that makes too many.
  void touched(int64_t bytes) const;

 private:
  [[nodiscard]] static Place place(const std::vector<int64_t>& firsts, int64_t number);

  std::vector<std::unique_ptr<TokenFile>> parts_;
  std::vector<int64_t> first_sentences_, first_tokens_;
  TokenCounts counts_;
  mutable int64_t touched_ = 0;
};

[[nodiscard]] std::shared_ptr<const Sentences> mapped_sentences(std::shared_ptr<const TokenParts> parts, int sides);
// The tokens from `first` to `last`.
[[nodiscard]] std::shared_ptr<const Stream> mapped_stream(std::shared_ptr<const TokenParts> parts, int64_t first,
                                                          int64_t last);

}  // namespace heed::train
