// Messages that hold tensors.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "heed/distributed.h"
#include "heed/tensor.h"

namespace heed::distributed {

// The bytes of a contiguous tensor.
[[nodiscard]] inline std::span<std::byte> bytes_of_tensor(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), static_cast<size_t>(tensor.nbytes())};
}

// A contiguous tensor on its way to or from another rank; one without bytes does not travel. Where nobody waits for it,
// because an error ends the call, the communicator keeps its memory: MPI may still read or write it.
class TensorMessage {
 public:
  [[nodiscard]] static TensorMessage send(Communicator& ranks, const Tensor& tensor, int to, Channel channel);
  [[nodiscard]] static TensorMessage receive(Communicator& ranks, const Tensor& into, int from, Channel channel);
  TensorMessage(TensorMessage&&) noexcept = default;
  TensorMessage& operator=(TensorMessage&&) = delete;
  ~TensorMessage();

  // Returns the tensor when it has been sent or received.
  Tensor wait();

 private:
  struct Memory {
    Tensor tensor;
    TransferPtr transfer;          // null: nothing to wait for
    std::shared_ptr<Memory> self;  // set: never freed
  };
  TensorMessage(Communicator& ranks, const Tensor& tensor);

  Communicator* ranks_;
  std::shared_ptr<Memory> memory_;  // null: moved from
};

// Messages that were sent and must live until they have arrived.
class Outgoing {
 public:
  Outgoing(Communicator& ranks, Channel channel, int64_t& sent) : ranks_(ranks), channel_(channel), sent_(sent) {}
  // `time` never decreases.
  void send(const Tensor& message, int to, int64_t time);
  // Waits for all that was sent at `time` or before.
  void wait_for(int64_t time);
  void wait_for_all();
  // Waits until at most `count` are left.
  void wait_until_left(size_t count);

 private:
  struct Sent {
    TensorMessage message;
    int64_t time;
  };
  void wait_for_first();

  Communicator& ranks_;
  Channel channel_;
  int64_t& sent_;
  std::deque<Sent> messages_;
};

}  // namespace heed::distributed
