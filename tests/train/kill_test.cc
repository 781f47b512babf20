// Training killed with SIGKILL at random moments ends with the same bits as a run that was left alone.
//
// A process with threads must not fork and go on; so the killed process is this program again, running the
// first test below.
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "heed/cpu.h"
#include "toy.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

Recipe killed_recipe(const fs::path& folder) {
  Recipe recipe = copy_recipe(folder);
  recipe.max_updates = 120;
  recipe.validate_every = 20;
  recipe.checkpoint_every = 3;
  recipe.ema = 0.9;
  recipe.average_last = 2;
  return recipe;
}

// A training's first file: from then on it can be continued, checkpoint or not.
bool begun(const fs::path& folder) { return fs::exists(folder / ".lock"); }

TEST(Killed, Victim) {
  const TemporaryFolder own;
  const char* given = std::getenv("HEED_TEST_FOLDER");
  const fs::path folder = given != nullptr ? fs::path(given) : own.path();
  set_num_threads(2);
  Recipe recipe = killed_recipe(folder);
  if (given == nullptr) recipe.max_updates = 4;
  EXPECT_EQ(train(recipe, folder / "killed", begun(folder / "killed"), {}), Outcome::finished);
}

pid_t start_victim(const fs::path& folder) {
  const std::string variable = "HEED_TEST_FOLDER=" + folder.string();
  const pid_t child = fork();
  if (child != 0) return child;
  std::string self = "/proc/self/exe", filter = "--gtest_filter=Killed.Victim", brief = "--gtest_brief=1",
              place = variable;
  char* arguments[] = {self.data(), filter.data(), brief.data(), nullptr};
  putenv(place.data());
  execv(self.c_str(), arguments);
  _exit(127);
}

TEST(Killed, AtRandomMomentsEndsWithTheSameBits) {
  const TemporaryFolder folder;
  set_num_threads(1);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(train(killed_recipe(folder.path()), folder / "whole", false, {}), Outcome::finished);
  // Moments by how long it takes here: a fast machine would be done before a fixed one.
  const std::chrono::duration<double> whole = Clock::now() - start;
  std::mt19937 random(static_cast<unsigned>(start.time_since_epoch().count()));
  int kills = 0;
  bool finished = false;
  while (!finished) {
    const pid_t child = start_victim(folder.path());
    ASSERT_GT(child, 0);
    const double share = std::uniform_real_distribution<double>(0.03, 0.3)(random) + 0.1 * kills;  // so that it ends
    const Clock::time_point moment = Clock::now() + std::chrono::duration_cast<Clock::duration>(share * whole);
    int status = 0;
    while (Clock::now() < moment && !finished) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      finished = waitpid(child, &status, WNOHANG) == child;
    }
    if (!finished) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      finished = !WIFSIGNALED(status);  // it may have ended in the meantime
      ++kills;
    }
    if (finished) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
  }
  RecordProperty("kills", kills);
  EXPECT_GT(kills, 0);
  EXPECT_TRUE(same_bytes(folder / "whole/model.safetensors", folder / "killed/model.safetensors"));
  const std::string newest = "checkpoints/step-00000120/optimizer.safetensors";
  EXPECT_TRUE(same_bytes(folder / "whole" / newest, folder / "killed" / newest));
  int leftovers = 0;
  for (const auto& entry : fs::directory_iterator(folder / "killed/checkpoints")) {
    const std::string name = entry.path().filename().string();
    leftovers += name.starts_with(".") || name.starts_with("damaged");
  }
  EXPECT_EQ(leftovers, 0);  // nothing half written counted, nothing whole was called damaged
}

}  // namespace
}  // namespace heed::train
