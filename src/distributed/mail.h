// Messages of any length to and from one rank, without waiting for it.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "heed/distributed.h"

namespace heed::distributed {

struct Letter {
  int64_t kind = 0;
  int64_t number = 0;
  std::shared_ptr<const std::string> text = nullptr;  // none
};

// A message that was begun may arrive much later: an object of this class that is not at rest() must live as long as
// the communicator (Communicator::keep()).
class Mail {
 public:
  Mail(Communicator& ranks, int peer, Channel channel);
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  void send(Letter letter);
  // The next letter that has come whole.
  [[nodiscard]] std::optional<Letter> receive();
  // Looks what has come, without taking it: whether there is a letter of that kind.
  [[nodiscard]] bool has_come(int64_t kind);
  [[nodiscard]] bool all_sent();
  // No more letters are expected after one of this kind.
  void ends_with(int64_t kind) { last_ = kind; }
  [[nodiscard]] bool at_rest() { return ended_ && all_sent(); }

 private:
  using Head = std::array<int64_t, 3>;  // kind, number, bytes that follow
  struct Outgoing {
    Head head;
    std::shared_ptr<const std::string> text;
    TransferPtr head_transfer, text_transfer;
  };
  void poll();
  void expect_head();
  void arrived(std::string text);

  Communicator& ranks_;
  int peer_;
  Channel channel_;
  std::optional<int64_t> last_;
  bool ended_ = false;
  std::deque<std::unique_ptr<Outgoing>> outgoing_;
  std::deque<Letter> come_;
  Head head_ = {};
  std::string text_;
  TransferPtr head_transfer_, text_transfer_;
};

}  // namespace heed::distributed
