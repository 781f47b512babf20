// parallel_for covers every index once, nests inline and passes exceptions on; the settings check their arguments.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "heed/error.h"

namespace heed {
namespace {

class Threads : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
};

TEST_F(Threads, EveryIndexOnce) {
  for (const int threads : {1, 2, 3, 7, 64}) {
    set_num_threads(threads);
    for (const int64_t count : {0, 1, 2, 5, 63, 64, 1000}) {
      for (const int64_t grain : {1, 10, 10000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        parallel_for(count, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const auto& times : seen) ASSERT_EQ(times, 1);
      }
    }
  }
}

TEST_F(Threads, NestedLoopsRunInline) {
  set_num_threads(3);
  std::atomic<int> total = 0, widest = 0;
  parallel_for(6, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int parts = 0;
      parallel_for(100, 1, [&](int64_t b, int64_t e) {
        ++parts;
        total += static_cast<int>(e - b);
      });
      widest = std::max(widest.load(), parts);
    }
  });
  EXPECT_EQ(total, 600);
  EXPECT_EQ(widest, 1);
}

TEST_F(Threads, AnExceptionReachesTheCaller) {
  set_num_threads(2);
  EXPECT_THROW(parallel_for(10, 1, [](int64_t begin, int64_t) { require(begin == 0, "loop", "only part 0"); }), Error);
}

TEST_F(Threads, TasksInOrderPassEachPlaceInTheirOrder) {
  for (const int threads : {1, 2, 7, 64}) {
    set_num_threads(threads);
    constexpr int64_t kTasks = 200, kPlaces = 3;
    std::vector<int64_t> seen[kPlaces];  // not atomic: a place is one task's at a time
    InOrder tasks(kTasks, kPlaces);
    tasks.run([&] {
      for (int64_t task = tasks.next(); task >= 0; task = tasks.next()) {
        for (int64_t place = 0; place < kPlaces; ++place) {
          tasks.wait(place, task);
          seen[place].push_back(task);
          tasks.pass(place);
        }
      }
    });
    for (const std::vector<int64_t>& place : seen) {
      ASSERT_EQ(place.size(), static_cast<size_t>(kTasks));
      for (int64_t task = 0; task < kTasks; ++task) ASSERT_EQ(place[static_cast<size_t>(task)], task);
    }
  }
}

TEST_F(Threads, ATaskThatFailsLeavesNobodyWaiting) {
  set_num_threads(4);
  InOrder tasks(100, 1);
  const auto work = [&] {
    for (int64_t task = tasks.next(); task >= 0; task = tasks.next()) {
      require(task != 10, "loop", "another task");
      tasks.wait(0, task);
      tasks.pass(0);
    }
  };
  EXPECT_THROW(tasks.run(work), Error);
}

TEST_F(Threads, CountsOutsideTheRangeAreErrors) {
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-1), Error);
  EXPECT_THROW(set_num_threads(1000000), Error);
}

// OpenMP waits for ever in such a child; it ends by the alarm then.
TEST_F(Threads, AChildOfForkComputesWithOne) {
  set_num_threads(2);
  const auto sum = [] {
    std::atomic<int64_t> all{0};
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) all += i;
    });
    return all.load();
  };
  ASSERT_EQ(sum(), 499500);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);
    ::_exit(sum() == 499500 && num_threads() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(num_threads(), 2);
}

}  // namespace
}  // namespace heed
