#include "cli/translation_job.h"

#include <fmt/core.h>

#include <utility>

#include "cli/command.h"
#include "heed/generate.h"
#include "heed/io.h"

namespace heed::cli {

LineJob translation_job(
    const Translator& translator, const TranslatorOptions& options,
    std::function<std::string(const std::string& source, const std::vector<Translation>& translations)> output_of) {
  const int64_t largest = Translator::largest_group(options);
  LineJob job{.unit = "sentences", .largest = largest};
  job.work = [&translator, options, largest, output_of = std::move(output_of)](
                 const pipelines::LineBatch& batch, const std::function<void(std::string)>& hand_over) {
    TranslatorOptions own = options;
    own.first_group = largest;
    own.text = batch.text;
    own.search.stop = batch.stop;
    own.progress = batch.on_done;
    translator.translate(batch.lines, own, [&](int64_t place, const std::vector<Translation>& translations) {
      hand_over(output_of(batch.lines[static_cast<size_t>(place)], translations));
    });
  };
  return job;
}

void warn_of_samples(const std::string& model) {
  if (generate::asks_for_samples(io::find_model_folder(model)))
    warn(fmt::format("{} asks for tokens drawn at random (\"do_sample\"); heed searches for the best translation",
                     escaped(model)));
}

}  // namespace heed::cli
