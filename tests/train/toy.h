// Small trainings that take a second: sentences of letters, to be copied.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/message.h"
#include "base/philox.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/train.h"

namespace heed::train {

// A folder of its own for each test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-train-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Tests on one thread, unless they are about threads: these models are too small to share, and the machine may be busy.
class OneThread : public ::testing::Test {
 protected:
  void SetUp() override { set_num_threads(1); }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

inline void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

inline std::string read_text(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// `count` lines of 2 to 6 letters out of eight, with spaces between.
inline std::string letters(int64_t count, uint64_t seed) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    const auto length = 2 + philox(seed, 0, static_cast<uint64_t>(i))[0] % 5;
    for (uint32_t k = 0; k < length; ++k) {
      if (k > 0) text += ' ';
      text += static_cast<char>('a' + philox(seed, 1 + k, static_cast<uint64_t>(i))[1] % 8);
    }
    text += '\n';
  }
  return text;
}

// A recipe that learns to copy, its text written into `folder`.
inline Recipe copy_recipe(const std::filesystem::path& folder) {
  write_text(folder / "train.txt", letters(240, 1));
  write_text(folder / "valid.txt", letters(24, 2));
  Recipe recipe;
  recipe.train_source = recipe.train_target = (folder / "train.txt").string();
  recipe.valid_source = recipe.valid_target = (folder / "valid.txt").string();
  recipe.tokenizer = "pieces";
  recipe.shared_vocabulary = true;
  recipe.preset = "tiny";
  recipe.model = models::preset("tiny");
  recipe.model.encoder_layers = recipe.model.decoder_layers = 1;
  recipe.model.width = 32;
  recipe.model.feed_forward = 64;
  recipe.model.heads = 2;
  recipe.model.dropout = 0.1f;
  recipe.model.attention_dropout = 0.1f;
  recipe.model.max_length = 16;
  recipe.model.share_embeddings = true;
  recipe.batch_tokens = 96;
  recipe.label_smoothing = 0.1f;
  recipe.schedule = {.kind = ScheduleKind::inverse_sqrt, .peak = 5e-3, .warmup = 20};
  recipe.max_updates = 30;
  recipe.validate_every = 7;
  recipe.keep_last = 3;
  recipe.log_every = 4;
  return recipe;
}

inline ::testing::AssertionResult same_bytes(const std::filesystem::path& a, const std::filesystem::path& b) {
  const std::string x = read_text(a), y = read_text(b);
  if (x.empty()) return ::testing::AssertionFailure() << a << " is empty or missing";
  if (x != y) return ::testing::AssertionFailure() << a << " and " << b << " differ";
  return ::testing::AssertionSuccess();
}

using testing::message_of;

inline Outcome run(const Recipe& recipe, const std::filesystem::path& folder, bool resume = false) {
  return train(recipe, folder, resume, {});
}

}  // namespace heed::train
