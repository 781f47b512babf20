#include "serve/stop.h"

#include <utility>

#include "serve/service.h"

namespace heed::serve {
namespace {

thread_local const std::function<bool()>* current_stop = nullptr;

}  // namespace

StopScope::StopScope(std::function<bool()> stop) : before_(current_stop), stop_(std::move(stop)) {
  current_stop = &stop_;
}
StopScope::~StopScope() { current_stop = before_; }

bool told_to_stop() { return current_stop != nullptr && *current_stop && (*current_stop)(); }

void go_on() {
  if (told_to_stop()) throw Refused(408, "the answer took too long, or nobody waits for it any more");
}

}  // namespace heed::serve
