// Values, their recording, and backward().
#include "autograd/tape.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "heed/error.h"

namespace heed {
namespace {

thread_local bool recording_enabled = true;
thread_local uint64_t last_sequence = 0;
thread_local const LeafGradientScope* leaf_gradients = nullptr;

const Tensor kUndefined;

}  // namespace

namespace tape {

// A chain of a million steps must not become a million nested destructors: what a dying step holds is laid on a list,
// which the outermost destructor of the thread empties.
Step::~Step() {
  if (inputs.empty() && !backward) return;
  using Remains = std::pair<std::vector<std::shared_ptr<Step>>, Backward>;
  thread_local std::vector<Remains>* list = nullptr;
  if (list != nullptr) {
    list->emplace_back(std::move(inputs), std::move(backward));
    return;
  }
  std::vector<Remains> own;
  list = &own;
  own.emplace_back(std::move(inputs), std::move(backward));
  while (!own.empty()) {
    const Remains next = std::move(own.back());
    own.pop_back();
  }
  list = nullptr;
}

Tensor dense(const Value& x) { return ops::contiguous(x.data()); }

Tensor unpacked(const Value& weight) {
  const auto packed = weight.packed();
  return packed == nullptr ? weight.data() : packed->unpack();
}

namespace {

// All steps below `root`, itself included, inputs' inputs first come first served: no recursion.
std::vector<std::shared_ptr<Step>> reachable(const std::shared_ptr<Step>& root) {
  std::vector<std::shared_ptr<Step>> found = {root};
  root->visited = true;
  for (size_t next = 0; next < found.size(); ++next) {
    const Step& step = *found[next];  // by reference to the step: `found` moves as it grows
    for (const auto& input : step.inputs) {
      if (input == nullptr || input->visited) continue;
      input->visited = true;
      found.push_back(input);
    }
  }
  for (const auto& step : found) step->visited = false;
  return found;
}

// Ends the life of a step in the graph: whatever it kept is freed.
void retire(Step& step) {
  if (step.leaf) return;
  step.used = true;
  step.backward = nullptr;
  step.inputs.clear();
  step.slot = {};
}

// Retires what is left, also when a closure throws: half a graph must not be differentiated again.
struct Retire {
  std::vector<std::shared_ptr<Step>>& steps;
  ~Retire() {
    for (const auto& step : steps) {
      if (step != nullptr) retire(*step);
    }
  }
};

// Counts how many steps will still add to the gradient of each leaf, where somebody wants to know.
class LeafCount {
 public:
  explicit LeafCount(const std::vector<std::shared_ptr<Step>>& steps) {
    if (leaf_gradients == nullptr) return;
    for (const auto& step : steps) {
      for (const auto& input : step->inputs) {
        if (input != nullptr && input->leaf) ++left_[input.get()];
      }
    }
  }
  void after(const Step& step) {
    if (left_.empty()) return;
    for (const auto& input : step.inputs) {
      if (input == nullptr || !input->leaf || --left_[input.get()] > 0) continue;
      input->slot.complete();
      Graph::report(*leaf_gradients, input.get());
    }
  }

 private:
  std::unordered_map<const Step*, int64_t> left_;
};

void run(const std::shared_ptr<Step>& root, float seed) {
  std::vector<std::shared_ptr<Step>> steps = reachable(root);
  for (const auto& step : steps) {
    require(!step->used, "backward", "a graph that is whole; found a part that an earlier backward() has freed");
  }
  // Consumers before what they consume, and so the order of every sum of gradients is fixed.
  std::stable_sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a->sequence > b->sequence; });

  const NoGradScope no_grad;  // closures may use the functions they belong to
  const Retire finally{steps};
  {
    Step source;  // the constant 1 that the root is multiplied with
    source.inputs = {root};
    Gradients(source, false).give(0, Tensor::full(root->shape, seed));
  }
  LeafCount leaves(steps);
  for (auto& step : steps) {
    if (!step->leaf && step->slot.gradient.defined()) {
      step->slot.complete();
      const Tensor d_output = std::move(step->slot.gradient);
      step->slot.gradient = {};
      Gradients gradients(*step, step->slot.owned);
      step->backward(d_output, gradients);
    }
    leaves.after(*step);
    retire(*step);
    step.reset();
  }
}

}  // namespace
}  // namespace tape

