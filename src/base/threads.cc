// As many threads as asked for: the calling one and others of the pool.
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/cpu_quota.h"
#include "base/thread_pool.h"
#include "heed/error.h"

// There where the program uses OpenMP. Inside of its parallel loops heed computes with one thread.
extern "C" [[gnu::weak]] int omp_in_parallel();

namespace heed {
namespace {

constexpr int kMaxThreads = 1024;

int available_cores() {
  cpu_set_t set;
  const bool known = sched_getaffinity(0, sizeof set, &set) == 0;
  const int cores = std::max(1, known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency()));
  const int quota = cpu_quota();
  return quota > 0 ? std::min(cores, quota) : cores;
}

int initial_threads() {
  for (const char* name : {"HEED_NUM_THREADS", "OMP_NUM_THREADS"}) {
    const char* const text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    const std::string_view value(text);
    int count = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    const bool whole = error == std::errc{} && (end == value.data() + value.size() || *end == ',');
    require(whole && count >= 1 && count <= kMaxThreads, "threads", name, ": a whole number from 1 to ", kMaxThreads,
            "; found \"", value, "\"");
    return count;
  }
  return available_cores();
}

std::atomic<int> requested_threads{0};  // 0: not asked for yet
// fork() copies the calling thread alone: the new process has none of the threads that the old one has started, and
// computes with one.
std::atomic<bool> started{false}, alone{false};
[[maybe_unused]] const int kForks = ::pthread_atfork(nullptr, nullptr, [] { alone = started.load(); });

thread_local bool inside = false;
thread_local int shares = 1;

}  // namespace

int num_threads() {
  if (alone) return 1;
  int count = requested_threads.load(std::memory_order_relaxed);
  if (count == 0) {
    count = initial_threads();
    requested_threads.store(count, std::memory_order_relaxed);
  }
  return std::max(1, count / shares);
}

ThreadShare::ThreadShare(int parts) : before_(shares) { shares = before_ * parts; }
ThreadShare::~ThreadShare() { shares = before_; }
int ThreadShare::current() { return shares; }

void set_num_threads(int count) {
  require(count >= 1 && count <= kMaxThreads, "set_num_threads", "a count between 1 and ", kMaxThreads, "; found ",
          count);
  requested_threads.store(count, std::memory_order_relaxed);
}

int64_t InOrder::next() {
  const int64_t task = failed_ ? tasks_ : taken_.fetch_add(1, std::memory_order_relaxed);
  return task < tasks_ ? task : -1;
}

void InOrder::wait(int64_t place, int64_t turns) const {
  const std::atomic<int64_t>& passed = passed_[static_cast<size_t>(place)];
  for (int spins = 0; passed.load(std::memory_order_acquire) < turns && !failed_; ++spins) {
    if (spins >= 1000) sched_yield();  // there may be more threads than cores
  }
}

namespace detail {

bool in_parallel() { return inside || (omp_in_parallel != nullptr && omp_in_parallel() != 0); }

void run_parallel(int threads, int parts, Loop::Body body, void* context) {
  struct Call {
    Loop::Body body;
    void* context;
  } call{body, context};
  const auto inside_of = [](void* opaque, int part, int all) {
    const Call& c = *static_cast<const Call*>(opaque);
    inside = true;
    c.body(c.context, part, all);
  };
  Loop loop(parts, inside_of, &call);
  if (alone || threads == 1) {
    loop.work();
  } else {
    if (!started) started = true;
    ThreadPool::instance().run(loop, threads - 1, std::max(threads, requested_threads.load()) - 1);
  }
  inside = false;
  loop.rethrow_first();
}

}  // namespace detail
}  // namespace heed
