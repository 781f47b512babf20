// Mutexes and static variables in a process that forks. fork() copies the calling thread alone: what another thread was
// doing at that moment is never finished in the new process.
#pragma once

#include <mutex>

namespace heed {

// A mutex that a forked process finds free. One that another thread holds would stay locked there for ever. A fork
// therefore waits until it has all of these, so hold one only for a moment, and never two of them together.
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

// Calls `make` before every fork, for a static variable that a function makes when it is first called. If another
// thread was just making it, the new process would wait for that thread for ever. Belongs beside the function, with
// static storage itself.
struct MadeBeforeFork {
  explicit MadeBeforeFork(void (*make)());
};

}  // namespace heed
