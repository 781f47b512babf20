// A forked process finds the mutexes free that other threads of its parent held.
#include "base/fork.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <stop_token>
#include <thread>

#include "base/memory.h"

namespace heed {
namespace {

// Whether `work` ends within 20 seconds in a process of its own.
template <class Work>
bool ends_in_a_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    work();
    ::_exit(0);
  }
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(Fork, WaitsUntilAMutexIsFree) {
  ForkSafeMutex mutex;
  std::atomic<bool> held = false, given_back = false;
  std::thread other([&] {
    const std::scoped_lock lock(mutex);
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    given_back = true;
  });
  while (!held) std::this_thread::yield();
  EXPECT_TRUE(ends_in_a_child([&] {
    const std::scoped_lock lock(mutex);
    if (!given_back) ::_exit(1);
  }));
  other.join();
  const std::scoped_lock still_works(mutex);
}

TEST(Fork, LeavesAMutexAloneThatIsGone) {
  alignas(ForkSafeMutex) std::array<std::byte, sizeof(ForkSafeMutex)> place;
  std::destroy_at(new (place.data()) ForkSafeMutex);
  place.fill(std::byte{0xff});  // no mutex: to lock it is an error
  EXPECT_TRUE(ends_in_a_child([] {}));
}

std::atomic<bool> making = false;

int made_slowly() {
  static const int made = [] {
    making = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return 7;
  }();
  return made;
}
const MadeBeforeFork kMadeSlowly([] { (void)made_slowly(); });

TEST(Fork, WaitsUntilAStaticVariableIsMade) {
  std::thread other([] { (void)made_slowly(); });
  while (!making) std::this_thread::yield();
  EXPECT_TRUE(ends_in_a_child([] {
    if (made_slowly() != 7) ::_exit(1);
  }));
  other.join();
}

TEST(Fork, MemoryIsThereWhileAnotherThreadAsksForIt) {
  const std::jthread other([](const std::stop_token& ends) {
    while (!ends.stop_requested()) release_memory(acquire_memory(4096));
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(ends_in_a_child([] { release_memory(acquire_memory(4096)); })) << "fork " << i;
  }
}

}  // namespace
}  // namespace heed
