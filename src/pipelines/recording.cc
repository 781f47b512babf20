#include "pipelines/recording.h"

#include "heed/error.h"
#include "heed/io.h"
#include "pipelines/sentence_modules.h"

namespace heed {
namespace pipelines {

void announce_size(const models::Config& config, int64_t source, int64_t target, const RecordOptions& options) {
  if (!options.on_size) return;
  const bool encodes = config.architecture != models::Architecture::decoder_only;
  const bool decodes = config.architecture != models::Architecture::encoder_only;
  int64_t weights = 0, masked = 0;
  if (encodes) weights += config.encoder_layers * source * source;
  if (decodes) {
    weights += config.decoder_layers * target * target;
    masked = config.decoder_layers * (target * (target - 1) / 2);
  }
  if (encodes && decodes) weights += config.decoder_layers * target * source;
  options.on_size(weights * config.heads, masked * config.heads);
}

}  // namespace pipelines

models::Architecture architecture_of(const std::filesystem::path& folder) {
  return models::read_config(pipelines::SentenceModules::encoder_folder(io::find_model_folder(folder.string())))
      .architecture;
}

inspect::Record record_attention(const std::filesystem::path& folder, std::string_view text,
                                 const RecordOptions& options) {
  switch (architecture_of(folder)) {
    case models::Architecture::encoder_decoder: return Translator::load(folder).record(text, options);
    case models::Architecture::decoder_only: return Generator::load(folder).record(text, options);
    case models::Architecture::encoder_only: return Encoder::load(folder).record(text, options);
  }
  fail("record_attention", folder.string(), ": a model of a known kind; found another");
}

}  // namespace heed
