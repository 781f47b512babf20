#include "pipelines/recording.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/io.h"
#include "pipelines/sentence_modules.h"

namespace heed {
namespace pipelines {
namespace {

struct Sizes {
  int64_t weights = 0;  // of all layers, of one head
  int64_t masked = 0;
};

Sizes sizes_of(const models::Config& config, int64_t source, int64_t target) {
  const bool encodes = config.architecture != models::Architecture::decoder_only;
  const bool decodes = config.architecture != models::Architecture::encoder_only;
  Sizes sizes;
  if (encodes) sizes.weights += config.encoder_layers * source * source;
  if (decodes) {
    sizes.weights += config.decoder_layers * target * target;
    sizes.masked = config.decoder_layers * (target * (target - 1) / 2);
  }
  if (encodes && decodes) sizes.weights += config.decoder_layers * target * source;
  return sizes;
}

}  // namespace

int64_t groups_of(const models::Config& config, int64_t source, int64_t target, const RecordOptions& options) {
  constexpr int64_t kMostGroups = 256;
  if (std::max(source, target) <= options.pool_above) return 0;
  if (options.most_groups > 0) return options.most_groups;
  int64_t groups = kMostGroups;
  while (groups > 1 && config.heads * sizes_of(config, std::min(source, groups), std::min(target, groups)).weights >
                           inspect::kWeightsOfAPage) {
    --groups;
  }
  return groups;
}

void announce_size(const models::Config& config, int64_t source, int64_t target, const RecordOptions& options) {
  if (const int64_t groups = groups_of(config, source, target, options); groups > 0) {
    if (options.on_pooled) options.on_pooled(std::max(source, target), groups);
    source = std::min(source, groups);
    target = std::min(target, groups);
  }
  if (!options.on_size) return;
  const Sizes sizes = sizes_of(config, source, target);
  options.on_size(sizes.weights * config.heads, sizes.masked * config.heads);
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
