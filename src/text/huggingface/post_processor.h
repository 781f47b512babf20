// What stands around a text: the post-processors of tokenizer.json as two lists of pieces.
#pragma once

#include <string_view>
#include <vector>

#include "heed/text.h"

namespace heed::text::huggingface {

struct TemplatePiece {
  enum class Kind { text, pair, special };
  Kind kind = Kind::text;
  Ids ids = {};         // of special tokens
  int32_t segment = 0;  // token type id
};

struct PostProcessor {
  // Spans leave out the white space that byte-level tokens begin and end with; one that was added to the text is not
  // in the span of the first token anyway. One entry for each processor that does so.
  struct Trim {
    bool add_prefix_space = true;
  };
  std::vector<Trim> trims = {};
  std::vector<TemplatePiece> single = {{.kind = TemplatePiece::Kind::text}};
  std::vector<TemplatePiece> pair = {{.kind = TemplatePiece::Kind::text},
                                     {.kind = TemplatePiece::Kind::pair, .segment = 1}};

  [[nodiscard]] int64_t added(bool is_pair) const {
    int64_t count = 0;
    for (const TemplatePiece& piece : is_pair ? pair : single) count += static_cast<int64_t>(piece.ids.size());
    return count;
  }
};

// Of two texts the longer one is shortened, as transformers does whatever tokenizer.json says.
struct Truncation {
  bool from_left = false;  // drop the beginning instead of the end
};

// The tokens of one text.
struct Encoded {
  Ids ids;
  std::vector<Span> spans;
  std::vector<int32_t> words;
  struct Spaces {
    uint16_t leading = 0, trailing = 0;  // characters of white space in the token
  };
  std::vector<Spaces> spaces;  // only where spans are trimmed
};

// Leaves at most `most` tokens in both, and returns how many were dropped.
[[nodiscard]] int64_t truncate(Encoded& text, Encoded* pair, int64_t most, const Truncation& truncation);
void trim_spans(Encoded& encoded, std::string_view text, const PostProcessor::Trim& trim);
[[nodiscard]] Tokens assemble(const PostProcessor& processor, const Encoded& text, const Encoded* pair,
                              bool add_special);

}  // namespace heed::text::huggingface
