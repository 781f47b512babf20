// What every engine shares: waiting for a peer that may be gone, and the functions for all ranks, made of messages.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/threads.h"
#include "heed/distributed.h"

namespace heed::distributed {

namespace {

// What a rank announced before it ended may arrive some moments after it is gone.
constexpr int kTurnsForLastWords = 20;
constexpr std::chrono::milliseconds kTurn{5};
constexpr size_t kFailureBytes = 512;  // of a failure's text; longer ones are cut

// Spins while an answer is near, then lets other processes have the core, then sleeps.
class Patience {
 public:
  void wait() {
    ++turns_;
    if (turns_ < 200) return;
    if (turns_ < 2000) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int turns_ = 0;
};

// Numbers of processes mean the same only within one namespace.
int64_t process_namespace() {
  char name[64] = {};
  if (readlink("/proc/self/ns/pid", name, sizeof name - 1) <= 0) return 0;
  const char* const bracket = std::strchr(name, '[');
  return bracket == nullptr ? 0 : std::atoll(bracket + 1);
}

// Whether a process of this machine has ended, its parent's wait included. Where that cannot be read, for want of file
// descriptors for example, it has not.
bool has_ended(int64_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  std::ifstream file(folder + "/stat");
  std::string line;
  if (!std::getline(file, line)) return access(folder.c_str(), F_OK) != 0 && errno == ENOENT;
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         (line[name_end + 2] == 'Z' || line[name_end + 2] == 'X');
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string seconds_text(double seconds) {
  const auto tenths = static_cast<int64_t>(std::round(10 * seconds));
  return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " s";
}

}  // namespace

Communicator::Communicator(int rank, int size) : rank_(rank), size_(size), places_(static_cast<size_t>(size)) {
  for (int i = 0; i < size; ++i) places_[static_cast<size_t>(i)].number = i;
}

Communicator::~Communicator() = default;

std::string Communicator::name_of(int rank) const {
  const std::string& name = host(rank);
  return "rank " + std::to_string(places_[static_cast<size_t>(rank)].number) + (name.empty() ? "" : " (" + name + ")");
}

TransferPtr Communicator::start_send(std::span<const std::byte> bytes, int to, Channel channel) {
  require(to >= 0 && to < size_ && to != rank_, "distributed", "another rank, 0 to ", size_ - 1, ", to send to; found ",
          to);
  TransferPtr transfer = begin_send(bytes, to, static_cast<int>(channel));
  transfer->peer_ = to;
  sent_ += static_cast<int64_t>(bytes.size());
  return transfer;
}

TransferPtr Communicator::start_receive(std::span<std::byte> bytes, int from, Channel channel) {
  require(from >= 0 && from < size_ && from != rank_, "distributed", "another rank, 0 to ", size_ - 1,
          ", to receive from; found ", from);
  TransferPtr transfer = begin_receive(bytes, from, static_cast<int>(channel));
  transfer->peer_ = from;
  return transfer;
}

bool Communicator::done(Transfer& transfer) { return transfer.poll(); }

void Communicator::wait(Transfer& transfer) {
  if (transfer.poll()) return;
  constexpr double kBetweenChecks = 0.05, kMostBetweenChecks = 0.5;
  const Clock::time_point start = Clock::now();
  double checked = 0, silent = 0;
  Patience patience;
  while (!transfer.poll()) {
    patience.wait();
    const double now = seconds_since(start);
    if (now - checked < kBetweenChecks) continue;
    // Where this process was stopped for a while, it is not its peer that was silent.
    was_away(now - checked);
    silent += std::min(now - checked, kMostBetweenChecks);
    checked = now;
    look_for_failures();
    for (int turn = 0; turn < kTurnsForLastWords && has_ended_here(transfer.peer_); ++turn) {
      std::this_thread::sleep_for(kTurn);
      look_for_failures();
    }
    check_peer(transfer.peer_, silent);
    if (on_wait_) on_wait_(transfer.peer_, silent);
  }
  was_away_ = false;  // they answered all the same
  count_waiting(seconds_since(start));
}

std::optional<PeerError> Communicator::next_failure() {
  const std::scoped_lock lock(failures_lock_);
  for (size_t i = 0; i < failure_receives_.size(); ++i) {
    if (failure_receives_[i] == nullptr || !failure_receives_[i]->poll()) continue;
    const int peer = failure_receives_[i]->peer_;
    const std::string text(reinterpret_cast<const char*>(failure_texts_[i].data()));
    failure_receives_[i].reset();
    if (text.empty()) continue;  // a goodbye
    return PeerError(peer, true, "[distributed] " + name_of(peer) + " to go on; it ended: " + text);
  }
  return std::nullopt;
}

void Communicator::look_for_failures() {
  if (const auto failure = next_failure()) throw PeerError(*failure);
}

bool Communicator::failure_announced() { return next_failure().has_value(); }

std::optional<PeerError> Communicator::lost_rank() {
  if (auto failure = next_failure()) return failure;
  const std::scoped_lock lock(failures_lock_);
  for (TransferPtr& each : failure_receives_) {
    if (each == nullptr) continue;
    try {
      check_peer(each->peer_, 0);
    } catch (const PeerError& error) {
      each.reset();
      return error;
    }
  }
  return std::nullopt;
}

void Communicator::give_up(int rank) {
  const std::scoped_lock lock(failures_lock_);
  given_up_.push_back(rank);
  for (TransferPtr& each : failure_receives_) {
    if (each != nullptr && each->peer_ == rank) each.reset();
  }
}

bool Communicator::has_ended_here(int rank) const {
  const Place& mine = places_[static_cast<size_t>(rank_)];
  const Place& theirs = places_[static_cast<size_t>(rank)];
  return theirs.process != 0 && theirs.process != mine.process && theirs.host == mine.host &&
         theirs.process_namespace == mine.process_namespace && has_ended(theirs.process);
}

PeerError Communicator::lost_error(int rank) const {
  const Place& place = places_[static_cast<size_t>(rank)];
  return PeerError(
      place.number, was_away_,
      "[distributed] " + name_of(rank) + " to go on; its process " + std::to_string(place.process) + " has ended");
}

std::optional<PeerError> Communicator::lost_here() {
  for (int rank = 0; rank < size_; ++rank) {
    if (!has_ended_here(rank)) continue;
    bool silent = true;
    for (int turn = 0; turn < kTurnsForLastWords && silent; ++turn) {
      if (turn > 0) std::this_thread::sleep_for(kTurn);
      const std::scoped_lock lock(failures_lock_);
      // Where it is not there any more, next_failure() has it, or all are leaving.
      const auto at = std::ranges::find_if(
          failure_receives_, [&](const TransferPtr& each) { return each != nullptr && each->peer_ == rank; });
      silent = at != failure_receives_.end() && !(*at)->poll();
    }
    if (silent) return lost_error(rank);
  }
  return std::nullopt;
}

void Communicator::check_peer(int peer, double silent) const {
  if (has_ended_here(peer)) throw PeerError(lost_error(peer));
  if (timeout_ > 0 && silent > timeout_) {
    throw PeerError(
        places_[static_cast<size_t>(peer)].number, false,
        "[distributed] an answer from " + name_of(peer) + " within " + seconds_text(timeout_) + "; found none");
  }
}

void Communicator::introduce(const std::string& host, int64_t process) {
  struct Card {
    char host[64];
    int64_t process, process_namespace;
  };
  Card mine = {};
  host.copy(mine.host, sizeof mine.host - 1);
  mine.process = process;
  mine.process_namespace = process_namespace();
  std::vector<Card> cards(static_cast<size_t>(size_));
  all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(cards)));
  for (size_t i = 0; i < cards.size(); ++i) {
    Place& place = places_[i];
    place.host = cards[i].host;
    place.process = cards[i].process;
    place.process_namespace = cards[i].process_namespace;
  }
  failure_texts_.assign(static_cast<size_t>(size_ - 1), std::vector<std::byte>(kFailureBytes));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    failure_receives_.push_back(start_receive(failure_texts_[failure_receives_.size()], peer, Channel::failure));
  }
}

