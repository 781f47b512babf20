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

TEST(Fork, MemoryIsThereWhileAnotherThreadAsksForIt) {
  std::atomic<bool> ends = false;
  std::thread other([&] {
    while (!ends) release_memory(acquire_memory(4096));
  });
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(ends_in_a_child([] { release_memory(acquire_memory(4096)); })) << "fork " << i;
  }
  ends = true;
  other.join();
}

}  // namespace
}  // namespace heed
