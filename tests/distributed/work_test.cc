// Work that ranks share, with threads as ranks: every result once and in order, whoever is slow, fails or is lost.
#include "distributed/work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/message.h"
#include "distributed/mail.h"
#include "distributed/packed.h"

namespace heed::distributed {
namespace {

using std::chrono::milliseconds;

void work_for(int time) { std::this_thread::sleep_for(milliseconds(time)); }

// Pieces 0 to count - 1, whose results are "0!", "1!" and so on.
struct Numbers {
  explicit Numbers(int64_t pieces) : count(pieces) {
    work.next = [this](bool) -> std::optional<std::string> {
      if (taken == count) return std::nullopt;
      most_open = std::max(most_open, taken - static_cast<int64_t>(results.size()) + 1);
      return std::to_string(taken++);
    };
    work.ended = [this] { return taken == count; };
    work.deliver = [this](const std::string& result) { results.push_back(result); };
    work.on_loss = [this](const std::string& what) { losses.push_back(what); };
    work.compute = [](const std::string& piece, const std::function<bool()>& goes_on) {
      EXPECT_TRUE(goes_on());
      return piece + "!";
    };
    work.stop = [] { return false; };
  }
  void expect_all() const {
    ASSERT_EQ(static_cast<int64_t>(results.size()), count);
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(results[static_cast<size_t>(i)], std::to_string(i) + "!");
  }

