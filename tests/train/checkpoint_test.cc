// The checkpoint store: whole or not there.
#include "train/checkpoint.h"

#include <sys/resource.h>

#include <csignal>

#include "heed/error.h"
#include "toy.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

class Store : public ::testing::Test {
 protected:
  CheckpointStore store() {
    return {folder_.path(), [this](std::string_view text) { messages_ += std::string(text) + "\n"; }};
  }
  static void save(CheckpointStore& store, int64_t update, bool scheduled = true) {
    const TrainingState state{.update = update,
                              .epoch = 3,
                              .best = 0.1 + static_cast<double>(update),
                              .best_update = 1,
                              .loss_sum = 1.0 / 3,
                              .scheduled = scheduled,
                              .recipe = "{}"};
    const Tensor weight = Tensor::full({8, 16}, static_cast<float>(update));
    store.save(state, "{}", {{"w", weight}}, {{"first.w", weight}, {"second.w", weight}});
  }
  [[nodiscard]] int leftovers() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "checkpoints")) {
      count += entry.path().filename().string().starts_with(".");
    }
    return count;
  }
  TemporaryFolder folder_;
  std::string messages_;
};

TEST_F(Store, GivesBackWhatWasSaved) {
  auto s = store();
  EXPECT_FALSE(s.load_newest().has_value());
  save(s, 5);
  save(s, 12);
  const auto loaded = s.load_newest();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->state.update, 12);
  EXPECT_EQ(loaded->state.epoch, 3);
  EXPECT_EQ(loaded->state.best, 12.1);
  EXPECT_EQ(loaded->state.loss_sum, 1.0 / 3);  // to the last bit
  EXPECT_EQ(loaded->model.at("w").at({7, 15}), 12.0);
  EXPECT_EQ(loaded->optimizer.size(), 2u);
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(Store, FallsBackFromADamagedOneWhateverByteOfIt) {
  for (const char* name : {"config.json", "model.safetensors", "optimizer.safetensors", "state.json"}) {
    const TemporaryFolder folder;
    std::string messages;
    CheckpointStore s(folder.path(), [&](std::string_view text) { messages += text; });
    save(s, 1);
    save(s, 2);
    const fs::path file = s.path_of(2) / name;
    std::string bytes = read_text(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(file, bytes);
    const auto loaded = s.load_newest();
    ASSERT_TRUE(loaded) << name;
    EXPECT_EQ(loaded->state.update, 1) << name;
    EXPECT_CONTAINS(messages, "damaged");
    EXPECT_TRUE(fs::exists(folder / "checkpoints/damaged-00000002")) << name;
  }
}

TEST_F(Store, FallsBackFromATruncatedAndFromAMissingFile) {
  auto s = store();
  save(s, 1);
  save(s, 2);
  save(s, 3);
  fs::resize_file(s.path_of(3) / "optimizer.safetensors", 40);
  fs::remove(s.path_of(2) / "state.json");
  EXPECT_EQ(s.load_newest()->state.update, 1);
}

TEST_F(Store, KeepsTheNewestTheLastScheduledAndTheBest) {
  auto s = store();
  for (int64_t update = 1; update <= 6; ++update) save(s, update, update != 5);
  s.rotate(2, 1);
  EXPECT_EQ(s.updates(), (std::vector<int64_t>{1, 4, 6}));
  save(s, 7, false);
  s.rotate(2, 1);
  EXPECT_EQ(s.updates(), (std::vector<int64_t>{1, 4, 6, 7}));  // an interruption's is kept while it is the newest
  const auto last = s.last_scheduled(2);
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0], s.path_of(4));
  EXPECT_EQ(last[1], s.path_of(6));
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(Store, CleansUpAfterAnInterruption) {
  auto s = store();
  save(s, 1);
  fs::create_directories(folder_ / "checkpoints/.writing-step-00000002");
  fs::create_directories(folder_ / "checkpoints/.old-step-00000000");
  auto again = store();
  EXPECT_EQ(leftovers(), 0);
  EXPECT_EQ(again.load_newest()->state.update, 1);
}

TEST_F(Store, AFullDiskLeavesThePreviousOneWhole) {
  auto s = store();
  save(s, 1);
  // No file may grow beyond 300 bytes: what the system says instead of "no space left on device".
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 300;
  setrlimit(RLIMIT_FSIZE, &tight);
  const std::string error = message_of([&] { save(s, 2); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_CONTAINS(error, "File too large");
  EXPECT_EQ(s.updates(), (std::vector<int64_t>{1}));
  EXPECT_EQ(leftovers(), 0);
  EXPECT_EQ(s.load_newest()->state.update, 1);
}

TEST_F(Store, AsksForSpaceBeforeItIsNeeded) {
  require_space(folder_.path(), 2, 1);
  EXPECT_CONTAINS(message_of([&] { require_space(folder_.path(), 3, int64_t{1} << 60); }), "MB for 3 checkpoints; ");
}

TEST_F(Store, OneTrainerAFolder) {
  const FolderLock lock(folder_.path());
  EXPECT_CONTAINS(message_of([&] { const FolderLock second(folder_.path()); }), "no other process trains in");
}

}  // namespace
}  // namespace heed::train
