// Numbers for a page: a JSON header and arrays behind it (docs/serve.md, attention).
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "heed/tensor.h"
#include "serve/service.h"

namespace heed::serve {

class Binary {
 public:
  explicit Binary(DType dtype) : dtype_(dtype) {}
  // Adds a tensor's numbers; returns how many came before them.
  int64_t add(const Tensor& numbers);
  [[nodiscard]] Reply with_header(const nlohmann::json& header) const;

 private:
  DType dtype_;
  int64_t count_ = 0;
  std::string bytes_;
};

}  // namespace heed::serve
