// The part of the module that is heed.KeyValueCache and heed.attention_cached().
#pragma once

#include <pybind11/pybind11.h>

namespace heed::python {

void define_cache(pybind11::module_& module);

}  // namespace heed::python
