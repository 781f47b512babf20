// The tape: the steps by which values were made, linked from results to inputs.
//
// A value is its data and, if it depends on something that requires a gradient, a Step. Steps link to steps, not to
// values: data that no step saved for its gradient is freed with its value, while the graph lives on. Where nothing
// requires a gradient no step is made, and a function on values allocates what the same function on tensors does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fork.h"
#include "heed/autograd.h"

namespace heed::tape {

// The gradient of one value while it is being added up.
//
// Several values may see one gradient (both sides of a sum have the gradient of the sum), so memory is only written in
// place where this slot is the only one that holds it; otherwise the first addition makes a new tensor.
struct Slot {
  Tensor gradient;
  bool owned = false;
  // While parts are being written: which ranges of `part_axis` hold numbers; the rest is still arbitrary.
  int part_axis = -1;
  std::vector<std::pair<int64_t, int64_t>> parts;

  void complete();  // writes zeros where no part was written
};

class Gradients;

// A packed weight that any thread may read while another one changes it.
class Packed {
 public:
  using Weight = std::shared_ptr<const ops::PackedWeight>;
  [[nodiscard]] Weight get() const {
    const std::scoped_lock lock(mutex_);
    return weight_;
  }
  // The weight before is destroyed when the mutex is free again: giving memory back takes a mutex, too.
  void set(Weight weight) {
    const std::scoped_lock lock(mutex_);
    weight_.swap(weight);
  }

 private:
  mutable ForkSafeMutex mutex_;
  Weight weight_;
};

struct Step {
  // d_output may be strided; it is the caller's to read, and to hand on by Gradients::share or pass.
  using Backward = std::function<void(const Tensor& d_output, Gradients& into)>;

  uint64_t sequence = 0;  // greater than that of every input
  Shape shape;
  std::vector<std::shared_ptr<Step>> inputs;  // null where no gradient is required
  Backward backward;                          // empty for leaves, and once used
  bool leaf = false;
  Tensor data;  // of a leaf; undefined while a packed weight is in its place
  std::atomic<bool> is_packed = false;
  std::mutex packing;              // guards the change from packed to rows
  std::unique_ptr<Packed> packed;  // of a leaf that has once been packed
  bool used = false;
  bool visited = false;  // by the backward() that is running
  Slot slot;

  Step() = default;
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
};

// The gradients of a step's inputs, as its closure sees them. Every function does nothing for an input that requires
// none. `i` counts the inputs given to make().
class Gradients {
 public:
  Gradients(Step& step, bool output_owned) : step_(step), output_owned_(output_owned) {}

  [[nodiscard]] bool wanted(size_t i) const { return step_.inputs[i] != nullptr; }

  // Adds a tensor that nobody else holds.
  void give(size_t i, Tensor gradient) { add(i, std::move(gradient), true); }
  // Adds a tensor that others may hold as well.
  void share(size_t i, Tensor gradient) { add(i, std::move(gradient), false); }
  // Adds d_output, or a view of it, that goes to no other input (views that do not overlap may go to several). The
  // closure must not read it afterwards: it may be written to.
  void pass(size_t i, Tensor gradient) { add(i, std::move(gradient), output_owned_); }

  // The gradient itself, contiguous, for functions that add into their argument; undefined where none is wanted.
  [[nodiscard]] Tensor sum(size_t i);
  // True where sum() would have to write zeros first: then give() is cheaper.
  [[nodiscard]] bool fresh(size_t i) const { return !step_.inputs[i]->slot.gradient.defined(); }

  // The gradient of input i as a whole, of which the range [begin, end) of `axis` is to be written, or, where `add`,
  // added to. So the parts of a split are written side by side, and nothing is zeroed that will be written.
  struct Part {
    Tensor whole;
    bool add = false;
  };
  [[nodiscard]] Part part(size_t i, int axis, int64_t begin, int64_t end);

 private:
  void add(size_t i, Tensor gradient, bool owned);
  void check(const Step& input, const Tensor& gradient) const;

  Step& step_;
  bool output_owned_;
};

// The way from a value to its step, and back.
struct Graph {
  [[nodiscard]] static const std::shared_ptr<Step>& step(const Value& value) { return value.step_; }
  [[nodiscard]] static Value value(Tensor data, std::shared_ptr<Step> step);
  // Calls the scope's function, if the leaf is one of its leaves.
  static void report(const LeafGradientScope& scope, const Step* leaf);
};

// True where a value made from `inputs` would be recorded. Forward functions ask before they save anything.
[[nodiscard]] bool recording(std::initializer_list<const Value*> inputs);
[[nodiscard]] bool recording(const std::vector<Value>& inputs);

[[nodiscard]] Value make_recorded(Tensor data, std::initializer_list<const Value*> inputs, Step::Backward backward);
[[nodiscard]] Value make_recorded(Tensor data, const std::vector<Value>& inputs, Step::Backward backward);

// A value made from `inputs`, and the closure of its gradient, which is dropped where recording(inputs) is false. It
// becomes a std::function, which allocates, only where it is kept.
template <class Backward>
[[nodiscard]] Value make(Tensor data, std::initializer_list<const Value*> inputs, Backward&& backward) {
  if (!recording(inputs)) return Value(std::move(data));
  return make_recorded(std::move(data), inputs, std::forward<Backward>(backward));
}

// The data of `x`, contiguous.
[[nodiscard]] Tensor dense(const Value& x);

// The rows of a weight that may be packed, which stays so.
[[nodiscard]] Tensor unpacked(const Value& weight);

// The dropout to apply now: the scope's next key, or rate 0 outside of a TrainingScope. Of attention over the parts of
// a sequence all parts get one key, otherwise each gets one of its own.
enum class DropoutOf { rows, attention };
[[nodiscard]] ops::Dropout next_dropout(float rate, DropoutOf what = DropoutOf::rows);

// attention() of Values with dropout exactly as the options say: the caller has drawn the key.
[[nodiscard]] Value attention_with_dropout(const Value& query, const Value& key, const Value& value,
                                           AttentionOptions options);
// A bias by distance, (H, 2 R + 1), as the score function that adds it.
[[nodiscard]] Score distance_score(const Tensor& distance_bias);
// The same with a bias by distance, (H, 2 R + 1), as score::RelativePosition adds it; an undefined one is none.
[[nodiscard]] Value attention_by_distance(const Value& query, const Value& key, const Value& value,
                                          const Value& distance_bias, AttentionOptions options);
// The same within each of the sequences that follow each other in the T rows of query, key and value (1, H, T, D):
// sequence b begins at row starts[b], (B + 1) i32.
[[nodiscard]] Value attention_of_sequences(const Value& query, const Value& key, const Value& value,
                                           const Value& distance_bias, const Tensor& starts, AttentionOptions options);

}  // namespace heed::tape
