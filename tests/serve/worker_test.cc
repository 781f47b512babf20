// The thread that computes, without sockets.
#include "serve/worker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "serve/stand_in.h"

namespace heed::serve::test {
namespace {

const auto kHere = [] { return false; };  // the client has not gone

struct Working {
  explicit Working(const Limits& limits = {}) : worker([this] { return std::make_unique<StandIn>(seen); }, limits) {}
  int status_of(const std::string& name, const nlohmann::json& request) {
    try {
      (void)worker.call(name, request, kHere);
    } catch (const Refused& refused) {
      return refused.status();
    }
    return 200;
  }
  Seen seen;
  Worker worker;
};

int events_of(Worker::Run& run) {
  int count = 0;
  while (run.next(kHere)) ++count;
  return count;
}

TEST(Worker, ThrowsWhatOpeningThrows) {
  EXPECT_THROW(Worker([]() -> std::unique_ptr<Service> { throw Error("no such model"); }), Error);
}

TEST(Worker, StreamsTakeTurns) {
  Working w;
  const auto a = w.worker.open("run", {{"name", "a"}, {"count", 30}, {"ms", 2}}, kHere);
  const auto b = w.worker.open("run", {{"name", "b"}, {"count", 30}, {"ms", 2}}, kHere);
  std::thread reader([&] { EXPECT_EQ(events_of(*b), 31); });
  EXPECT_EQ(events_of(*a), 31);
  reader.join();
  size_t longest = 0;  // turns that one of them took while the other waited
  for (size_t i = w.seen.order.find('b'), run = 0; i + 2 < w.seen.order.size(); ++i) {
    run = w.seen.order[i] == w.seen.order[i - 1] ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  EXPECT_LE(longest, 2U) << w.seen.order;
  EXPECT_EQ(w.seen.threads_that_compute, 0);
}

TEST(Worker, ACallIsNotKeptWaitingByStreams) {
  Working w;
  const auto stream = w.worker.open("run", {{"count", 1000000}, {"ms", 1}}, kHere);
  std::atomic<bool> ended{false};
  std::thread reader([&] {
    while (!ended) (void)stream->next(kHere);
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(w.status_of("echo", {{"i", i}}), 200);
  EXPECT_LT(w.seen.steps, 5000);
  ended = true;
  reader.join();
}

TEST(Worker, RefusesMoreThanItsLimits) {
  Working w({.waiting = 2});
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i)  // in the end one is computed and two wait
    waiting.emplace_back([&] {
      while (w.status_of("wait", {{"until_released", true}, {"ms", 0}}) != 200) sleep_ms(1);
    });
  for (bool full = false; !full;) {
    try {
      int looked = 0;
      (void)w.worker.call("echo", {}, [&] { return ++looked > 2; });
    } catch (const Refused& refused) {
      EXPECT_EQ(refused.status(), 503);
      full = true;
    } catch (const ClientGone&) {
      sleep_ms(10);  // a place for one of those that wait
    }
  }
  w.seen.released = true;
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(w.status_of("echo", {}), 200);
}

TEST(Worker, TellsWhatTakesTooLongToStop) {
  Working w({.wait_seconds = 0.2, .compute_seconds = 0.1, .stream_seconds = 0.1});
  EXPECT_EQ(w.status_of("wait", nlohmann::json::object()), 408);
  EXPECT_EQ(w.status_of("echo", {}), 200) << "it stopped";
  w.seen.computing = false;
  std::thread deaf([&] { EXPECT_EQ(w.status_of("wait", {{"ms", 600}, {"deaf", true}}), 408); });
  while (!w.seen.computing) sleep_ms(1);
  EXPECT_EQ(w.status_of("echo", {}), 408) << "it waited too long";
  deaf.join();
  while (w.status_of("echo", {}) != 200) {  // it still computes, though nobody waits for it
  }
  const auto stream = w.worker.open("run", {{"count", 1000000}, {"ms", 1}}, kHere);
  EXPECT_THROW(events_of(*stream), Refused);
}

TEST(Worker, ForgetsWhoHasGone) {
  Working w;
  const auto gone = [] { return true; };
  std::thread first([&] { EXPECT_EQ(w.status_of("wait", {{"ms", 200}}), 200); });
  while (!w.seen.computing) sleep_ms(1);
  EXPECT_THROW((void)w.worker.call("echo", {}, gone), ClientGone);
  EXPECT_THROW((void)w.worker.open("run", {}, gone), ClientGone);
  first.join();
  EXPECT_EQ(w.status_of("echo", {}), 200);
  EXPECT_EQ(w.seen.calls, 2);
  EXPECT_EQ(w.seen.steps, 0);
  EXPECT_THROW((void)w.worker.call("wait", nlohmann::json::object(), gone), ClientGone);
  EXPECT_EQ(w.status_of("echo", {}), 200) << "the call was told to stop";
}

TEST(Worker, OpensSoManyStreamsAndNoMore) {
  Working w({.streams = 2, .unread = 0});
  const nlohmann::json request = {{"count", 200}};  // more than a stream computes ahead of its reader
  const auto a = w.worker.open("run", request, kHere), b = w.worker.open("run", request, kHere);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { EXPECT_EQ(events_of(*w.worker.open("run", request, kHere)), 201); });
  for (Worker::Run* const run : {a.get(), b.get()}) threads.emplace_back([run] { EXPECT_EQ(events_of(*run), 201); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(w.seen.most_streams, 2);
  EXPECT_EQ(w.seen.streams, 0);
}

TEST(Worker, AStreamThatIsNotReadKeepsNoPlace) {
  Working w({.streams = 2, .unread = 3});
  const nlohmann::json request = {{"count", 200}};  // more than a stream computes ahead of its reader
  std::vector<std::unique_ptr<Worker::Run>> unread;
  for (int i = 0; i < 4; ++i) unread.push_back(w.worker.open("run", request, kHere));
  EXPECT_EQ(events_of(*w.worker.open("run", request, kHere)), 201) << "beside four that nobody reads";
  unread.push_back(w.worker.open("run", request, kHere));
  EXPECT_EQ(w.seen.streams, 5);
  std::atomic<bool> opened{false};
  std::thread sixth([&] {
    const auto run = w.worker.open("run", request, kHere);
    opened = true;
    EXPECT_EQ(events_of(*run), 201);
  });
  while (w.status_of("echo", {}) != 200) sleep_ms(1);
  EXPECT_FALSE(opened) << "as many as there may be have begun";
  for (const auto& run : unread) EXPECT_EQ(events_of(*run), 201);
  sixth.join();
  EXPECT_EQ(w.seen.most_streams, 5);
}

TEST(Worker, StopsWithoutWaitingForWhatDoesNotListen) {
  Working w;
  std::thread deaf([&] { EXPECT_EQ(w.status_of("wait", {{"ms", 500}, {"deaf", true}}), 503); });
  while (!w.seen.computing) sleep_ms(1);
  EXPECT_FALSE(w.worker.stop(0.05));
  deaf.join();
  EXPECT_EQ(w.status_of("echo", {}), 503);
  EXPECT_TRUE(w.worker.stop(5));
}

}  // namespace
}  // namespace heed::serve::test
