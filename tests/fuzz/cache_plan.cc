// corpus.json of a token cache: the input is what follows its first line, which has the checksum.
#include "train/cache_plan.h"
#include "base/files.h"
#include "fuzz/target.h"

HEED_FUZZ_TARGET(
    cache_plan, .file = "corpus.json",
    .read =
        [](const Path& file) {
          const std::string text = heed::files::read_all(file, 1 << 20, "token_cache");
          (void)heed::train::plan_from_text(text, heed::files::quoted(file));
        },
    .seal =
        [](std::string_view contents) {
          const heed::files::Checksum sum{.size = static_cast<int64_t>(contents.size()),
                                          .crc = heed::files::crc32(contents)};
          return "heed-token-cache 1 " + to_string(sum) + "\n" + std::string(contents);
        })
