#include "base/thread_pool.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <thread>

namespace heed::detail {
namespace {

using Clock = std::chrono::steady_clock;

// How long a thread looks for what it waits for: kLong, or kShort on a core that it shares. On a quiet machine, a
// training step takes 1.3 times as long with 1 ms for kLong as with 20: the parts of a large product take a few ms, and
// so does waking up.
constexpr std::chrono::milliseconds kLong{20};
constexpr std::chrono::microseconds kShort{50};
// Who waited for its core for a quarter of the time, in kBetween or more, shares it with somebody: so it counts as
// shared during the next kShared.
constexpr std::chrono::milliseconds kBetween{10};
constexpr std::chrono::milliseconds kShared{500};
// How long a loop has been open when those come that share their cores.
constexpr std::chrono::milliseconds kLate{1};

// The core that a thread runs on, or would run on.
class Core {
 public:
  // Whether the thread has waited for its core since this was asked before.
  bool taken() {
    const Clock::time_point now = Clock::now();
    if (now - asked_ < kBetween) return false;
    asked_ = now;
    const Times before = times_;
    times_ = read();
    const std::chrono::nanoseconds waited = times_.waited - before.waited, ran = times_.ran - before.ran;
    if (waited * 3 < ran || waited < kBetween / 4) return false;
    shared_until_ = now + kShared;
    return true;
  }
  [[nodiscard]] bool shared() const { return Clock::now() < shared_until_; }

 private:
  struct Times {
    std::chrono::nanoseconds ran{0}, waited{0};  // ready to run, while others ran
  };
  // Zeros where the system does not tell. (A virtual machine that its host stops does not wait: nobody here could use
  // the core.)
  static Times read() {
    const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    std::array<char, 64> text{};
    const ssize_t size = ::read(file, text.data(), text.size());
    ::close(file);
    if (size <= 0) return {};
    int64_t ran = 0, waited = 0;
    const char* const end = text.data() + size;
    const char* const behind = std::from_chars(text.data(), end, ran).ptr;
    std::from_chars(std::min(behind + 1, end), end, waited);
    return {std::chrono::nanoseconds(ran), std::chrono::nanoseconds(waited)};
  }

