// What a call runs, told in a line.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string_view>

#include "attention/call/call.h"

namespace heed {

[[nodiscard]] AttentionPlan plan_of(std::string_view function, std::span<const ForwardCall> calls);

// Where HEED_EXPLAIN asks for it: a line about these calls when the scope ends. `work` is how many times the forward
// pass's operations are done (backward: 2.5).
class ExplainScope {
 public:
  ExplainScope(std::string_view function, std::span<const ForwardCall> calls, double work);
  ~ExplainScope();
  ExplainScope(const ExplainScope&) = delete;
  ExplainScope& operator=(const ExplainScope&) = delete;

 private:
  std::optional<AttentionPlan> plan_;
  const kernels::AttentionPairs* pairs_ = nullptr;
  double work_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace heed