void Communicator::announce_failure(std::string_view text) {
  if (!own_failure_.empty()) return;
  own_failure_.resize(kFailureBytes);
  std::memcpy(own_failure_.data(), text.data(), std::min(text.size(), kFailureBytes - 1));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) failure_sends_.push_back(start_send(own_failure_, peer, Channel::failure));
  }
}

void Communicator::leave() {
  on_wait_ = nullptr;
  if (own_failure_.empty()) {
    own_failure_.resize(kFailureBytes);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer != rank_) failure_sends_.push_back(start_send(own_failure_, peer, Channel::failure));
    }
  }
  // While wait() waits for a goodbye, look_for_failures() must not find it first: it would end the transfer.
  std::vector<TransferPtr> goodbyes;
  {
    const std::scoped_lock lock(failures_lock_);
    goodbyes = std::exchange(failure_receives_, {});
  }
  for (const TransferPtr& each : goodbyes) {
    if (each != nullptr) wait(*each);
  }
  for (const TransferPtr& each : failure_sends_) {
    if (std::find(given_up_.begin(), given_up_.end(), each->peer_) == given_up_.end()) wait(*each);
  }
}

void Communicator::barrier() {
  // Dissemination: after round k a rank knows that 2^(k+1) ranks have arrived.
  for (int distance = 1; distance < size_; distance *= 2) {
    std::byte out{1}, in{};
    const TransferPtr sent = start_send({&out, 1}, (rank_ + distance) % size_, Channel::control);
    receive({&in, 1}, (rank_ - distance + size_) % size_, Channel::control);
    wait(*sent);
  }
}

