#include "cli/encoder_job.h"

#include <fmt/core.h>

#include <filesystem>
#include <utility>

#include "cli/command.h"
#include "heed/error.h"
#include "text/sentences.h"
#include "text/utf8.h"

namespace heed::cli {

void add_text_source(Options& options, TextSource& source, const std::string& purpose) {
  options.add("TEXT", source.text, "The text to " + purpose + "; without it, the lines of standard input");
  options.add("--input", source.input, "Read this file instead of standard input").takes("FILE");
}

void add_too_long(Options& options, TextSource& source) {
  options.choose("--too-long", source.too_long, {{"cut", TooLong::cut}, {"refuse", TooLong::refuse}},
                 "What to do with a line that is longer than the model can read");
}

void check_text_source(const TextSource& source) {
  if (!source.text) return;
  if (!source.input.empty()) throw UsageError("a text or --input can be given; found both");
  std::error_code ignored;
  if (std::filesystem::is_regular_file(*source.text, ignored))
    throw UsageError(fmt::format("a text is expected after MODEL; found the file {} (--input {} reads its lines)",
                                 in_quotes(*source.text), escaped(*source.text)));
}

bool is_blank(std::string_view line) {
  return text::valid_utf8_prefix(line) == line.size() && text::trimmed(line).empty();
}

LineJob encoder_job(const TextSource& source, MakeLines make) {
  constexpr int64_t kTogether = 256;
  LineJob job{.input = source.input,
              .text = source.text,
              .text_name = source.name,
              .unit = "texts",
              .tells = "Reading text from standard input, one text a line; Ctrl-D ends it.",
              .too_long = source.too_long,
              .largest = kTogether};
  job.work = [make = std::move(make)](const pipelines::LineBatch& batch,
                                      const std::function<void(std::string)>& hand_over) {
    std::vector<TextWarning> warnings;
    std::vector<std::string> made;
    TextOptions together = batch.text;
    together.on_warning = [&](const TextWarning& warning) { warnings.push_back(warning); };
    try {
      made = make(batch.lines, together);
    } catch (const Error&) {  // thrown again below, when its line is reached
      warnings.clear();
    }
    if (batch.text.on_warning)
      for (const TextWarning& warning : warnings) batch.text.on_warning(warning);
    for (size_t i = 0; i < batch.lines.size() && !batch.stop(); ++i) {
      const auto place = static_cast<int64_t>(i);
      if (i < made.size()) {
        hand_over(std::move(made[i]));
      } else {
        TextOptions alone = batch.text;
        alone.name = [&](int64_t) { return batch.text.name(place); };
        alone.on_warning = [&](TextWarning warning) {
          warning.text = place;
          if (batch.text.on_warning) batch.text.on_warning(warning);
        };
        std::vector<std::string> one = make(std::span(batch.lines).subspan(i, 1), alone);
        if (one.empty()) return;  // stopped meanwhile
        hand_over(std::move(one[0]));
      }
      batch.on_done(place + 1);
    }
  };
  return job;
}

}  // namespace heed::cli
