// Training for Python.
#pragma once

#include <pybind11/pybind11.h>

namespace heed::python {

void define_training(pybind11::module_& module);

}  // namespace heed::python
