// Whether dropout drops, and with which keys.
#include "autograd/tape.h"
#include "base/philox.h"
#include "heed/error.h"

namespace heed {
namespace {

thread_local TrainingScope* current_scope = nullptr;

}  // namespace

TrainingScope::TrainingScope(uint64_t seed, uint64_t step) : before_(current_scope), seed_(seed), step_(step) {
  current_scope = this;
}

TrainingScope::~TrainingScope() { current_scope = static_cast<TrainingScope*>(before_); }

bool TrainingScope::active() { return current_scope != nullptr; }

uint64_t TrainingScope::next_dropout_seed() {
  require(active(), "next_dropout_seed", "an open TrainingScope; found none");
  const auto words = philox(current_scope->seed_, current_scope->step_, current_scope->count_++);
  return uint64_t{words[0]} << 32 | words[1];
}

ops::Dropout tape::next_dropout(float rate, DropoutOf what) {
  require(rate >= 0 && rate < 1, "dropout", "a rate in [0, 1); found ", rate);
  if (rate == 0 || !TrainingScope::active()) return {};
  const uint64_t seed = TrainingScope::next_dropout_seed();
  const SequencePartScope* const scope = SequencePartScope::active();
  if (scope == nullptr || scope->part() == 0 || what == DropoutOf::attention) return {.rate = rate, .seed = seed};
  const auto words = philox(seed, static_cast<uint64_t>(scope->part()), 0);
  return {.rate = rate, .seed = uint64_t{words[0]} << 32 | words[1]};
}

}  // namespace heed
