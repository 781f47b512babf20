// Attention over thousands of tokens: parts of one head, pooled, without ever holding all weights.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/views.h"

namespace heed::serve {

// Keeps the queries and keys of the last long text, so that another part of it is a matter of one head. What it answers
// does not depend on what it keeps.
class LongTexts {
 public:
  [[nodiscard]] Reply map(const Reading& reading, const Arguments& request);
  [[nodiscard]] nlohmann::json row(const Reading& reading, const Arguments& request);

 private:
  // One layer's (1, H, L, D), (1, Hkv, S, D), and its options.
  struct Layer {
    std::string path;
    Tensor query, key, value;
    AttentionOptions options;
  };
  [[nodiscard]] const Layer& layer_of(const Reading& reading, const std::string& part, int64_t layer);

  std::shared_ptr<const Served> model_;
  Ids source_, target_;
  std::vector<Layer> layers_;
};

}  // namespace heed::serve
