// parallel_for covers every index once, nests inline and passes exceptions on; the settings check their arguments.
#include "base/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
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

// Nobody waits for a thread that does not come: the calling thread does the work. (In a process of its own, where the
// pool has one thread.)
TEST_F(Threads, ALoopDoesNotWaitForThreadsThatHaveNotCome) {
  set_num_threads(2);
  std::atomic<bool> held = false, go_on = false;
  std::thread other([&] {  // keeps the one thread of the pool busy
    std::atomic<int> arrived = 0;
    parallel_for(2, 1, [&](int64_t, int64_t) {
      if (++arrived == 2) held = true;
      while (!go_on) std::this_thread::yield();
    });
  });
  while (!held) std::this_thread::yield();
  std::atomic<int64_t> sum = 0;
  parallel_for(1000, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 1000);
  go_on = true;
  other.join();
}

TEST_F(Threads, LoopsOfManyThreadsRunAtOnce) {
  set_num_threads(4);
  constexpr int kCallers = 6, kLoops = 2000;
  std::atomic<int64_t> wrong = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int loop = 0; loop < kLoops; ++loop) {
        const int64_t count = 1 + (loop * 7 + c) % 50;
        std::atomic<int64_t> sum = 0;
        parallel_for(count, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
        wrong += static_cast<int64_t>(sum != count * (count - 1) / 2);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Threads, AsManyThreadsComeAsAreAskedFor) {
  for (const int threads : {2, 5, 3}) {
    set_num_threads(threads);
    // Each part waits until every thread has one; twice, and the second time the pool sleeps before.
    for (const int pause : {0, 100}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      std::atomic<int> arrived = 0;
      parallel_for(threads, 1, [&](int64_t begin, int64_t end) {
        arrived += static_cast<int>(end - begin);
        while (arrived < threads) std::this_thread::yield();
      });
      EXPECT_EQ(arrived, threads);
    }
  }
}

TEST_F(Threads, NoMoreThreadsComeThanAreAskedFor) {
  set_num_threads(6);
  std::atomic<int> arrived = 0;
  parallel_for(6, 1, [&](int64_t begin, int64_t end) {
    arrived += static_cast<int>(end - begin);
    while (arrived < 6) std::this_thread::yield();
  });
  set_num_threads(2);
  std::atomic<int> inside = 0, most = 0;
  parallel_for(8, 1, [&](int64_t, int64_t) {
    const int now = ++inside;
    for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --inside;
  });
  EXPECT_LE(most, 2);
}

// The calling thread sleeps until the other has done its part.
TEST_F(Threads, APartThatTakesLongIsWaitedFor) {
  set_num_threads(2);
  const std::thread::id caller = std::this_thread::get_id();
  for (int time = 0; time < 3; ++time) {
    std::atomic<int> arrived = 0;
    std::atomic<bool> done = false;
    parallel_for(2, 1, [&](int64_t, int64_t) {
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
      if (std::this_thread::get_id() == caller) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      done = true;
    });
    EXPECT_TRUE(done);
  }
}

// A program's handler of a signal runs on the program's own threads.
TEST_F(Threads, SignalsAreNotForThreadsOfThePool) {
  set_num_threads(2);
  std::atomic<int> arrived = 0, blocked = 0, faults = 0;
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(2, 1, [&](int64_t, int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    if (std::this_thread::get_id() != caller && ::sigismember(&mask, SIGINT) == 1) ++blocked;
    if (std::this_thread::get_id() != caller) faults += ::sigismember(&mask, SIGSEGV);
    if (std::this_thread::get_id() == caller && ::sigismember(&mask, SIGINT) == 0) ++blocked;
  });
  EXPECT_EQ(blocked, 2);
  EXPECT_EQ(faults, 0);
}

// With threads that wait for ever for those of the parent, the child would end by the alarm.
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
