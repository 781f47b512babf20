// Ranks as threads: messages, the functions for all ranks, and what happens when a rank fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "base/message.h"
#include "distributed/agreement.h"
#include "heed/distributed.h"

namespace heed::distributed {
namespace {

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}
template <class T>
std::span<std::byte> writable(std::vector<T>& numbers) {
  return std::as_writable_bytes(std::span(numbers));
}

class Ranks : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, Ranks, ::testing::Values(1, 2, 3, 4, 5, 7, 8, 13));

TEST_P(Ranks, AllGatherHasEveryPartInItsPlace) {
  const int size = GetParam();
  run_in_process(size, [&](Communicator& ranks) {
    std::vector<int> mine = {ranks.rank() * 10, ranks.rank() * 10 + 1, -ranks.rank()};
    std::vector<int> all(3 * static_cast<size_t>(size));
    ranks.all_gather(bytes(mine), writable(all));
    for (int r = 0; r < size; ++r) {
      const auto at = static_cast<size_t>(3 * r);
      ASSERT_EQ(all[at], r * 10);
      ASSERT_EQ(all[at + 1], r * 10 + 1);
      ASSERT_EQ(all[at + 2], -r);
    }
  });
}

TEST_P(Ranks, BroadcastFromEveryRoot) {
  const int size = GetParam();
  run_in_process(size, [&](Communicator& ranks) {
    for (int root = 0; root < size; ++root) {
      std::vector<double> numbers(5, ranks.rank() == root ? root + 0.5 : 0.0);
      ranks.broadcast(writable(numbers), root);
      for (const double number : numbers) ASSERT_EQ(number, root + 0.5);
      const std::string text = ranks.rank() == root ? std::string(static_cast<size_t>(root) * 3, 'x') : "mine";
      ASSERT_EQ(ranks.broadcast_text(text, root), std::string(static_cast<size_t>(root) * 3, 'x'));
    }
  });
}

TEST_P(Ranks, GatherTextToEveryRoot) {
  const int size = GetParam();
  run_in_process(size, [&](Communicator& ranks) {
    for (int root = 0; root < size; ++root) {
      const auto all = ranks.gather_text(std::string(static_cast<size_t>(ranks.rank()), 'a'), root);
      if (ranks.rank() != root) {
        ASSERT_TRUE(all.empty());
        continue;
      }
      ASSERT_EQ(all.size(), static_cast<size_t>(size));
      for (size_t r = 0; r < all.size(); ++r) ASSERT_EQ(all[r].size(), r);
    }
  });
}

TEST_P(Ranks, NobodyLeavesABarrierBeforeAllHaveArrived) {
  const int size = GetParam();
  std::atomic<int> arrived{0};
  run_in_process(size, [&](Communicator& ranks) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      ranks.barrier();
      ASSERT_GE(arrived.load(), round * size);
      ranks.barrier();
    }
  });
}

TEST(Messages, KeepTheirOrderAndTheirChannels) {
  run_in_process(2, [](Communicator& ranks) {
    if (ranks.rank() == 0) {
      for (const int number : {1, 2, 3}) ranks.send(bytes(std::vector<int>{number}), 1, Channel::gradients);
      ranks.send(bytes(std::vector<int>{9}), 1, Channel::weights);
      return;
    }
    std::vector<int> weights(1), first(1), second(1), third(1);
    ranks.receive(writable(weights), 0, Channel::weights);
    const auto a = ranks.start_receive(writable(first), 0, Channel::gradients);
    const auto b = ranks.start_receive(writable(second), 0, Channel::gradients);
    const auto c = ranks.start_receive(writable(third), 0, Channel::gradients);
    ranks.wait(*c);  // in the order they were begun, whichever is asked first
    ranks.wait(*b);
    ranks.wait(*a);
    EXPECT_EQ(weights[0], 9);
    EXPECT_EQ((std::vector<int>{first[0], second[0], third[0]}), (std::vector<int>{1, 2, 3}));
  });
}

TEST(Messages, AreCounted) {
  run_in_process(2, [](Communicator& ranks) {
    const int64_t before = ranks.bytes_sent();
    std::vector<float> numbers(1000);
    if (ranks.rank() == 0) {
      ranks.send(bytes(numbers), 1, Channel::weights);
    } else {
      ranks.receive(writable(numbers), 0, Channel::weights);
    }
    EXPECT_EQ(ranks.bytes_sent() - before, ranks.rank() == 0 ? 4000 : 0);
  });
}

