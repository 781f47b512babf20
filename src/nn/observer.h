// Who listens to the attention of this thread.
#pragma once

#include "heed/nn.h"

namespace heed::nn {

// The observer of the innermost open ObserverScope of this thread, or null.
[[nodiscard]] AttentionObserver* active_observer();

}  // namespace heed::nn
