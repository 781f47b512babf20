// A model that loads must also work: its pieces, its character map and its trie are used.
#include "fuzz/target.h"
#include "heed/text.h"

HEED_FUZZ_TARGET(
    sentencepiece, .file = "source.model", .read = [](const Path& file) {
      const auto tokenizer = heed::text::load_sentencepiece(file);
      std::string text = "The \xef\xac\x81rst caf\xc3\xa9 \xe4\xb8\xad.";
      (void)tokenizer->decode(tokenizer->encode(text));
      while (text.size() < 4096) text += text;  // long texts take another way
      (void)tokenizer->tokens(text);
    })