TEST(Messages, OfAnotherLengthAreErrors) {
  const std::string text = heed::testing::message_of([] {
    run_in_process(2, [](Communicator& ranks) {
      std::vector<int> numbers(ranks.rank() == 0 ? 3 : 4);
      if (ranks.rank() == 0) {
        ranks.send(bytes(numbers), 1, Channel::weights);
      } else {
        ranks.receive(writable(numbers), 0, Channel::weights);
      }
    });
  });
  EXPECT_EQ(text, "[distributed] a message of 16 bytes; found 12");
}

TEST(Messages, GoToAnotherRank) {
  const auto alone = single();
  EXPECT_EQ(heed::testing::message_of([&] { alone->send({}, 0, Channel::work); }),
            "[distributed] another rank, 0 to 0, to send to; found 0");
  EXPECT_EQ(heed::testing::message_of([&] { (void)alone->start_receive({}, 1, Channel::work); }),
            "[distributed] another rank, 0 to 0, to receive from; found 1");
}

TEST(Groups, AreRanksOfTheirOwn) {
  run_in_process(6, [](Communicator& ranks) {
    // 4 and 1; 5, 3 and 0; 2 alone.
    const std::vector<std::vector<int>> groups = {{4, 1}, {5, 3, 0}, {2}};
    const auto mine = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& members) {
      return std::find(members.begin(), members.end(), ranks.rank()) != members.end();
    });
    const int64_t sent = ranks.bytes_sent();
    const auto few = group(ranks, *mine);
    ASSERT_EQ(few->size(), static_cast<int>(mine->size()));
    ASSERT_EQ((*mine)[static_cast<size_t>(few->rank())], ranks.rank());
    for (int rank = 0; rank < few->size(); ++rank) {
      ASSERT_EQ(few->name_of(rank), ranks.name_of((*mine)[static_cast<size_t>(rank)]));
    }
    std::vector<int> own = {ranks.rank()}, all(mine->size());
    few->all_gather(bytes(own), writable(all));
    ASSERT_EQ(all, *mine);
    few->barrier();
    std::vector<int> first = {few->rank() == 0 ? 70 + ranks.rank() : 0};
    few->broadcast(writable(first), 0);
    ASSERT_EQ(first[0], 70 + mine->front());
    ASSERT_EQ(few->bytes_sent(), ranks.bytes_sent() - sent);
  });
}

TEST(Groups, HaveTheRankThatMakesThem) {
  run_in_process(2, [](Communicator& ranks) {
    const auto message = [&](const std::vector<int>& members) {
      return heed::testing::message_of([&] { (void)group(ranks, members); });
    };
    const std::string own = std::to_string(ranks.rank());
    EXPECT_EQ(message({1 - ranks.rank()}),
              "[distributed] a group of ranks below 2 that has rank " + own + "; found another");
    EXPECT_EQ(message({ranks.rank(), 2}),
              "[distributed] a group of ranks below 2 that has rank " + own + "; found another");
  });
}

TEST(Groups, HearOfFailuresElsewhere) {
  std::atomic<int> told{0};
  const std::string text = heed::testing::message_of([&] {
    run_in_process(3, [&](Communicator& ranks) {
      if (ranks.rank() == 2) fail("test", "a rank that works; found one that fails");
      const auto both = group(ranks, {0, 1});
      std::vector<int> never(1);
      try {
        both->receive(writable(never), 1 - both->rank(), Channel::work);
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 2);
        ++told;
        throw;
      }
    });
  });
  EXPECT_EQ(text, "[test] a rank that works; found one that fails");
  EXPECT_EQ(told.load(), 2);
}

TEST(Failures, AreToldToAllWhoWait) {
  std::atomic<int> told{0};
  const std::string text = heed::testing::message_of([&] {
    run_in_process(4, [&](Communicator& ranks) {
      if (ranks.rank() == 2) throw Error("[train] a disk with room; found none");
      std::vector<int> never(1);
      try {
        ranks.receive(writable(never), 3 - ranks.rank(), Channel::weights);
      } catch (const PeerError& error) {
        EXPECT_TRUE(error.announced());
        EXPECT_EQ(error.rank(), 2);
        EXPECT_STREQ(error.what(),
                     "[distributed] rank 2 (thread) to go on; it ended: [train] a disk with room; found none");
        ++told;
        throw;
      }
    });
  });
  EXPECT_EQ(text, "[train] a disk with room; found none");
  EXPECT_EQ(told, 3);
}

TEST(Failures, ASilentPeerIsNamed) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = heed::testing::message_of([] {
    run_in_process(2, [](Communicator& ranks) {
      if (ranks.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        return;
      }
      ranks.set_timeout(0.2);
      std::vector<int> never(1);
      ranks.receive(writable(never), 1, Channel::weights);
    });
  });
  EXPECT_EQ(text, "[distributed] an answer from rank 1 (thread) within 0.2 s; found none");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

