// The threads that help with loops.
//
// A thread that waits has two ways: to look again and again, which takes a core from others, or to sleep, from which a
// virtual machine may need milliseconds to wake it. So a thread of the pool looks for 20 ms before it sleeps, unless
// the system tells that others run where it would: then it stands aside, and helps only with loops that take long. And
// nobody waits for a thread that has not come: a loop is done when all its parts are. With libgomp, whose loops wait
// for every thread, translating 100 sentences took 2 to 8 s beside two busy programs on two cores of an Emerald Rapids,
// and 0.7 s with its threads asleep (OMP_WAIT_POLICY=passive); here it takes 0.5 s.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

namespace heed::detail {

// A loop that is cut into parts. Each thread that works on it takes the next part when it is done with one.
class Loop {
 public:
  using Body = void (*)(void* context, int part, int parts);
  Loop(int parts, Body body, void* context) : parts_(parts), body_(body), context_(context) {}

  void work();                 // on parts, until none is left
  void rethrow_first() const;  // the exception of the part that failed first; when all threads are done

 private:
  friend class ThreadPool;
  int parts_;
  Body body_;
  void* context_;
  std::atomic<int> next_{0};  // part that nobody has taken
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;
  std::atomic<int> helpers_{0};  // of the pool, that are at work
  // Under the lock of the pool:
  uint32_t number_ = 0;    // how many loops were opened up to this one
  int wanted_ = 0;         // helpers that may still come
  Loop* after_ = nullptr;  // the open loop behind this one
};

// Lives as long as the process. Any number of threads may run loops at once.
class ThreadPool {
 public:
  static ThreadPool& instance();

  // Works on the loop, on the calling thread and on up to `helpers` of the pool; returns when all are done. The pool
  // has up to `most` threads, which start when they are first wanted, on the cores and with the priority of who
  // wants them.
  void run(Loop& loop, int helpers, int most);

 private:
  void open(Loop& loop, int helpers, int most);
  void close(Loop& loop);
  void start_thread();
  [[noreturn]] void help();  // as long as the process lives
  bool help_one(uint32_t newest);
  void stand_aside();
  [[nodiscard]] Loop* join(uint32_t newest);
  void leave(Loop& loop);

  void lock();
  void unlock() { locked_.store(false, std::memory_order_release); }

  std::atomic<bool> locked_{false};
  Loop* first_ = nullptr;  // open loop
  int threads_ = 0;
  int idle_ = 0;                     // threads that are in no loop
  std::atomic<int> most_{0};         // threads that the newest loop may have
  std::atomic<int> looking_{0};      // idle threads that do not sleep
  std::atomic<uint32_t> opened_{0};  // counts the loops that were opened: what idle threads look at
  std::atomic<uint32_t> left_{0};    // counts the times that a thread left a loop: what run() waits for
};

}  // namespace heed::detail
