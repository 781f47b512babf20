// Ctrl-C while the library computes without the GIL.
#pragma once

#include <pybind11/pybind11.h>

namespace heed::python {

// Runs Python's handlers of the signals that have arrived; what they raise is thrown: Ctrl-C is KeyboardInterrupt. In
// other threads than Python's first there is nothing to run.
inline void raise_if_interrupted() {
  const pybind11::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

}  // namespace heed::python
