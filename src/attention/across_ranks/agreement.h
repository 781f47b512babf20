// All ranks look at what they were called with before any of them computes: where one has other arguments, or arguments
// that do not fit, all of them throw.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heed/distributed.h"

namespace heed::distributed {

// What must be the same on all ranks, with the names that messages use.
class Facts {
 public:
  void add(std::string name, std::string value) { facts_.emplace_back(std::move(name), std::move(value)); }
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

// For all ranks together. `failure` is what this rank found wrong with its own arguments, or empty. Throws Error on all
// ranks, in the name of `function`, where a rank has a failure or other facts. Otherwise returns the `flags` of all.
std::vector<int64_t> agree(Communicator& ranks, std::string_view function, const Facts& facts,
                           const std::string& failure, int64_t flags);

}  // namespace heed::distributed
