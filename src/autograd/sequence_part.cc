// Which part of its sequences this thread computes.
#include "heed/autograd.h"
#include "heed/error.h"

namespace heed {
namespace {

thread_local const SequencePartScope* current_part = nullptr;

}  // namespace

SequencePartScope::SequencePartScope(distributed::Communicator& ranks, distributed::SequenceLayout layout)
    : before_(current_part), ranks_(ranks), layout_(std::move(layout)) {
  layout_.check("SequencePartScope");
  require(layout_.ranks() == ranks.size(), "SequencePartScope", "a layout for ", ranks.size(), " ranks; found one for ",
          layout_.ranks());
  current_part = this;
}

SequencePartScope::~SequencePartScope() { current_part = before_; }

const SequencePartScope* SequencePartScope::active() { return current_part; }

}  // namespace heed
