#include "serve/version.h"

#include <algorithm>
#include <vector>

#include "models/sentence_settings.h"
#include "text/tokenizers.h"

namespace heed::serve {
namespace {

namespace fs = std::filesystem;

// "SIZE.TIME "; empty for a file that is not there.
std::string stamp_of(const fs::path& file) {
  std::error_code absent;
  const auto size = fs::file_size(file, absent);
  if (absent) return {};
  const auto time = fs::last_write_time(file, absent);
  if (absent) return {};
  return std::to_string(size) + "." + std::to_string(time.time_since_epoch().count()) + " ";
}

// Of an index and the shards beside it. Which of them the index names is not read: others change it too.
std::string stamp_of_shards(const fs::path& folder) {
  std::string stamp = stamp_of(folder / "model.safetensors.index.json");
  if (stamp.empty()) return {};
  std::vector<fs::path> shards;
  std::error_code absent;
  for (fs::directory_iterator at(folder, absent), end; !absent && at != end; at.increment(absent))
    if (at->path().extension() == ".safetensors") shards.push_back(at->path());
  std::sort(shards.begin(), shards.end());  // a folder has no order of its own
  for (const fs::path& shard : shards) stamp += stamp_of(shard);
  return stamp;
}

}  // namespace

std::string version_of(const ModelFolders& folders) {
  const std::string config = stamp_of(folders.weights / "config.json");
  std::string weights = stamp_of(folders.weights / "model.safetensors");
  if (weights.empty()) weights = stamp_of_shards(folders.weights);
  if (config.empty() || weights.empty()) return {};
  std::string version = config + weights;
  for (const char* const file : text::tokenizer_files()) version += stamp_of(folders.tokenizers / file);
  version += stamp_of(folders.tokenizers / "generation_config.json");
  for (const char* const file : models::sentence_settings_files()) version += stamp_of(folders.tokenizers / file);
  version += stamp_of(folders.named / "config_sentence_transformers.json");
  version.pop_back();
  return version;
}

}  // namespace heed::serve
