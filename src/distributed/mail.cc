// A letter is a head of three numbers and, where it has a text, the text.
#include "distributed/mail.h"

#include <algorithm>
#include <utility>

namespace heed::distributed {

Mail::Mail(Communicator& ranks, int peer, Channel channel) : ranks_(ranks), peer_(peer), channel_(channel) {
  expect_head();
}

void Mail::expect_head() {
  head_transfer_ = ranks_.start_receive(std::as_writable_bytes(std::span(head_)), peer_, channel_);
}

void Mail::send(Letter letter) {
  auto out = std::make_unique<Outgoing>();
  const int64_t bytes = letter.text == nullptr ? 0 : static_cast<int64_t>(letter.text->size());
  out->head = {letter.kind, letter.number, bytes};
  out->text = std::move(letter.text);
  out->head_transfer = ranks_.start_send(std::as_bytes(std::span(out->head)), peer_, channel_);
  if (bytes > 0) {
    out->text_transfer =
        ranks_.start_send(std::as_bytes(std::span(out->text->data(), out->text->size())), peer_, channel_);
  }
  outgoing_.push_back(std::move(out));
}

bool Mail::all_sent() {
  std::erase_if(outgoing_, [&](const auto& out) {
    return ranks_.done(*out->head_transfer) && (out->text_transfer == nullptr || ranks_.done(*out->text_transfer));
  });
  return outgoing_.empty();
}

void Mail::arrived(std::string text) {
  come_.push_back({.kind = head_[0], .number = head_[1], .text = std::make_shared<const std::string>(std::move(text))});
  ended_ = last_ == head_[0];
  if (!ended_) expect_head();
}

void Mail::poll() {
  (void)all_sent();
  while (!ended_) {
    if (head_transfer_ != nullptr) {
      if (!ranks_.done(*head_transfer_)) return;
      head_transfer_.reset();
      if (head_[2] == 0) {
        arrived({});
        continue;
      }
      text_.assign(static_cast<size_t>(head_[2]), '\0');
      text_transfer_ =
          ranks_.start_receive(std::as_writable_bytes(std::span(text_.data(), text_.size())), peer_, channel_);
    }
    if (!ranks_.done(*text_transfer_)) return;
    text_transfer_.reset();
    arrived(std::exchange(text_, {}));
  }
}

std::optional<Letter> Mail::receive() {
  poll();
  if (come_.empty()) return std::nullopt;
  Letter letter = std::move(come_.front());
  come_.pop_front();
  return letter;
}

bool Mail::has_come(int64_t kind) {
  poll();
  return std::any_of(come_.begin(), come_.end(), [&](const Letter& letter) { return letter.kind == kind; });
}

}  // namespace heed::distributed
