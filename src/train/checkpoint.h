// Checkpoints on disk. A checkpoint is complete and verified, or it does not exist.
//
// folder/checkpoints/step-00001234/{config.json, model.safetensors, optimizer.safetensors, state.json}, and
// modules.safetensors where Dense modules are trained (sentence_model.h). A checkpoint is
// written into .writing-*, every file synced, read back and compared, then the folder is renamed and its parent synced;
// only then are older ones removed. state.json holds the size and CRC-32 of the others and its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heed/io.h"

namespace heed::train {

// Everything beside the tensors that a continued run needs.
struct TrainingState {
  int64_t update = 0;  // done
  int64_t epoch = 0;
  int64_t position = 0;  // next batch of the epoch
  int64_t adam_steps = 0;
  int64_t without_better = 0;  // validations since the best one
  std::optional<double> best;  // loss, or BLEU
  int64_t best_update = -1;
  double loss_sum = 0;  // since the last report
  int64_t loss_tokens = 0;
  double seconds = 0;  // of training, earlier runs included
  uint32_t data_checksum = 0;
  bool scheduled = true;  // false: saved because of an interruption, and never averaged
  bool validated = true;  // false: the interruption came within the validation, which is done again
  std::string recipe;     // as JSON
};

struct LoadedCheckpoint {
  std::filesystem::path folder;
  TrainingState state;
  io::Tensors model, optimizer;  // model: with those of its Dense modules
};

class CheckpointStore {
 public:
  using Message = std::function<void(std::string_view)>;
  // Removes what an interrupted run left half written or half removed.
  CheckpointStore(const std::filesystem::path& run_folder, Message message);
  // The store of another process, to load from.
  [[nodiscard]] static CheckpointStore of_other_process(const std::filesystem::path& run_folder);

  [[nodiscard]] bool empty() const { return updates().empty(); }
  // The newest one that is complete and whole. A damaged one is renamed to damaged-*, with a message.
  [[nodiscard]] std::optional<LoadedCheckpoint> load_newest();
  [[nodiscard]] io::Tensors load_model(int64_t update) const;
  // `format` is the metadata of the model's file.
  void save(const TrainingState& state, const std::string& config, const io::Tensors& model,
            const io::Tensors& optimizer, const std::string& format = "heed");
  // Keeps the newest, the last `keep_last` scheduled ones and the best; removes the rest.
  void rotate(int64_t keep_last, int64_t best_update);
  // Folders of the last n scheduled checkpoints, oldest first.
  [[nodiscard]] std::vector<std::filesystem::path> last_scheduled(int64_t n) const;
  [[nodiscard]] std::filesystem::path path_of(int64_t update) const;
  [[nodiscard]] std::vector<int64_t> updates() const;  // ascending

  // Throws Error unless it is complete and whole.
  [[nodiscard]] LoadedCheckpoint load(int64_t update) const;

 private:
  CheckpointStore() = default;
  void remove(int64_t update) const;
  std::filesystem::path folder_;  // .../checkpoints
  Message message_;
};

// Holds folder/.lock while alive; the system lets go of it when the process dies. Throws Error if another has it.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  // For other processes of the same training, which look for it.
  void write(const std::string& text) const;

 private:
  int descriptor_ = -1;
};

// Throws Error unless the file system of `folder` has room for so many checkpoints.
void require_space(const std::filesystem::path& folder, int64_t count, int64_t bytes_each);

}  // namespace heed::train