  Times times_;
  Clock::time_point asked_, shared_until_;
};
thread_local Core core;

// Tells the core that this thread waits.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Whether ready() becomes true until then.
template <class Ready>
bool look_until(Clock::time_point end, const Ready& ready) {
  constexpr int kPauses = 32;  // between two looks at the clock
  do {
    for (int i = 0; i < kPauses; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (Clock::now() < end);
  return false;
}

// Whether ready() becomes true while this thread looks.
template <class Ready>
bool look(const Ready& ready) {
  const Clock::time_point begin = Clock::now();
  if (look_until(begin + kShort, ready)) return true;
  if (core.shared()) return false;
  for (Clock::time_point now = Clock::now(); now < begin + kLong; now = Clock::now()) {
    if (look_until(now + kShort, ready)) return true;
    if (core.taken()) return false;
  }
  return false;
}

}  // namespace

void Loop::work() {
  for (int part = next_.fetch_add(1); part < parts_; part = next_.fetch_add(1)) {
    try {
      body_(context_, part, parts_);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
  }
}

void Loop::rethrow_first() const {
  if (error_) std::rethrow_exception(error_);
}

ThreadPool& ThreadPool::instance() {
  static ThreadPool* const pool = [] {
    // Its threads never end: what has their code, a library perhaps, stays loaded.
    Dl_info here{};
    if (::dladdr(reinterpret_cast<const void*>(&pause), &here) != 0)
      ::dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    return new ThreadPool;
  }();
  return *pool;
}

void ThreadPool::run(Loop& loop, int helpers, int most) {
  open(loop, helpers, most);
  loop.work();
  close(loop);
}

void ThreadPool::open(Loop& loop, int helpers, int most) {
  lock();
  loop.wanted_ = helpers;
  loop.after_ = first_;
  first_ = &loop;
  const int missing = std::clamp(helpers - idle_, 0, std::max(0, most - threads_));
  threads_ += missing;
  idle_ += missing;
  const bool all = helpers >= idle_;
  most_ = most;
  loop.number_ = opened_.load() + 1;
  opened_ = loop.number_;
  unlock();
  const int asleep = helpers - looking_.load();
  if (all && asleep > 0) opened_.notify_all();
  for (int i = 0; !all && i < asleep; ++i) opened_.notify_one();
  for (int i = 0; i < missing; ++i) start_thread();
}

// No thread joins the loop from here on, and those that have joined leave it.
void ThreadPool::close(Loop& loop) {
  lock();
  Loop** at = &first_;
  while (*at != &loop) at = &(*at)->after_;
  *at = loop.after_;
  unlock();
  const auto done = [&] { return loop.helpers_.load(std::memory_order_acquire) == 0; };
  if (look(done)) return;
  for (uint32_t seen = left_.load(); !done(); seen = left_.load()) left_.wait(seen);
}

void ThreadPool::start_thread() {
  // Signals are for the program's own threads, except those about what a thread itself has done.
  sigset_t others, before;
  ::sigfillset(&others);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) ::sigdelset(&others, own);
  ::pthread_sigmask(SIG_SETMASK, &others, &before);
  try {
    std::thread([this] { help(); }).detach();
  } catch (...) {  // the system gives no more threads or memory: those that there are do the work
    lock();
    --threads_;
    --idle_;
    unlock();
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ThreadPool::help() {
  while (true) {
    const uint32_t seen = opened_.load();
    if (help_one(seen)) {
      if (core.taken()) stand_aside();
      continue;
    }
    const bool looks = looking_.fetch_add(1) < most_.load();  // fewer may be wanted than there once were
    const bool opened = looks && look([&] { return opened_.load() != seen; });
    looking_.fetch_sub(1);
    if (core.shared()) {
      stand_aside();
    } else if (!opened) {
      opened_.wait(seen);
    }
  }
}

// Helps with a loop that wants it, `newest` or one before it. Whether there was one.
bool ThreadPool::help_one(uint32_t newest) {
  Loop* const loop = join(newest);
  if (loop == nullptr) return false;
  loop->work();
  leave(*loop);
  return true;
}

// While somebody else has the core half of the time, help is late as often, and the caller waits for its part: on two
// busy cores, a short text took 5 ms with one thread and 13 with two. Long loops gain from it nevertheless.
void ThreadPool::stand_aside() {
  while (core.shared()) {
    const uint32_t newest = opened_.load();
    std::this_thread::sleep_for(kLate);
    if (help_one(newest)) (void)core.taken();
  }
}

Loop* ThreadPool::join(uint32_t newest) {
  const auto takes_help = [newest](const Loop& loop) {
    const bool newer = static_cast<int32_t>(loop.number_ - newest) > 0;  // the numbers begin again after the largest
    return !newer && loop.wanted_ > 0 && loop.next_.load(std::memory_order_relaxed) < loop.parts_;
  };
  lock();
  Loop* loop = first_;
  while (loop != nullptr && !takes_help(*loop)) loop = loop->after_;
  if (loop != nullptr) {
    --loop->wanted_;
    loop->helpers_.fetch_add(1, std::memory_order_relaxed);
    --idle_;
  }
  unlock();
  return loop;
}

void ThreadPool::leave(Loop& loop) {
  lock();
  ++idle_;
  unlock();
  loop.helpers_.fetch_sub(1, std::memory_order_release);  // from here on the loop may be gone
  left_.fetch_add(1);
  left_.notify_all();
}

void ThreadPool::lock() {
  constexpr int kTries = 100;
  for (int tries = 0; locked_.exchange(true, std::memory_order_acquire); ++tries) {
    if (tries < kTries) {
      pause();
    } else {  // its holder waits for a core, perhaps for this one
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace heed::detail
