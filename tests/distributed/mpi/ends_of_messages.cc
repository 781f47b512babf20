// Messages between two processes that end before they are complete. Prints what went wrong; the exit code is 0 where
// nothing did. With "stuck", rank 1 prints what it is told after a message that cannot be taken back.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>
#include <vector>

#include "base/message.h"
#include "heed/distributed.h"

namespace heed::distributed {
namespace {

constexpr size_t kSmall = 64;                // sent at once
constexpr size_t kLarge = size_t{16} << 20;  // sent when it is expected
constexpr std::byte kBefore{1}, kSent{2};

int problems = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  std::cerr << "expected " << what << '\n';
  ++problems;
}

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

bool all_are(const std::vector<std::byte>& bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == value; });
}

// Rank 1 expects a message and gives up before it is sent: it comes to whoever expects it next.
void given_up_before_it_comes(Communicator& ranks, size_t size) {
  std::vector<std::byte> bytes(size, ranks.rank() == 0 ? kSent : kBefore);
  if (ranks.rank() == 1) (void)ranks.start_receive(bytes, 0, Channel::weights);
  ranks.barrier();
  TransferPtr sent;
  if (ranks.rank() == 0) sent = ranks.start_send(bytes, 1, Channel::weights);
  ranks.barrier();
  sleep_for(0.05);
  ranks.barrier();
  if (ranks.rank() == 0) return ranks.wait(*sent);
  expect(all_are(bytes, kBefore), "memory that nothing is written into after its message was given up");
  std::vector<std::byte> next(size);
  ranks.receive(next, 0, Channel::weights);
  expect(all_are(next, kSent) && all_are(bytes, kBefore), "the message where it is expected next");
}

// Rank 1 gives up while the message comes.
void given_up_while_it_comes(Communicator& ranks) {
  std::vector<std::byte> bytes(kLarge, ranks.rank() == 0 ? kSent : kBefore);
  if (ranks.rank() == 0) {
    ranks.send(bytes, 1, Channel::weights);
  } else {
    TransferPtr received = ranks.start_receive(bytes, 0, Channel::weights);
    while (bytes[0] == kBefore && !ranks.done(*received)) {
    }
    received.reset();
    const std::vector<std::byte> copy = bytes;
    sleep_for(0.05);
    (void)ranks.failure_announced();  // MPI goes on
    expect(bytes == copy, "memory that nothing is written into any more");
  }
  ranks.barrier();
}

// An end without a failure: rank 0 waits for rank 1, and does not tell anybody.
void leave_one_after_the_other(std::unique_ptr<Communicator> ranks) {
  int told = 0;
  ranks->on_wait([&](int, double) { ++told; });
  if (ranks->rank() == 1) sleep_for(0.4);
  ranks.reset();
  expect(told == 0, "goodbyes that are waited for in silence");
}

void get_stuck(Communicator& ranks) {
  std::vector<std::byte> bytes(kLarge), never(1);
  if (ranks.rank() == 0) {
    ranks.receive(never, 1, Channel::work);
  } else {
    (void)ranks.start_send(bytes, 0, Channel::weights);  // nobody expects it
    std::cout << heed::testing::message_of([&] { ranks.send(never, 0, Channel::work); }) << '\n'
              << heed::testing::message_of([&] { ranks.announce_failure("x"); }) << '\n'
              << std::flush;
  }
  ranks.abort(EXIT_FAILURE);
}

int run(std::string_view what) {
  std::unique_ptr<Communicator> ranks = world();
  ranks->set_timeout(60);  // a message that never comes is a failure, not a wait
  if (what == "stuck") get_stuck(*ranks);
  given_up_before_it_comes(*ranks, kSmall);
  given_up_before_it_comes(*ranks, kLarge);
  given_up_while_it_comes(*ranks);
  leave_one_after_the_other(std::move(ranks));
  return problems == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace heed::distributed

int main(int argc, char** argv) { return heed::distributed::run(argc > 1 ? argv[1] : ""); }
