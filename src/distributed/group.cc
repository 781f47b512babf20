// Some of the ranks, numbered anew.
#include <algorithm>
#include <optional>

#include "heed/distributed.h"

namespace heed::distributed {

class Group : public Communicator {
 public:
  Group(Communicator& all, const std::vector<int>& members, int rank)
      : Communicator(rank, static_cast<int>(members.size())), all_(all), members_(members) {
    for (size_t i = 0; i < members_.size(); ++i) places_[i] = all_.places_[static_cast<size_t>(members_[i])];
    set_timeout(all_.timeout());
    if (all_.on_wait_) {
      on_wait([this](int peer, double seconds) { all_.on_wait_(members_[static_cast<size_t>(peer)], seconds); });
    }
  }
  ~Group() override {
    for (auto& memory : kept_) all_.keep(std::move(memory));
  }
  std::string engine() const override { return all_.engine(); }
  void abort(int status) override { all_.abort(status); }

 protected:
  TransferPtr begin_send(std::span<const std::byte> bytes, int to, int channel) override {
    return all_.start_send(bytes, members_[static_cast<size_t>(to)], Channel(channel));
  }
  TransferPtr begin_receive(std::span<std::byte> bytes, int from, int channel) override {
    return all_.start_receive(bytes, members_[static_cast<size_t>(from)], Channel(channel));
  }
  void keep_going(bool on) override {
    if (on) {
      progress_.emplace(all_);
    } else {
      progress_.reset();
    }
  }

 private:
  // A failure of any rank ends the work of all.
  std::optional<PeerError> next_failure() override { return all_.next_failure(); }
  void count_waiting(double seconds) override {
    Communicator::count_waiting(seconds);
    all_.count_waiting(seconds);
  }

  Communicator& all_;
  std::vector<int> members_;
  std::optional<ProgressScope> progress_;  // of `all_`, where this group has one
};

std::unique_ptr<Communicator> group(Communicator& all, const std::vector<int>& members) {
  const auto own = std::find(members.begin(), members.end(), all.rank());
  const bool within = std::all_of(members.begin(), members.end(), [&](int r) { return r >= 0 && r < all.size(); });
  require(own != members.end() && within, "distributed", "a group of ranks below ", all.size(), " that has rank ",
          all.rank(), "; found another");
  return std::make_unique<Group>(all, members, static_cast<int>(own - members.begin()));
}

}  // namespace heed::distributed
