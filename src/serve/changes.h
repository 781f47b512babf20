// Experiments: what is switched off or replaced in a forward pass (docs/serve.md has the kinds).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "serve/reading.h"

namespace heed::serve {

struct Change {
  enum class Kind { head, layer, edge, token, state } kind = Kind::head;
  std::string part = {};          // encoder, decoder or cross; of a token: the side
  int64_t layer = -1, head = -1;  // -1: all
  int64_t row = -1, column = -1;  // of an edge; of a token and a state: column is the position
  Tensor state = {};              // (E), of a state
};

// The "changes" of a request; none where it has no such member. Throws Error for what the model has not, and for two
// changes that exclude each other.
[[nodiscard]] std::vector<Change> changes_of(const Reading& reading, const Arguments& request);

// Makes the changes while a model computes. A masked edge is a mask of the kernel, a head that is off is a zero:
// nothing is computed in another way than without the changes.
class Changes : public nn::Probe {
 public:
  explicit Changes(std::vector<Change> changes) : changes_(std::move(changes)) {}
  [[nodiscard]] bool empty() const { return changes_.empty(); }
  // Whether nothing of this head reaches the residual stream.
  [[nodiscard]] bool silences(std::string_view part, int64_t layer, int64_t head) const;
  void on_attention(std::string_view layer, const Tensor& query, const Tensor& key, const Tensor& value,
                    AttentionOptions& options) override;
  [[nodiscard]] Tensor on_heads(std::string_view layer, const Tensor& heads) override;
  [[nodiscard]] Tensor on_state(std::string_view sublayer, const Tensor& state) override;

 private:
  std::vector<Change> changes_;
  std::map<std::string, Tensor, std::less<>> before_;  // the state that a stack's next layer gets
};

}  // namespace heed::serve
