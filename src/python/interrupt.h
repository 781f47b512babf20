// Ctrl-C while the library computes without the GIL, and the end of Python while other threads do.
#pragma once

#include <pybind11/pybind11.h>

namespace heed::python {

// While it is alive, other threads of Python run. When Python ends, it waits for all of these.
class WithoutGil {
 public:
  WithoutGil() = default;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  struct Counted {
    Counted();  // throws SystemExit in other threads than Python's first once Python ends
    ~Counted();
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
  };
  Counted counted_;  // ends last, when the thread has the GIL again
  pybind11::gil_scoped_release release_;
};

// Runs Python's handlers of the signals that have arrived; what they raise is thrown: Ctrl-C is KeyboardInterrupt. In
// other threads than Python's first there is nothing to run, but SystemExit is thrown once Python ends.
void raise_if_interrupted();

// Before Python ends, threads that compute are asked to stop, and have ten seconds for it: Python ends a thread that
// asks for the GIL later than that in the middle of a function of C++, and this aborts the process.
void wait_for_threads_at_exit();

}  // namespace heed::python
