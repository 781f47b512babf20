// ObserverScope: one observer a thread; scopes nest.
#include "nn/observer.h"

namespace heed::nn {
namespace {

thread_local AttentionObserver* current = nullptr;

}  // namespace

AttentionObserver* active_observer() { return current; }

ObserverScope::ObserverScope(AttentionObserver& observer) : before_(current) { current = &observer; }
ObserverScope::~ObserverScope() { current = before_; }

}  // namespace heed::nn
