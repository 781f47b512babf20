// The part of the module that is heed.ops.
#pragma once

#include <pybind11/pybind11.h>

namespace heed::python {

void define_ops(pybind11::module_& module);

}  // namespace heed::python