  int64_t count;
  Work work;  // next, ended, deliver and on_loss are rank 0's
  int64_t taken = 0, most_open = 0;
  std::vector<std::string> results, losses;
};

class RankCounts : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sharing, RankCounts, ::testing::Values(1, 2, 3, 4, 7));

TEST_P(RankCounts, EveryResultComesOnceAndInOrder) {
  for (const int64_t count : {0, 1, 2, 3, 100}) {
    Numbers numbers(count);
    std::atomic<int> worked{0};
    numbers.work.compute = [&](const std::string& piece, const std::function<bool()>& goes_on) {
      EXPECT_TRUE(goes_on());
      ++worked;
      // Uneven: some pieces take much longer, so that results come out of order.
      if (std::stoi(piece) % 7 == 1) work_for(5);
      return piece + "!";
    };
    run_in_process(GetParam(), [&](Communicator& ranks) { EXPECT_TRUE(share(ranks, numbers.work)); });
    numbers.expect_all();
    EXPECT_EQ(worked, count);
    EXPECT_EQ(numbers.losses.size(), 0u);
  }
}

TEST_P(RankCounts, LargePiecesAndEmptyOnes) {
  std::vector<std::string> results;
  int64_t taken = 0;
  Work work;
  work.next = [&](bool) -> std::optional<std::string> {
    if (taken == 12) return std::nullopt;
    const auto size = taken++ % 3 == 0 ? size_t{0} : size_t{300000};
    return std::string(size, static_cast<char>('a' + taken));
  };
  work.ended = [&] { return taken == 12; };
  work.deliver = [&](const std::string& result) { results.push_back(result); };
  work.on_loss = [](const std::string& what) { ADD_FAILURE() << what; };
  work.compute = [](const std::string& piece, const std::function<bool()>&) { return piece; };
  work.stop = [] { return false; };
  run_in_process(GetParam(), [&](Communicator& ranks) { EXPECT_TRUE(share(ranks, work)); });
  ASSERT_EQ(results.size(), 12u);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_TRUE(results[i] == std::string(i % 3 == 0 ? 0 : 300000, static_cast<char>('b' + i))) << i;
}

TEST(Sharing, ASlowRankHoldsTheOthersBackBeforeResultsPileUp) {
  Numbers numbers(400);
  std::atomic<bool> slow{true};
  std::atomic<int> by_rank[3] = {};
  run_in_process(3, [&](Communicator& ranks) {
    Work work = numbers.work;
    work.compute = [&](const std::string& piece, const std::function<bool()>& goes_on) {
      ++by_rank[ranks.rank()];
      if (ranks.rank() == 0) work_for(1);
      if (ranks.rank() == 2 && slow.exchange(false)) {
        for (int i = 0; i < 40; ++i) {
          EXPECT_TRUE(goes_on());
          work_for(5);
        }
      }
      return piece + "!";
    };
    EXPECT_TRUE(share(ranks, work));
  });
  numbers.expect_all();
  EXPECT_LE(numbers.most_open, 8 * 3);
  EXPECT_GT(by_rank[1], 5) << "those that are free work on";
}

TEST(Sharing, ARankThatThrowsWorksNoMoreAndOthersDoItsPieces) {
  Numbers numbers(60);
  run_in_process(3, [&](Communicator& ranks) {
    Work work = numbers.work;
    int done = 0;
    work.compute = [&](const std::string& piece, const std::function<bool()>&) {
      if (ranks.rank() == 1 && ++done == 3) throw std::bad_alloc();
      if (ranks.rank() == 0) work_for(1);
      return piece + "!";
    };
    EXPECT_TRUE(share(ranks, work));
  });
  numbers.expect_all();
  ASSERT_EQ(numbers.losses.size(), 1u);
  EXPECT_CONTAINS(numbers.losses[0], "rank 1 (thread) to go on; it gave up: std::bad_alloc");
}

TEST(Sharing, ARankThatIsLostCostsItsPiecesOnly) {
  for (const bool alone : {true, false}) {
    Numbers numbers(60);
    const std::string text = heed::testing::message_of([&] {
      run_in_process(alone ? 2 : 4, [&](Communicator& ranks) {
        if (ranks.rank() == 1) {  // gets its first pieces, and dies
          work_for(20);
          throw Error("power failed");
        }
        Work work = numbers.work;
        work.compute = [](const std::string& piece, const std::function<bool()>& goes_on) {
          EXPECT_TRUE(goes_on());
          work_for(2);
          return piece + "!";
        };
        EXPECT_TRUE(share(ranks, work));
      });
    });
    EXPECT_EQ(text, "power failed");
    numbers.expect_all();
    ASSERT_EQ(numbers.losses.size(), 1u);
    EXPECT_CONTAINS(numbers.losses[0], "rank 1 (thread) to go on; it ended: power failed");
  }
}

TEST(Sharing, ALateRanksPiecesAreDoneByOthersAndItsAnswerIsWelcome) {
  Numbers numbers(40);
  numbers.work.patience = 0.1;
  run_in_process(2, [&](Communicator& ranks) {
    Work work = numbers.work;
    bool first = true;
    work.compute = [&](const std::string& piece, const std::function<bool()>& goes_on) {
      if (ranks.rank() == 1 && first) {
        first = false;
        for (int i = 0; i < 400 && goes_on(); ++i) work_for(5);
      }
      return piece + "!";
    };
    EXPECT_TRUE(share(ranks, work));
  });
  numbers.expect_all();
  ASSERT_EQ(numbers.losses.size(), 1u);
  EXPECT_CONTAINS(numbers.losses[0], "rank 1 (thread) to be done with its work by now; it is late");
}

TEST(Sharing, AStopOfAnyRankEndsAllSoon) {
  for (const int stopper : {0, 1, 2}) {
    Numbers numbers(1000000);
    std::atomic<bool> stop{false};
    const auto start = std::chrono::steady_clock::now();
    run_in_process(3, [&](Communicator& ranks) {
      Work work = numbers.work;
      work.compute = [&](const std::string& piece, const std::function<bool()>& goes_on) {
        if (piece == "50") stop = true;
        for (int i = 0; i < 5000 && goes_on() && (i == 0 || piece == "51"); ++i) work_for(1);
        return piece + "!";
      };
      work.stop = [&] { return ranks.rank() == stopper && stop; };
      const bool complete = share(ranks, work);
      EXPECT_TRUE(ranks.rank() != 0 || !complete);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
    for (size_t i = 0; i < numbers.results.size(); ++i) ASSERT_EQ(numbers.results[i], std::to_string(i) + "!");
    EXPECT_LT(numbers.results.size(), 100u);
  }
}

TEST(Sharing, WhatDeliverThrowsEndsAll) {
  for (const int size : {1, 2, 4}) {
    Numbers numbers(1000);
    std::atomic<int> returned{0};
    numbers.work.deliver = [&](const std::string& result) {
      numbers.results.push_back(result);
      if (numbers.results.size() == 20) throw Error("no room");
    };
    // Another rank may hear of the end while it computes.
    numbers.work.compute = [](const std::string& piece, const std::function<bool()>&) { return piece + "!"; };
    EXPECT_EQ(heed::testing::message_of([&] {
                run_in_process(size, [&](Communicator& ranks) {
                  (void)share(ranks, numbers.work);
                  ++returned;
                });
              }),
              "no room");
    EXPECT_EQ(numbers.results.size(), 20u);
    EXPECT_EQ(returned, size - 1) << "the others end in peace";
  }
}

TEST(Sharing, WhenRankZeroIsLostTheOthersSaySo) {
  Numbers numbers(1000);
  std::atomic<int> told{0};
  EXPECT_EQ(heed::testing::message_of([&] {
              run_in_process(3, [&](Communicator& ranks) {
                if (ranks.rank() == 0) throw Error("power failed");
                try {
                  (void)share(ranks, numbers.work);
                } catch (const PeerError& error) {
                  EXPECT_EQ(error.rank(), 0);
                  ++told;
                  throw;
                }
              });
            }),
            "power failed");
  EXPECT_EQ(told, 2);
}

constexpr int64_t kPiece = 1, kResult = 3;  // kinds of letters (work.cc)

TEST(Sharing, ARankThatThrowsWhenRankZeroIsLostSaysThatItIsLost) {
  Numbers numbers(1);
  std::atomic<bool> begun{false}, told{false};
  EXPECT_EQ(heed::testing::message_of([&] {
              run_in_process(2, [&](Communicator& ranks) {
                if (ranks.rank() == 0) {
                  Mail mail(ranks, 1, Channel::work);
                  mail.send({.kind = kPiece, .text = std::make_shared<const std::string>("0")});
                  while (!begun) work_for(1);
                  throw Error("power failed");
                }
                Work work = numbers.work;
                work.compute = [&](const std::string&, const std::function<bool()>& goes_on) -> std::string {
                  begun = true;
                  while (goes_on()) work_for(1);
                  throw std::runtime_error("half of a result");
                };
                try {
                  (void)share(ranks, work);
                } catch (const PeerError& error) {
                  told = error.rank() == 0;
                  throw;
                }
              });
            }),
            "power failed");
  EXPECT_TRUE(told);
}

TEST(Sharing, AFailureIsNotHiddenByAnotherAtTheEnd) {
  Numbers numbers(1000);
  std::atomic<bool> delivering{false}, sent{false};
  EXPECT_EQ(heed::testing::message_of([&] {
              run_in_process(2, [&](Communicator& ranks) {
                if (ranks.rank() == 0) {
                  Work work = numbers.work;
                  work.compute = [](const std::string& piece, const std::function<bool()>&) { return piece + "!"; };
                  work.deliver = [&](const std::string&) {
                    delivering = true;
                    while (!sent) work_for(1);
                    throw Error("no room");
                  };
                  (void)share(ranks, work);
                  return;
                }
                Mail mail(ranks, 0, Channel::work);
                std::optional<Letter> piece;
                while (!(piece = mail.receive())) work_for(1);
                mail.send({.kind = kResult, .number = piece->number, .text = piece->text});
                while (!delivering) work_for(1);
                ranks.send({}, 0, Channel::work);  // no letter: whoever reads it fails
                sent = true;
              });
            }),
            "no room");
}

TEST(Packed, ComesOutAsItWentIn) {
  const std::string bytes =
      Packer().add(int64_t{-7}).add(std::string_view("a\n")).add(std::string_view()).add(int64_t{1} << 40).take();
  Unpacker unpacker(bytes);
  EXPECT_EQ(unpacker.number(), -7);
  EXPECT_EQ(unpacker.text(), "a\n");
  EXPECT_EQ(unpacker.text(), "");
  EXPECT_EQ(unpacker.number(), int64_t{1} << 40);
  EXPECT_CONTAINS(heed::testing::message_of([&] { (void)unpacker.text(); }), "8 bytes more; found 0");
  Unpacker damaged(std::string_view(bytes).substr(8, 9));
  EXPECT_CONTAINS(heed::testing::message_of([&] { (void)damaged.text(); }), "2 bytes more; found 1");
}

}  // namespace
}  // namespace heed::distributed
