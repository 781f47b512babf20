// The pieces of a text, in a time that grows with its length.
//
// SentencePiece joins unknown characters that follow each other to one piece, and its library copies what it has joined
// so far for each of them: in 0.1.97, 200,000 Chinese characters for a model of English took 7 s, twice as many 60. It
// joins nothing where a model spells unknown characters in bytes. So long texts are cut by a copy of the model that
// does, with 256 pieces for bytes behind its own, and the bytes are joined here. Where a text is cut stays the same,
// because pieces for bytes take no part in that.
#pragma once

#include <sentencepiece_processor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace heed::text {

class SentencePieceCutter {
 public:
  static constexpr size_t kLongText = 4096;  // bytes

  struct Piece {
    int32_t id = 0;
    std::string spelling;        // after the model's normalisation; spaces are "▁"
    int64_t begin = 0, end = 0;  // bytes of the text
  };

  explicit SentencePieceCutter(std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor)
      : processor_(std::move(processor)) {}

  // text: valid UTF-8. What the library's Encode() gives.
  [[nodiscard]] std::vector<Piece> pieces(std::string_view text) const;
  [[nodiscard]] std::vector<int32_t> ids(std::string_view text) const;

 private:
  // Null where the model spells unknown characters in bytes itself, or has a piece that looks like a byte's.
  [[nodiscard]] const sentencepiece::SentencePieceProcessor* with_bytes() const;

  std::shared_ptr<const sentencepiece::SentencePieceProcessor> processor_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<sentencepiece::SentencePieceProcessor> with_bytes_;
};

}  // namespace heed::text
