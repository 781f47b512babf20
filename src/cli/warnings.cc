#include "cli/warnings.h"

#include <fmt/core.h>

#include "cli/console.h"
#include "cli/numbers.h"

namespace heed::cli {

TextWarnings::~TextWarnings() {
  if (unknown_ > 1) warn(fmt::format("{} lines in all are mostly unknown to the model", with_commas(unknown_)));
}

TextOptions TextWarnings::options(TooLong too_long) {
  return {.too_long = too_long,
          .on_warning =
              [this](const TextWarning& warning) {
                const bool unknown = warning.kind == TextWarning::Kind::unknown;
                if (unknown && ++unknown_ > 1) return;
                warn(fmt::format("{}: {}", name_(warning.text), to_string(warning)));
              },
          .name = name_};
}

void warn_of_unknown(const text::Tokenizer& tokenizer, std::span<const std::string> lines, const std::string& name) {
  Coverage all;
  for (const std::string& line : lines) {
    const Coverage one = coverage(tokenizer, line, tokenizer.encode(line));
    all.characters += one.characters;
    all.unknown += one.unknown;
  }
  if (!all.mostly_unknown()) return;
  warn(fmt::format("{}: {}", name,
                   to_string(TextWarning{
                       .kind = TextWarning::Kind::unknown, .text = 0, .count = all.unknown, .total = all.characters})));
}

}  // namespace heed::cli
