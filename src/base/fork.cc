#include "base/fork.h"

#include <pthread.h>

#include <unordered_set>

namespace heed {
namespace {

struct All {
  std::mutex mutex;
  std::unordered_set<ForkSafeMutex*> mutexes;

  void lock() {
    mutex.lock();
    for (ForkSafeMutex* const one : mutexes) one->lock();
  }
  void unlock() {
    for (ForkSafeMutex* const one : mutexes) one->unlock();
    mutex.unlock();
  }
};

// Never destroyed: mutexes with static storage may outlive what static variables own.
All& all() {
  static All* const instance = [] {
    static All* const made = new All;
    ::pthread_atfork([] { made->lock(); }, [] { made->unlock(); }, [] { made->unlock(); });
    return made;
  }();
  return *instance;
}

}  // namespace

ForkSafeMutex::ForkSafeMutex() {
  const std::scoped_lock lock(all().mutex);
  all().mutexes.insert(this);
}

ForkSafeMutex::~ForkSafeMutex() {
  const std::scoped_lock lock(all().mutex);
  all().mutexes.erase(this);
}

}  // namespace heed
