// SentencePiece models whose pieces have other ids in the network than in the model.
#pragma once

#include <sentencepiece_processor.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "heed/text.h"
#include "text/huggingface/added_tokens.h"
#include "text/huggingface/post_processor.h"
#include "text/huggingface/tokenizer.h"

namespace heed::text::huggingface {

using Processor = sentencepiece::SentencePieceProcessor;

struct MappedParts {
  std::shared_ptr<const Processor> processor;  // cuts text
  std::shared_ptr<const Processor> decoder;    // joins pieces
  std::vector<std::string> pieces;             // [id]
  std::vector<bool> special_pieces;            // [id]: left out by decode()
  PostProcessor post_processor;
  Truncation truncation = {};
  SpecialIds special;
  std::set<std::string> not_in_text = {};  // special pieces that no text names, whatever is asked
  std::vector<AddedToken> added = {};      // found in a text before it is cut; special ones only where that is asked
  bool parses_special = true;
  bool language_codes = false;  // ">>fra<<" before a text is a token
  std::vector<KeptFile> files;
};

[[nodiscard]] std::shared_ptr<const Tokenizer> mapped_sentencepiece(MappedParts parts);

}  // namespace heed::text::huggingface
