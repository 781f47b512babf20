// heed.KeyValueCache, and attention over memory that is kept.
#include "python/cache.h"

#include <pybind11/stl.h>

#include <mutex>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/kv_cache.h"
#include "python/arrays.h"
#include "python/interrupt.h"
#include "python/options.h"
#include "python/results.h"

namespace py = pybind11;

namespace heed::python {
namespace {

// A cache that several threads of Python may use. Calls run one after the other; those that wait do not hold the GIL.
class Cache {
 public:
  Cache(int64_t batch, int64_t heads, int64_t capacity, int64_t size, int64_t value_size, const std::string& dtype,
        int64_t page, int64_t pages)
      : cache_(batch, heads, capacity, size, value_size,
               {.dtype = cache_dtype(dtype, "[KeyValueCache] dtype"), .page = page, .pages = pages}) {}

  // Calls f(KeyValueCache&) without the GIL.
  template <class F>
  auto with(F&& f) {
    const WithoutGil without_gil;
    const std::lock_guard lock(mutex_);
    return f(cache_);
  }

  void append(const py::object& key, const py::object& value, const py::object& lengths, const std::string& layout) {
    Arguments arguments;
    Tensor k = arguments.needed(key, "key"), v = arguments.needed(value, "value");
    const Tensor counts = arguments.integers(lengths, "lengths");
    if (!are_heads_first(layout) && k.rank() == 4 && v.rank() == 4) k = k.transpose(1, 2), v = v.transpose(1, 2);
    with([&](KeyValueCache& cache) { cache.append(k, v, counts); });
  }

 private:
  KeyValueCache cache_;
  std::mutex mutex_;
};

// Attention of `query` to a memory. `use` gets a function and has to call it, with the memory and without the GIL.
template <class Use>
py::dict attend_memory(const py::object& query, const py::dict& given, const py::object& out, Arguments& arguments,
                       Use&& use) {
  const Destination destination(out);
  const Tensor q = arguments.needed_floats(query, "query");
  AttentionOptions options = options_of(given, arguments);
  const Layout layout = layout_of(given, q);
  require_heads(options, layout.in(q));
  AttentionResult result;
  use([&](const KeyValues& memory) {
    destination.want(options, layout, layout.in(q), memory.value, arguments);
    result = attention(layout.in(q), memory, options);
  });
  return dict_of(result, layout, options.want.output.defined());
}

py::dict attend_cache(const py::object& query, Cache& cache, const py::dict& given, const py::object& out) {
  Arguments arguments;
  return attend_memory(query, given, out, arguments, [&](const auto& compute) {
    cache.with([&](const KeyValueCache& memory) { compute(memory.memory()); });
  });
}

// Memory of the caller's own: `given_memory` has the fields of KeyValues.
py::dict attend_stored(const py::object& query, const py::dict& given_memory, const py::dict& given,
                       const py::object& out) {
  Arguments arguments;
  KeyValues memory;
  memory.key = arguments.needed(given_memory["key"], "key");
  memory.value = arguments.needed(given_memory["value"], "value");
  memory.key_scales = arguments(given_memory["key_scales"], "key_scales");
  memory.value_scales = arguments(given_memory["value_scales"], "value_scales");
  memory.lengths = arguments.integers(given_memory["lengths"], "lengths");
  memory.pages = arguments.integers(given_memory["pages"], "pages");
  return attend_memory(query, given, out, arguments, [&](const auto& compute) {
    const WithoutGil without_gil;
    compute(memory);
  });
}

}  // namespace

void define_cache(py::module_& module) {
  module.def("attention_cache", &attend_cache);
  module.def("attention_stored", &attend_stored);
  py::class_<Cache>(module, "Cache")
      .def(py::init<int64_t, int64_t, int64_t, int64_t, int64_t, const std::string&, int64_t, int64_t>())
      .def("append", &Cache::append)
      .def("truncate",
           [](Cache& self, int64_t sequence, int64_t length) {
             self.with([&](KeyValueCache& cache) { cache.truncate(sequence, length); });
           })
      .def("reorder",
           [](Cache& self, const std::vector<int64_t>& rows) {
             self.with([&](KeyValueCache& cache) { cache.reorder(rows); });
           })
      .def("lengths",
           [](Cache& self) {
             return to_numpy(self.with([](const KeyValueCache& cache) { return cache.memory().lengths.clone(); }));
           })
      .def("capacity", [](Cache& self) { return self.with([](const KeyValueCache& c) { return c.capacity(); }); })
      .def("free_pages", [](Cache& self) { return self.with([](const KeyValueCache& c) { return c.free_pages(); }); })
      .def("nbytes", [](Cache& self) { return self.with([](const KeyValueCache& c) { return c.nbytes(); }); });
}

}  // namespace heed::python