namespace tape {

bool recording(std::initializer_list<const Value*> inputs) {
  return recording_enabled &&
         std::any_of(inputs.begin(), inputs.end(), [](const Value* v) { return v->requires_grad(); });
}

bool recording(const std::vector<Value>& inputs) {
  return recording_enabled &&
         std::any_of(inputs.begin(), inputs.end(), [](const Value& v) { return v.requires_grad(); });
}

void Graph::report(const LeafGradientScope& scope, const Step* leaf) {
  const auto found = std::lower_bound(scope.leaves_.begin(), scope.leaves_.end(), std::pair(leaf, size_t{0}));
  if (found != scope.leaves_.end() && found->first == leaf) scope.whole_(found->second);
}

Value Graph::value(Tensor data, std::shared_ptr<Step> step) {
  Value value(std::move(data));
  value.step_ = std::move(step);
  return value;
}

namespace {

// Adds one input to a step that is being made.
void link(Step& step, const std::shared_ptr<Step>& input) {
  if (input != nullptr) last_sequence = std::max(last_sequence, input->sequence);
  step.inputs.push_back(input);
}

Value finish(Tensor data, std::shared_ptr<Step> step, Step::Backward backward) {
  step->shape = data.shape();
  step->sequence = ++last_sequence;
  step->backward = std::move(backward);
  return Graph::value(std::move(data), std::move(step));
}

}  // namespace

Value make_recorded(Tensor data, std::initializer_list<const Value*> inputs, Step::Backward backward) {
  auto step = std::make_shared<Step>();
  step->inputs.reserve(inputs.size());
  for (const Value* input : inputs) link(*step, Graph::step(*input));
  return finish(std::move(data), std::move(step), std::move(backward));
}

Value make_recorded(Tensor data, const std::vector<Value>& inputs, Step::Backward backward) {
  auto step = std::make_shared<Step>();
  step->inputs.reserve(inputs.size());
  for (const Value& input : inputs) link(*step, Graph::step(input));
  return finish(std::move(data), std::move(step), std::move(backward));
}

}  // namespace tape

Value::Value(Tensor data, bool requires_grad) {
  require(data.defined(), "value", "a tensor; found an undefined one");
  if (!requires_grad) {
    data_ = std::move(data);
    return;
  }
  require(data.dtype() == DType::f32, "value", "f32 where a gradient is required; found ", data.dtype());
  step_ = std::make_shared<tape::Step>();
  step_->leaf = true;
  step_->data = data.contiguous();
  step_->shape = data.shape();
  step_->sequence = ++last_sequence;
}

const Tensor& Value::data() const {
  require(defined(), "value", "a defined value; found an undefined one");
  if (step_ == nullptr || !step_->leaf) return data_;
  if (step_->is_packed.load(std::memory_order_acquire)) {
    const std::scoped_lock lock(step_->packing);
    if (step_->is_packed) {
      if (!step_->data.defined()) step_->data = step_->packed->get()->unpack();
      step_->packed->set(nullptr);
      step_->is_packed.store(false, std::memory_order_release);
    }
  }
  return step_->data;
}

const Shape& Value::shape() const { return step_ != nullptr && step_->leaf ? step_->shape : data().shape(); }

int64_t Value::size(int axis) const {
  if (step_ == nullptr || !step_->leaf) return data().size(axis);
  const int rank = shape().rank(), positive = axis < 0 ? axis + rank : axis;
  require(positive >= 0 && positive < rank, "size", "an axis of a value of rank ", rank, "; found ", axis);
  return shape()[positive];
}

void Value::pack(WeightFormat format) const {
  require(step_ != nullptr && step_->leaf, "pack", "a leaf that requires a gradient; found another value");
  const auto before = packed();
  // A weight that is packed in int8 has no other numbers.
  const bool kept = before != nullptr && (before->format() == format || before->format() == WeightFormat::int8);
  if (!kept) set_packed(std::make_shared<const ops::PackedWeight>(data(), format));
}