TEST(Agreement, NamesTheMinority) {
  const auto text = [](int ranks, std::vector<uint64_t> values) {
    return heed::testing::message_of([&] {
      distributed::run_in_process(ranks, [&](Communicator& each) {
        require_agreement(each, "recipe", values[static_cast<size_t>(each.rank())]);
      });
    });
  };
  EXPECT_EQ(text(3, {5, 5, 5}), "");
  EXPECT_EQ(text(3, {5, 5, 6}), "[distributed] the same recipe on all ranks; rank 2 (thread) has other than the rest");
  EXPECT_EQ(text(2, {5, 6}),
            "[distributed] the same recipe on all ranks; rank 1 (thread) has other than rank 0 (thread)");
  EXPECT_EQ(text(4, {1, 2, 3, 3}),
            "[distributed] the same recipe on all ranks; rank 0 (thread), rank 1 (thread) have other than the rest");
}

TEST(Failures, AnAbortEndsAll) {
  std::atomic<int> told{0};
  const std::string text = heed::testing::message_of([&] {
    run_in_process(3, [&](Communicator& ranks) {
      try {
        ranks.barrier();
        if (ranks.rank() != 1) ranks.barrier();
      } catch (const PeerError& error) {
        EXPECT_TRUE(error.announced());
        EXPECT_EQ(error.rank(), 1);
        ++told;
        throw;
      }
      ranks.abort(1);
    });
  });
  EXPECT_EQ(text, "[distributed] a rank that goes on; found one that was aborted") << "not what it made others say";
  EXPECT_EQ(told, 2);
}

TEST(Delay, HoldsEveryMessageBack) {
  const auto start = std::chrono::steady_clock::now();
  run_in_process(
      2, [](Communicator& ranks) { ranks.barrier(); }, 0.05);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

// Notes when it is told that messages are to go on, and when not.
class Noting : public Communicator {
 public:
  Noting() : Communicator(0, 1) {}
  std::string engine() const override { return "none"; }
  void abort(int /*status*/) override { fail("distributed", "a rank that goes on; found one that was aborted"); }
  std::vector<bool> notes;

 protected:
  TransferPtr begin_send(std::span<const std::byte>, int, int) override { return nullptr; }
  TransferPtr begin_receive(std::span<std::byte>, int, int) override { return nullptr; }
  void keep_going(bool on) override { notes.push_back(on); }
};

TEST(ProgressScopes, MayLieInsideOfEachOther) {
  Noting ranks;
  {
    const Communicator::ProgressScope outer(ranks);
    for (int n = 0; n < 2; ++n) {
      const Communicator::ProgressScope inner(ranks), innermost(ranks);
    }
    EXPECT_EQ(ranks.notes, (std::vector<bool>{true}));  // messages still go on
  }
  EXPECT_EQ(ranks.notes, (std::vector<bool>{true, false}));
  { const Communicator::ProgressScope again(ranks); }
  EXPECT_EQ(ranks.notes, (std::vector<bool>{true, false, true, false}));
}

TEST(ProgressScopes, OfAGroupLieInsideOfThoseOfAll) {
  Noting ranks;
  const auto alone = group(ranks, {0});
  {
    const Communicator::ProgressScope outer(ranks);
    { const Communicator::ProgressScope inner(*alone); }
    EXPECT_EQ(ranks.notes, (std::vector<bool>{true}));
  }
  EXPECT_EQ(ranks.notes, (std::vector<bool>{true, false}));
  { const Communicator::ProgressScope of_group(*alone); }
  EXPECT_EQ(ranks.notes, (std::vector<bool>{true, false, true, false}));
}

TEST(Launches, AreReadFromTheEnvironment) {
  const std::set<std::string> names = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                                       "SLURM_PROCID",         "SLURM_STEP_NUM_TASKS"};
  for (const std::string& name : names) unsetenv(name.c_str());
  EXPECT_EQ(launch().size, 1);
  EXPECT_EQ(launch().by, "");
  setenv("SLURM_PROCID", "3", 1);
  EXPECT_EQ(launch().size, 1);  // the shell of a batch job
  setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_EQ(launch().rank, 3);
  EXPECT_EQ(launch().size, 4);
  EXPECT_EQ(launch().by, "srun");
  setenv("OMPI_COMM_WORLD_RANK", "x", 1);
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_EQ(launch().by, "srun");
  setenv("OMPI_COMM_WORLD_RANK", "1", 1);
  EXPECT_EQ(launch().by, "mpirun");
  for (const std::string& name : names) unsetenv(name.c_str());
}

}  // namespace
}  // namespace heed::distributed
