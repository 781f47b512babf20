// What a call runs, in a line: attention_plan() and HEED_EXPLAIN.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "attention/call/call.h"

namespace heed {

// While one is alive, an attention function runs the calls that were added. Where HEED_EXPLAIN is set, its end appends
// a line about them to the file named there. `work`: how many times the forward pass's operations are done (backward:
// 2.5).
class Explain {
 public:
  Explain(std::string_view function, double work);
  ~Explain();
  Explain(const Explain&) = delete;
  Explain& operator=(const Explain&) = delete;

  void add(const AttentionCall& call);

 private:
  std::optional<AttentionPlan> plan_;
  std::string function_;
  std::string shapes_;
  int64_t calls_ = 0;
  const kernels::Engine* engine_ = nullptr;
  double work_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace heed
