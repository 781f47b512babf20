// Adding up gradients without needless copies, and never into memory that someone else reads.
#include <algorithm>

#include "autograd/tape.h"
#include "heed/error.h"

namespace heed::tape {

void Slot::complete() {
  if (part_axis < 0) return;
  std::sort(parts.begin(), parts.end());
  int64_t written = 0;
  const auto clear = [&](int64_t begin, int64_t end) {
    if (begin < end) gradient.slice(part_axis, begin, end).zero();
  };
  for (const auto& [begin, end] : parts) {
    clear(written, begin);
    written = end;
  }
  clear(written, gradient.size(part_axis));
  part_axis = -1;
  parts.clear();
}

void Gradients::check(const Step& input, const Tensor& gradient) const {
  require(gradient.shape() == input.shape && gradient.dtype() == DType::f32, "backward",
          "an f32 gradient of the input's shape ", input.shape, "; found ", gradient.dtype(), " ", gradient.shape());
}

void Gradients::add(size_t i, Tensor gradient, bool owned) {
  Step* input = step_.inputs[i].get();
  if (input == nullptr) return;
  check(*input, gradient);
  Slot& slot = input->slot;
  if (!slot.gradient.defined()) {
    // What a leaf keeps is written by optimizers: it must be dense, and its own.
    const bool keep = !input->leaf || (owned && gradient.is_contiguous());
    slot.gradient = keep ? std::move(gradient) : gradient.clone();
    slot.owned = owned || !keep;
    return;
  }
  slot.complete();
  if (slot.owned) {
    ops::add_into(slot.gradient, gradient);
  } else if (owned) {  // x + y is y + x, to the bit
    ops::add_into(gradient, slot.gradient);
    slot.gradient = std::move(gradient);
    slot.owned = true;
  } else {
    slot.gradient = ops::add(slot.gradient, gradient);
    slot.owned = true;
  }
}

Tensor Gradients::sum(size_t i) {
  Step* input = step_.inputs[i].get();
  if (input == nullptr) return {};
  Slot& slot = input->slot;
  slot.complete();
  if (!slot.gradient.defined()) {
    slot.gradient = Tensor::zeros(input->shape);
    slot.owned = true;
  } else if (!slot.owned || !slot.gradient.is_contiguous()) {
    slot.gradient = slot.gradient.clone();
    slot.owned = true;
  }
  return slot.gradient;
}

Gradients::Part Gradients::part(size_t i, int axis, int64_t begin, int64_t end) {
  Step& input = *step_.inputs[i];
  Slot& slot = input.slot;
  if (!slot.gradient.defined() && !input.leaf) {
    slot.gradient = Tensor::empty(input.shape);
    slot.owned = true;
    slot.part_axis = axis;
  }
  const bool beside = slot.part_axis == axis &&
                      std::none_of(slot.parts.begin(), slot.parts.end(),
                                   [&](const auto& range) { return begin < range.second && range.first < end; });
  if (!beside) return {sum(i), true};
  slot.parts.emplace_back(begin, end);
  return {slot.gradient, false};
}

}  // namespace heed::tape
