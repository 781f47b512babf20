// The folder of a training: whether one may begin or go on there, and what is left of one that fails at once.
#pragma once

#include <filesystem>
#include <set>
#include <vector>

namespace heed::train {

// Throws Error unless a training was begun in `folder` that can go on: with checkpoints, or killed before the first.
void require_begun(const std::filesystem::path& folder);

// Makes a folder, with those above it, and can take back what a training put into it.
class RunFolder {
 public:
  explicit RunFolder(const std::filesystem::path& folder);
  // Unless there is a checkpoint: removes the training's own files, as far as they were not there before, and the
  // folders that were made, if they are empty then.
  void take_back() const;

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // folders, the innermost first
  std::set<std::filesystem::path> before_;   // files that were there
};

}  // namespace heed::train
