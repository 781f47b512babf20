// The translation of many lines, for `heed translate` and `heed evaluate`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/line_job.h"
#include "heed/pipelines.h"

namespace heed::cli {

// Without an input. `output_of` makes what is written of a source and its translations, with line ends. The translator
// must outlive the job.
[[nodiscard]] LineJob translation_job(
    const Translator& translator, const TranslatorOptions& options,
    std::function<std::string(const std::string& source, const std::vector<Translation>& translations)> output_of);

// Warns where the folder of a model asks for tokens that are drawn at random ("do_sample"): heed's search draws none.
void warn_of_samples(const std::string& model);

}  // namespace heed::cli
