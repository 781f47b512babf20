// ProbeScope: one probe a thread; scopes nest.
#include "heed/probe.h"

#include "heed/error.h"
#include "nn/probing.h"

namespace heed::nn {
namespace {

thread_local Probe* current_probe = nullptr;

}  // namespace

void Probe::on_attention(std::string_view, const Tensor&, const Tensor&, const Tensor&, AttentionOptions&) {}
Tensor Probe::on_heads(std::string_view, const Tensor& heads) { return heads; }
void Probe::on_added(std::string_view, const Tensor&) {}
Tensor Probe::on_state(std::string_view, const Tensor& state) { return state; }

ProbeScope::ProbeScope(Probe& probe) : before_(current_probe) { current_probe = &probe; }
ProbeScope::~ProbeScope() { current_probe = before_; }

Probe* active_probe() {
  require(current_probe == nullptr || !grad_enabled(), "ProbeScope",
          "a forward pass without gradients (NoGradScope); found one that records them");
  return current_probe;
}

void require_no_probe(const char* function) {
  require(current_probe == nullptr, function, "no probe while decoding with a cache; found a ProbeScope");
}

Value probed_state(std::string_view sublayer, const Value& state) {
  Probe* const probe = active_probe();
  if (probe == nullptr) return state;
  const Tensor changed = probe->on_state(sublayer, state.data());
  require(changed.shape() == state.shape() && changed.dtype() == DType::f32, "Probe::on_state", "a state ",
          state.shape(), " of f32; found ", changed.shape(), " of ", changed.dtype());
  return Value(changed);
}

}  // namespace heed::nn
