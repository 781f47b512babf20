// Side by side: every task once, on several threads; callbacks on the calling thread; errors, and an early end.
#include "base/side_by_side.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <vector>

#include "base/threads.h"
#include "heed/error.h"

namespace heed {
namespace {

class SideBySideTest : public ::testing::Test {
 protected:
  void TearDown() override { set_num_threads(before_); }
  int before_ = num_threads();
};

TEST_F(SideBySideTest, EveryTaskOnce) {
  for (const int threads : {1, 2, 3, 16}) {
    set_num_threads(threads);
    for (const int64_t tasks : {0, 1, 2, 5, 100}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(tasks));
      SideBySide(tasks).run([&](int64_t task) { ++seen[static_cast<size_t>(task)]; }, [] {});
      for (const auto& times : seen) ASSERT_EQ(times, 1);
    }
  }
}

// Each task waits for the other: one thread alone would wait for ever.
TEST_F(SideBySideTest, TasksRunAtTheSameTimeAndShareTheThreads) {
  set_num_threads(6);
  std::atomic<int> begun{0};
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::vector<int> shares;
  SideBySide(2).run(
      [&](int64_t) {
        ++begun;
        while (begun < 2) std::this_thread::yield();
        const std::scoped_lock lock(mutex);
        ids.insert(std::this_thread::get_id());
        shares.push_back(num_threads());
      },
      [] {});
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 1U);
  EXPECT_EQ(shares, (std::vector<int>{3, 3}));
  EXPECT_EQ(num_threads(), 6);
}

TEST_F(SideBySideTest, AShareIsOfTheCallersShare) {
  set_num_threads(8);
  const ThreadShare half(2);
  std::vector<std::atomic<int>> shares(2);
  std::atomic<int> begun{0};
  SideBySide(2).run(
      [&](int64_t task) {
        ++begun;
        while (begun < 2) std::this_thread::yield();  // one task on each thread
        shares[static_cast<size_t>(task)] = num_threads();
      },
      [] {});
  EXPECT_EQ(shares[0], 2);
  EXPECT_EQ(shares[1], 2);
}

TEST_F(SideBySideTest, LooksUpOnTheCallingThreadUntilAllIsDone) {
  set_num_threads(4);
  std::atomic<int64_t> done{0};
  int64_t looks = 0, last = 0;
  bool elsewhere = false;
  const auto caller = std::this_thread::get_id();
  SideBySide tasks(8);
  tasks.run(
      [&](int64_t) {
        if (!tasks.on_caller()) std::this_thread::sleep_for(std::chrono::milliseconds(60));
        EXPECT_EQ(tasks.on_caller(), std::this_thread::get_id() == caller);
        ++done;
      },
      [&] {
        elsewhere = elsewhere || std::this_thread::get_id() != caller;
        ++looks;
        last = done;
      });
  EXPECT_FALSE(elsewhere);
  EXPECT_EQ(last, 8);  // the last look sees everything done
  EXPECT_GE(looks, 3);
}

TEST_F(SideBySideTest, TheErrorOfTheFirstTaskIsThrown) {
  set_num_threads(3);
  std::atomic<int> failed{0};
  SideBySide tasks(30);
  try {
    tasks.run(
        [&](int64_t task) {
          if (task > 2) return;
          ++failed;
          while (failed < 3) std::this_thread::yield();  // all three fail
          std::this_thread::sleep_for(std::chrono::milliseconds(10 * (2 - task)));
          fail("task", "number ", task);
        },
        [] {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[task] number 0");
  }
  EXPECT_TRUE(tasks.ended());
}

TEST_F(SideBySideTest, AnErrorOfTheLookUpEndsTheWork) {
  set_num_threads(2);
  std::atomic<int> begun{0};
  SideBySide tasks(1000);
  int looks = 0;
  EXPECT_THROW(tasks.run(
                   [&](int64_t) {
                     ++begun;
                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                   },
                   [&] {
                     ++looks;
                     fail("look_up", "no more");
                   }),
               Error);
  EXPECT_EQ(looks, 1);
  EXPECT_LT(begun, 100);
}

TEST_F(SideBySideTest, EndsWhenAsked) {
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    SideBySide tasks(1000);
    std::atomic<int> begun{0};
    tasks.run(
        [&](int64_t) {
          const int number = ++begun;
          if (number == 3) tasks.end();
          // The thread that ends them may be away just before it does so.
          while (number > 3 && !tasks.ended()) std::this_thread::yield();
        },
        [] {});
    EXPECT_TRUE(tasks.ended());
    EXPECT_LE(begun, 3 + threads);
  }
}

TEST_F(SideBySideTest, InsideAParallelLoopThereIsOneThread) {
  set_num_threads(2);
  std::atomic<int> elsewhere{0}, done{0};
  parallel_for(4, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto here = std::this_thread::get_id();
      SideBySide(3).run(
          [&](int64_t) {
            elsewhere += std::this_thread::get_id() != here;
            ++done;
          },
          [] {});
    }
  });
  EXPECT_EQ(elsewhere, 0);
  EXPECT_EQ(done, 12);
}

}  // namespace
}  // namespace heed