void Value::set_packed(std::shared_ptr<const ops::PackedWeight> packed) const {
  require(step_ != nullptr && step_->leaf, "set_packed", "a leaf that requires a gradient; found another value");
  require(packed != nullptr && packed->shape() == shape(), "set_packed", "a packed weight of shape ", shape());
  const std::scoped_lock lock(step_->packing);
  if (step_->packed == nullptr) step_->packed = std::make_unique<tape::Packed>();
  step_->packed->set(std::move(packed));
  step_->data = {};
  step_->is_packed.store(true, std::memory_order_release);
}

std::shared_ptr<const ops::PackedWeight> Value::packed() const {
  if (step_ == nullptr || !step_->is_packed.load(std::memory_order_acquire)) return nullptr;
  return step_->packed->get();
}

const Tensor& Value::grad() const {
  require(defined(), "value", "a defined value; found an undefined one");
  return step_ != nullptr && step_->leaf ? step_->slot.gradient : kUndefined;
}

float Value::item() const {
  require(data().numel() == 1, "item", "one element; found shape ", shape());
  return *data().data<float>();
}

void Value::set_data(const Tensor& data) const {
  require(step_ != nullptr && step_->leaf, "set_data", "a leaf that requires a gradient; found another value");
  require(data.shape() == shape() && data.dtype() == DType::f32, "set_data", "f32 ", shape(), "; found ", data.dtype(),
          " ", data.shape());
  const std::scoped_lock lock(step_->packing);
  if (step_->packed != nullptr) step_->packed->set(nullptr);
  step_->is_packed.store(false, std::memory_order_release);
  step_->data = data.contiguous();
}

void Value::zero_grad() const {
  if (grad().defined()) grad().zero();
}

void Value::set_grad(Tensor grad) const {
  require(step_ != nullptr && step_->leaf, "set_grad", "a leaf that requires a gradient; found another value");
  if (grad.defined()) {
    require(grad.shape() == shape() && grad.dtype() == DType::f32 && grad.is_contiguous(), "set_grad",
            "a contiguous f32 tensor of shape ", shape(), "; found ", grad.dtype(), " ", grad.shape());
  }
  step_->slot.gradient = std::move(grad);
  step_->slot.owned = true;
}

void Value::backward(float seed) const {
  require(data().numel() == 1, "backward", "a value of one element; found shape ", shape());
  require(requires_grad(), "backward", "a value that depends on one that requires a gradient; found none");
  tape::run(step_, seed);
}

Value Value::record(Tensor data, const std::vector<Value>& inputs,
                    std::function<std::vector<Tensor>(const Tensor& d_output)> backward) {
  require(data.defined(), "record", "a tensor; found an undefined one");
  if (!tape::recording(inputs)) return Value(std::move(data));
  return tape::make_recorded(
      std::move(data), inputs,
      [backward = std::move(backward), count = inputs.size()](const Tensor& d, tape::Gradients& into) {
        const std::vector<Tensor> gradients = backward(ops::contiguous(d));
        require(gradients.size() == count, "backward", count, " gradients, one an input; found ", gradients.size());
        for (size_t i = 0; i < count; ++i) {
          if (gradients[i].defined()) into.share(i, gradients[i]);
        }
      });
}

NoGradScope::NoGradScope() : before_(std::exchange(recording_enabled, false)) {}
NoGradScope::~NoGradScope() { recording_enabled = before_; }
bool grad_enabled() { return recording_enabled; }

LeafGradientScope::LeafGradientScope(std::span<const Value> leaves, std::function<void(size_t)> whole)
    : before_(leaf_gradients), whole_(std::move(whole)) {
  for (size_t i = 0; i < leaves.size(); ++i) {
    const auto& step = tape::Graph::step(leaves[i]);
    require(step != nullptr && step->leaf, "leaf_gradients", "leaves that require a gradient; found another value");
    leaves_.emplace_back(step.get(), i);
  }
  std::sort(leaves_.begin(), leaves_.end());
  leaf_gradients = this;
}
LeafGradientScope::~LeafGradientScope() { leaf_gradients = static_cast<const LeafGradientScope*>(before_); }

}  // namespace heed