void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  // A binomial tree over ranks counted from the root.
  const int mine = (rank_ - root + size_) % size_;
  int bit = 1;
  for (; bit < size_; bit *= 2) {
    if ((mine & bit) != 0) {
      receive(bytes, (mine - bit + root) % size_, Channel::control);
      break;
    }
  }
  std::vector<TransferPtr> sends;
  for (bit /= 2; bit >= 1; bit /= 2) {
    if (mine + bit < size_) sends.push_back(start_send(bytes, (mine + bit + root) % size_, Channel::control));
  }
  for (const TransferPtr& each : sends) wait(*each);
}

std::string Communicator::broadcast_text(const std::string& text, int root) {
  int64_t length = static_cast<int64_t>(text.size());
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  std::string all = rank_ == root ? text : std::string(static_cast<size_t>(length), '\0');
  broadcast(std::as_writable_bytes(std::span(all.data(), all.size())), root);
  return all;
}

std::vector<std::string> Communicator::gather_text(const std::string& text, int root) {
  if (rank_ != root) {
    const auto length = static_cast<int64_t>(text.size());
    send(std::as_bytes(std::span(&length, 1)), root, Channel::control);
    send(bytes_of_text(text), root, Channel::control);
    return {};
  }
  std::vector<std::string> all(static_cast<size_t>(size_));
  for (int peer = 0; peer < size_; ++peer) {
    std::string& place = all[static_cast<size_t>(peer)];
    if (peer == root) {
      place = text;
      continue;
    }
    int64_t length = 0;
    receive(std::as_writable_bytes(std::span(&length, 1)), peer, Channel::control);
    place.resize(static_cast<size_t>(length));
    receive(std::as_writable_bytes(std::span(place.data(), place.size())), peer, Channel::control);
  }
  return all;
}

void Communicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  const size_t part = mine.size();
  require(all.size() == part * static_cast<size_t>(size_), "distributed", "room for ", size_, " times ", part,
          " bytes; found ", all.size());
  // Bruck's algorithm: log2(P) rounds, in each of which a rank hands on all it knows. Parts are kept in the order of
  // ranks beginning with this one, and put in their places at the end.
  std::vector<std::byte> known(all.size());
  std::copy(mine.begin(), mine.end(), known.begin());
  for (int count = 1; count < size_; count *= 2) {
    const size_t bytes = part * static_cast<size_t>(std::min(count, size_ - count));
    const TransferPtr sent =
        start_send(std::span(known).first(bytes), (rank_ - count % size_ + size_) % size_, Channel::control);
    receive(std::span(known).subspan(part * static_cast<size_t>(count), bytes), (rank_ + count) % size_,
            Channel::control);
    wait(*sent);
  }
  for (int i = 0; i < size_; ++i) {
    const auto from = known.begin() + static_cast<std::ptrdiff_t>(part) * i;
    const auto to = static_cast<std::ptrdiff_t>(part) * ((rank_ + i) % size_);
    std::copy(from, from + static_cast<std::ptrdiff_t>(part), all.begin() + to);
  }
}

}  // namespace heed::distributed
