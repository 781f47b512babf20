#include "attention/across_ranks/messages.h"

namespace heed::distributed {

TensorMessage::TensorMessage(Communicator& ranks, const Tensor& tensor)
    : ranks_(&ranks), memory_(std::make_shared<Memory>(Memory{tensor, nullptr, nullptr})) {}

TensorMessage TensorMessage::send(Communicator& ranks, const Tensor& tensor, int to, Channel channel) {
  TensorMessage message(ranks, tensor);
  if (tensor.nbytes() > 0) message.memory_->transfer = ranks.start_send(bytes_of_tensor(tensor), to, channel);
  return message;
}

TensorMessage TensorMessage::receive(Communicator& ranks, const Tensor& into, int from, Channel channel) {
  TensorMessage message(ranks, into);
  if (into.nbytes() > 0) message.memory_->transfer = ranks.start_receive(bytes_of_tensor(into), from, channel);
  return message;
}

TensorMessage::~TensorMessage() {
  if (memory_ == nullptr || memory_->transfer == nullptr) return;
  bool done = false;
  try {
    done = ranks_->done(*memory_->transfer);
  } catch (...) {
    done = false;  // MPI failed, and may have any plans with the memory
  }
  if (done) return;
  try {
    ranks_->keep(memory_);
  } catch (...) {
    memory_->self = memory_;  // not even the memory to note it down
  }
}

Tensor TensorMessage::wait() {
  if (memory_->transfer != nullptr) ranks_->wait(*memory_->transfer);
  memory_->transfer.reset();
  return memory_->tensor;
}

void Outgoing::send(const Tensor& message, int to, int64_t time) {
  messages_.push_back({TensorMessage::send(ranks_, message, to, channel_), time});
  sent_ += message.nbytes();
}

void Outgoing::wait_for_first() {
  messages_.front().message.wait();
  messages_.pop_front();
}
void Outgoing::wait_for(int64_t time) {
  while (!messages_.empty() && messages_.front().time <= time) wait_for_first();
}
void Outgoing::wait_until_left(size_t count) {
  while (messages_.size() > count) wait_for_first();
}
void Outgoing::wait_for_all() { wait_until_left(0); }

}  // namespace heed::distributed
