// Who probes the forward passes of this thread.
#pragma once

#include <string_view>

#include "heed/autograd.h"
#include "heed/probe.h"

namespace heed::nn {

// The probe of the innermost open ProbeScope of this thread, or null. Throws Error where there is one and gradients are
// recorded: what it returned would have none.
[[nodiscard]] Probe* active_probe();
// Throws Error where there is a probe: what is cached is not seen by it.
void require_no_probe(const char* function);

// The state after a sublayer, or after an embedding, as the probe leaves it.
[[nodiscard]] Value probed_state(std::string_view sublayer, const Value& state);

}  // namespace heed::nn
