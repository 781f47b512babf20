// Folders with small untrained models of each kind, and their tokenizers.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "heed/models.h"
#include "heed/text.h"

namespace heed::test {

namespace fs = std::filesystem;

// A folder of its own, removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "heed-pipelines-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The source is cut at spaces, the target into characters.
inline const std::vector<std::string> kSource = {"where is the station and when does the train leave it"};
inline const std::vector<std::string> kTarget = {"车站在哪里火来了\n"};

inline models::Config small_config(models::Architecture architecture, int64_t source, int64_t target) {
  models::Config config = models::preset("tiny", architecture);
  config.source_vocabulary = architecture == models::Architecture::decoder_only ? 0 : source;
  config.target_vocabulary = architecture == models::Architecture::encoder_only ? 0 : target;
  config.encoder_layers = 2;
  config.decoder_layers = 3;
  config.width = 16;
  config.heads = 2;
  config.feed_forward = 32;
  config.max_length = 24;
  return config;
}

// With `mask`, an encoder-only model has one token more than its tokenizer, as training makes it.
inline fs::path make_model(const fs::path& folder, models::Architecture architecture, bool mask = false) {
  const auto source = text::train_pieces(kSource);
  const auto target = text::train_characters(kTarget);
  models::Config config = small_config(architecture, source->vocabulary(), target->vocabulary());
  if (mask) config.mask_id = config.source_vocabulary++;
  models::save(*models::create(config, 3), folder);
  if (architecture != models::Architecture::decoder_only) source->save(folder, text::Side::source);
  if (architecture != models::Architecture::encoder_only) target->save(folder, text::Side::target);
  return folder;
}

}  // namespace heed::test
