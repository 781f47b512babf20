// The folder of a training: may a training continue there, and how a failed one is undone.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/train.h"

namespace heed::train {

// The files of a tokenizer, and of generation settings, that a model folder may have.
[[nodiscard]] std::span<const char* const> tokenizer_files();

// Throws Error unless a training was begun in `folder`. It need not have a checkpoint yet.
void require_begun(const std::filesystem::path& folder);

// The folders that a training makes for modules of sentence-transformers, below its own.
[[nodiscard]] std::vector<std::filesystem::path> modules_to_write(const Recipe& recipe);

// Throws Error where a training, a model or a file of one is there, `modules` included.
void require_unused(const std::filesystem::path& folder, bool has_checkpoints,
                    std::span<const std::filesystem::path> modules);

// Removes what a process that was killed left of files that it was writing.
void remove_half_written(const std::filesystem::path& folder);

// A run that was killed before its first checkpoint begins again. One with a model has had checkpoints, and is an
// Error.
void require_only_begun(const std::filesystem::path& folder, const std::function<void(std::string_view)>& message);

// Something that no other run writes: other processes know the folder by it.
[[nodiscard]] std::string mark_of_this_run();

// Makes a folder and its parents, and can remove what a training put into it.
class RunFolder {
 public:
  explicit RunFolder(const std::filesystem::path& folder);
  // Unless there is a checkpoint: removes the training's own files that were not there before, and the
  // folders that were made, if they are empty then.
  void take_back() const;

 private:
  void take_back_modules() const;  // the folders that modules.json names

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // folders, the innermost first
  std::set<std::filesystem::path> before_;   // the names of what was in the folder
};

}  // namespace heed::train
