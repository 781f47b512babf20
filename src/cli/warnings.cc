#include "cli/warnings.h"

#include <fmt/core.h>

#include "cli/console.h"
#include "cli/numbers.h"

namespace heed::cli {

namespace {

using Kind = TextWarning::Kind;

// Warnings of a kind that are written one by one.
int64_t most_told(Kind kind) { return kind == Kind::unknown ? 1 : 10; }

}  // namespace

TextWarnings::~TextWarnings() {
  for (const auto& [kind, count] : count_) {
    if (count <= most_told(kind)) continue;
    warn(fmt::format("{} lines in all are {}", with_commas(count),
                     kind == Kind::unknown ? "mostly unknown to the model" : "longer than the model reads"));
  }
}

TextOptions TextWarnings::options(TooLong too_long) {
  return {.too_long = too_long,
          .on_warning =
              [this](const TextWarning& warning) {
                if (++count_[warning.kind] > most_told(warning.kind)) return;
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
