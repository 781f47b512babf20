// The folder of a training: may a training continue there, and how a failed one is undone.
#pragma once

#include <filesystem>
#include <set>
#include <vector>

namespace heed::train {

// Throws Error unless a training was begun in `folder`. It need not have a checkpoint yet.
void require_begun(const std::filesystem::path& folder);

// Makes a folder and its parents, and can remove what a training put into it.
class RunFolder {
 public:
  explicit RunFolder(const std::filesystem::path& folder);
  // Unless there is a checkpoint: removes the training's own files that were not there before, and the
  // folders that were made, if they are empty then.
  void take_back() const;

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> made_;  // folders, the innermost first
  std::set<std::filesystem::path> before_;   // files that were there
};

}  // namespace heed::train
