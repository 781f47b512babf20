// Whether anybody still waits for what this thread computes.
#pragma once

#include <functional>

namespace heed::serve {

// While it is alive, `stop` is asked between the layers of every pass of this thread.
class StopScope {
 public:
  explicit StopScope(std::function<bool()> stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::function<bool()>* before_;
  std::function<bool()> stop_;
};

[[nodiscard]] bool told_to_stop();
// Throws Refused (408) where told_to_stop().
void go_on();

}  // namespace heed::serve
