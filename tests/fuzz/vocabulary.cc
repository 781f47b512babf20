#include "fuzz/target.h"
#include "heed/text.h"
#include "text/tokenizers.h"

HEED_FUZZ_TARGET(
    vocabulary, .file = "source.vocab", .read = [](const Path& file) {
      const auto tokenizer = heed::text::load_vocabulary(file);
      if (tokenizer->special().unknown < 0) return;  // such a vocabulary refuses other texts than its own
      (void)tokenizer->decode(tokenizer->encode("a caf\xc3\xa9 \xe4\xb8\xad."));
    })
