// Ranks that need no network: one alone, and threads of one process.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>

#include "base/clock.h"
#include "heed/distributed.h"

namespace heed::distributed {

namespace {

// A transfer without a peer cannot exist: start_send() and start_receive() refuse before these are called.
class Single : public Communicator {
 public:
  Single() : Communicator(0, 1) {
    char name[64] = {};
    gethostname(name, sizeof name - 1);
    introduce(name, 0);
  }
  std::string engine() const override { return "one process"; }
  void abort(int /*status*/) override { fail("distributed", "a rank that goes on; found one that was aborted"); }

 protected:
  TransferPtr begin_send(std::span<const std::byte>, int, int) override { return nullptr; }
  TransferPtr begin_receive(std::span<std::byte>, int, int) override { return nullptr; }
};

// From, to, channel, and the number of the message among those of the three: a receive gets the message that was sent
// with its number, whichever of several receives is asked first.
using Address = std::tuple<int, int, int, int64_t>;

struct Message {
  std::vector<std::byte> bytes;
  Clock::time_point arrives;
};

class Post {
 public:
  explicit Post(double delay) : delay_(delay) {}

  void send(std::span<const std::byte> bytes, int from, int to, int channel) {
    const std::lock_guard lock(mutex_);
    const int64_t number = sent_[{from, to, channel}]++;
    const auto delay = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(delay_));
    messages_[{from, to, channel, number}] = {{bytes.begin(), bytes.end()}, Clock::now() + delay};
  }
  Address expect(int from, int to, int channel) {
    const std::lock_guard lock(mutex_);
    return {from, to, channel, expected_[{from, to, channel}]++};
  }
  bool take(const Address& address, std::span<std::byte> into) {
    const std::lock_guard lock(mutex_);
    if (aborted_by_) {
      const std::string name = "rank " + std::to_string(*aborted_by_) + " (thread)";
      throw PeerError(*aborted_by_, true, "[distributed] " + name + " to go on; it aborted all ranks");
    }
    const auto found = messages_.find(address);
    if (found == messages_.end() || Clock::now() < found->second.arrives) return false;
    const std::vector<std::byte> bytes = std::move(found->second.bytes);
    messages_.erase(found);
    require(bytes.size() == into.size(), "distributed", "a message of ", into.size(), " bytes; found ", bytes.size());
    if (!bytes.empty()) std::memcpy(into.data(), bytes.data(), bytes.size());
    return true;
  }
  void abort(int rank) {
    const std::lock_guard lock(mutex_);
    if (!aborted_by_) aborted_by_ = rank;
  }

 private:
  double delay_;
  std::mutex mutex_;
  std::optional<int> aborted_by_;
  std::map<Address, Message> messages_;
  std::map<std::tuple<int, int, int>, int64_t> sent_, expected_;
};

class Sent : public Transfer {
  bool poll() override { return true; }  // the bytes were copied
};

class Expected : public Transfer {
 public:
  Expected(Post& post, Address address, std::span<std::byte> into) : post_(post), address_(address), into_(into) {}

 private:
  bool poll() override {
    if (!done_) done_ = post_.take(address_, into_);
    return done_;
  }
  Post& post_;
  Address address_;
  std::span<std::byte> into_;
  bool done_ = false;
};

class Thread : public Communicator {
 public:
  Thread(Post& post, int rank, int size) : Communicator(rank, size), post_(post) { introduce("thread", 0); }
  std::string engine() const override { return "threads"; }
  void abort(int /*status*/) override {
    post_.abort(rank());
    fail("distributed", "a rank that goes on; found one that was aborted");
  }

 protected:
  TransferPtr begin_send(std::span<const std::byte> bytes, int to, int channel) override {
    post_.send(bytes, rank(), to, channel);
    return std::make_unique<Sent>();
  }
  TransferPtr begin_receive(std::span<std::byte> bytes, int from, int channel) override {
    return std::make_unique<Expected>(post_, post_.expect(from, rank(), channel), bytes);
  }

 private:
  Post& post_;
};

}  // namespace

std::unique_ptr<Communicator> single() { return std::make_unique<Single>(); }

void run_in_process(int ranks, const std::function<void(Communicator&)>& f, double delay) {
  require(ranks >= 1, "run_in_process", "1 rank or more; found ", ranks);
  Post post(delay);
  struct Failure {
    std::exception_ptr error;
    bool own = false;  // not the echo of another rank's
  };
  std::vector<Failure> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Communicator> mine;
      Failure& failure = failures[static_cast<size_t>(rank)];
      try {
        mine = std::make_unique<Thread>(post, rank, ranks);
        f(*mine);
      } catch (const PeerError& error) {
        failure = {std::current_exception(), !error.announced()};
        if (mine && !error.announced()) mine->announce_failure(error.what());
      } catch (const std::exception& error) {
        failure = {std::current_exception(), true};
        if (mine) mine->announce_failure(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool own : {true, false}) {
    for (const Failure& failure : failures) {
      if (failure.error && failure.own == own) std::rethrow_exception(failure.error);
    }
  }
}

}  // namespace heed::distributed
