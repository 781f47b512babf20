#include "python/interrupt.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace py = pybind11;

namespace heed::python {
namespace {

using namespace std::chrono_literals;

std::atomic<int> g_computing = 0;
std::atomic<bool> g_ends = false;
std::thread::id g_first;

bool must_leave() { return g_ends.load() && std::this_thread::get_id() != g_first; }

[[noreturn]] void leave() {
  PyErr_SetString(PyExc_SystemExit, "Python ends");  // which ends a thread without a message
  throw py::error_already_set();
}

void wait_for_threads() {
  g_ends = true;
  const py::gil_scoped_release release;
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (g_computing.load() > 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(5ms);
}

// Also in a forked process, which has the calling thread alone: it is the first one there, and none of the others will
// finish.
void begin_again() {
  g_computing = 0;
  g_ends = false;
  g_first = std::this_thread::get_id();
}

}  // namespace

WithoutGil::Counted::Counted() {
  if (must_leave()) leave();
  ++g_computing;
}

WithoutGil::Counted::~Counted() { --g_computing; }

void raise_if_interrupted() {
  const py::gil_scoped_acquire acquire;
  if (must_leave()) leave();
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void wait_for_threads_at_exit() {
  begin_again();
  ::pthread_atfork(nullptr, nullptr, &begin_again);
  py::module_::import("atexit").attr("register")(py::cpp_function(&wait_for_threads));
}

}  // namespace heed::python
