// Mutexes in a process that forks.
#pragma once

#include <mutex>

namespace heed {

// A mutex that a forked process finds free. fork() copies the calling thread alone: a mutex that another thread holds
// at that moment would stay locked in the new process for ever. A fork therefore waits until it has all of these, so
// hold one only for a moment, and never two of them together.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace heed
