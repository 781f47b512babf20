// Tokenizers for Python.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "heed/text.h"

namespace heed::python {

// A tokenizer, and what keeps it alive.
struct SharedTokenizer {
  std::shared_ptr<const text::Tokenizer> tokenizer;
};

// The tokenizer that `get` takes out of a pipeline, whose copies share what they hold.
template <class Pipeline, class Get>
[[nodiscard]] SharedTokenizer tokenizer_of(const Pipeline& pipeline, Get get) {
  const auto owner = std::make_shared<const Pipeline>(pipeline);
  return {std::shared_ptr<const text::Tokenizer>(owner, &get(*owner))};
}

void define_tokenizers(pybind11::module_& module);

}  // namespace heed::python
