// Attention across ranks: what becomes of messages when a call ends with an error, and when it does not.
#include <deque>

#include "attention/across_ranks_case.h"
#include "heed/memory.h"

namespace heed::distributed {
namespace {

using testing::in_one_process;
using testing::part_of;
using testing::plain_problem;
using testing::Problem;
using testing::same_layouts;

// Rank 0 of two. The other one says in the agreement what this one says; then it is silent.
class SilentPeer : public Communicator {
 public:
  SilentPeer() : Communicator(0, 2) { set_timeout(0.1); }
  std::string engine() const override { return "silence"; }
  void abort(int /*status*/) override { fail("distributed", "a rank that goes on; found one that was aborted"); }

  std::vector<std::span<const std::byte>> never_done;  // the memory of messages that never arrive
  int64_t sends = 0, receives = 0;                     // of them
  std::vector<bool> progress;                          // what it was told by ProgressScope

 protected:
  TransferPtr begin_send(std::span<const std::byte> bytes, int /*to*/, int channel) override {
    if (channel != static_cast<int>(Channel::control)) return never(bytes, sends);
    said_.emplace_back(bytes.begin(), bytes.end());
    return std::make_unique<Answer>();
  }
  TransferPtr begin_receive(std::span<std::byte> bytes, int /*from*/, int channel) override {
    if (channel != static_cast<int>(Channel::control)) return never(bytes, receives);
    EXPECT_EQ(said_.front().size(), bytes.size());
    std::copy(said_.front().begin(), said_.front().end(), bytes.begin());
    said_.pop_front();
    return std::make_unique<Answer>();
  }
  void keep_going(bool on) override { progress.push_back(on); }

 private:
  struct Answer : Transfer {
    bool poll() override { return true; }
  };
  struct Never : Transfer {
    bool poll() override { return false; }
  };
  TransferPtr never(std::span<const std::byte> bytes, int64_t& count) {
    never_done.push_back(bytes);
    ++count;
    return std::make_unique<Never>();
  }

  std::deque<std::vector<std::byte>> said_;
};

// Makes a call that fails in the middle, while messages are on their way. Their memory must not be given to others as
// long as the communicator is there: MPI may still read and write it.
void expect_kept(const std::function<void(Communicator&)>& call, bool computes) {
  const int64_t before = memory_stats().bytes_in_use;
  {
    SilentPeer ranks;
    EXPECT_THROW(call(ranks), PeerError);
    EXPECT_GT(ranks.sends, 0);
    EXPECT_GT(ranks.receives, 0);
    EXPECT_EQ(ranks.progress, (computes ? std::vector<bool>{true, false} : std::vector<bool>{}));
    int64_t bytes = 0;
    std::vector<Tensor> others;  // as many of the same sizes
    for (const auto& message : ranks.never_done) {
      bytes += static_cast<int64_t>(message.size());
      others.push_back(Tensor::zeros({static_cast<int64_t>(message.size())}, DType::u8));
      const std::span<const std::byte> other(static_cast<const std::byte*>(others.back().raw()), message.size());
      for (const auto& each : ranks.never_done) {
        EXPECT_TRUE(other.data() >= each.data() + each.size() || each.data() >= other.data() + other.size());
      }
    }
    others.clear();
    EXPECT_GE(memory_stats().bytes_in_use, before + bytes);
  }
  EXPECT_EQ(memory_stats().bytes_in_use, before);
}

TEST(AcrossRanksFailures, LeaveTheMemoryOfMessagesAlone) {
  constexpr int64_t kLength = 2 * 1536;
  const Problem p = plain_problem(1, 2, 1, kLength, kLength, 16);
  const AttentionLayouts layouts = same_layouts(SequenceLayout::contiguous(kLength, 2, 1536));
  const Problem part = part_of(p, layouts, 0);
  expect_kept([&](Communicator& ranks) { (void)attention(ranks, part.q, part.k, part.v, part.options, layouts); },
              true);

  const testing::Everything whole = in_one_process(p);
  const Tensor lse = whole.logsumexp.reshape({1, 2, kLength, 1});
  AttentionResult forward;
  forward.output = rows_of(whole.output, layouts.queries, 0);
  forward.logsumexp = rows_of(lse, layouts.queries, 0).reshape({1, 2, 1536});
  expect_kept(
      [&](Communicator& ranks) {
        (void)attention_backward(ranks, part.d_out, part.q, part.k, part.v, forward, part.options, layouts);
      },
      true);

  const SequenceLayout to = SequenceLayout::zig_zag(kLength, 2);
  expect_kept([&](Communicator& ranks) { (void)redistribute(ranks, part.q, layouts.queries, to); }, false);
}

TEST(AcrossRanksMessages, AreNotKeptWhereAllArrive) {
  const Problem p = plain_problem(1, 2, 1, 2000, 2000, 16);
  const AttentionLayouts layouts = same_layouts(SequenceLayout::zig_zag(2000, 2));  // with rows to align
  const std::vector<Problem> parts = {part_of(p, layouts, 0), part_of(p, layouts, 1)};
  run_in_process(2, [&](Communicator& ranks) {
    const Problem& part = parts[static_cast<size_t>(ranks.rank())];
    ranks.barrier();
    const int64_t before = memory_stats().bytes_in_use;
    ranks.barrier();
    for (int n = 0; n < 3; ++n) {
      const auto forward = attention(ranks, part.q, part.k, part.v, part.options, layouts);
      (void)attention_backward(ranks, part.d_out, part.q, part.k, part.v, forward, part.options, layouts);
    }
    ranks.barrier();
    EXPECT_EQ(memory_stats().bytes_in_use, before);
    ranks.barrier();
  });
}

}  // namespace
}  // namespace heed::distributed
