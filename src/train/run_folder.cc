// Making the folder of a training, and undoing that.
#include "train/run_folder.h"

#include <algorithm>

#include "base/files.h"
#include "heed/error.h"

namespace heed::train {

namespace {

namespace fs = std::filesystem;

// What a training writes before its first checkpoint.
constexpr const char* kOwn[] = {".lock",        "config.json",  "recipe.json",  "log.jsonl",    "heldout.tsv",
                                "source.model", "target.model", "source.vocab", "target.vocab", "checkpoints"};

}  // namespace

void require_begun(const fs::path& folder) {
  constexpr const char* kAdvice = "; leave out --resume to begin one";
  std::error_code ignored;
  require(fs::is_directory(folder, ignored), "train", files::quoted(folder),
          ": a folder with a training to continue; found no such folder", kAdvice);
  // Every training makes this file first.
  require(fs::exists(folder / ".lock", ignored), "train", files::quoted(folder),
          ": a folder with a training to continue; found none in it", kAdvice);
}

RunFolder::RunFolder(const fs::path& folder) : folder_(folder) {
  std::error_code error;
  for (fs::path missing = fs::absolute(folder, error).lexically_normal(); !fs::exists(missing, error);
       missing = missing.parent_path()) {
    if (missing.has_filename()) made_.push_back(missing);  // "folder/" is followed by "folder"
  }
  for (const char* const name : kOwn) {
    if (fs::exists(folder / name, error)) before_.insert(name);
  }
  fs::create_directories(folder, error);
  require(!error, "train", files::quoted(folder), ": a folder that can be made; ", error.message());
}

void RunFolder::take_back() const {
  std::error_code ignored;
  const fs::path checkpoints = folder_ / "checkpoints";
  if (fs::exists(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored)) return;
  for (const char* const name : kOwn) {
    if (before_.contains(name)) continue;
    fs::remove(folder_ / name, ignored);
  }
  for (const fs::path& folder : made_) fs::remove(folder, ignored);  // only if it is empty
}

}  // namespace heed::train
