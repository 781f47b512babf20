#include "base/fork.h"

#include <pthread.h>

#include <unordered_set>
#include <vector>

namespace heed {
namespace {

struct All {
  std::mutex mutex;
  std::unordered_set<ForkSafeMutex*> mutexes;
  std::vector<void (*)()> makers;

  void lock() {
    // Not under the mutex: what is made may have a ForkSafeMutex, whose constructor locks it.
    for (void (*const make)() : copy_of_makers()) make();
    mutex.lock();
    for (ForkSafeMutex* const one : mutexes) one->lock();
  }
  void unlock() {
    for (ForkSafeMutex* const one : mutexes) one->unlock();
    mutex.unlock();
  }

 private:
  std::vector<void (*)()> copy_of_makers() {
    const std::scoped_lock lock_of_makers(mutex);
    return makers;
  }
};

// Never destroyed: mutexes with static storage may outlive what static variables own. Their constructors, and those of
// MadeBeforeFork, make it while the library is loaded.
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

MadeBeforeFork::MadeBeforeFork(void (*make)()) {
  const std::scoped_lock lock(all().mutex);
  all().makers.push_back(make);
}

}  // namespace heed
