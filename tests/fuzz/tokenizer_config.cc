// tokenizer_config.json beside a vocab.txt: what a tokenizer's class, flags and added tokens are. One that loads must
// also cut text, and join it.
#include "base/files.h"
#include "fuzz/target.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/text.h"

HEED_FUZZ_TARGET(
    tokenizer_config, .file = "tokenizer_config.json",
    .read =
        [](const Path& file) {
          const auto tokenizer = heed::text::Tokenizer::load(file.parent_path(), heed::text::Side::source);
          try {
            const auto tokens = tokenizer->tokens(
                "A \xc3\xa9"
                "b [NEW]b \xe4\xb8\xad isn't",
                {.parse_special = true});
            (void)tokenizer->decode(tokens.ids);
          } catch (const heed::Error&) {  // text that it cannot cut; the message is about the text
          }
        },
    .prepare =
        [](const Path& folder) {
          heed::io::write_file_atomically(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\nb\ne\n");
        })
