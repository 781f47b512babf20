// tokenizer.json. One that loads must also cut text, and join it.
#include "fuzz/target.h"
#include "heed/error.h"
#include "heed/text.h"

HEED_FUZZ_TARGET(
    tokenizer_json, .file = "tokenizer.json", .read = [](const Path& file) {
      const auto tokenizer = heed::text::load_tokenizer_json(file);
      try {
        const auto tokens = tokenizer->tokens("A \xef\xac\x81rst caf\xc3\xa9, isn't\n it? \xe4\xb8\xad 12<s>",
                                              {.pair = "b [SEP]", .parse_special = true});
        (void)tokenizer->decode(tokens.ids);
      } catch (const heed::Error&) {  // text that it cannot cut; the message is about the text
      }
    })
