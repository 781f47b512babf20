// Texts that threads share: their warnings and errors come as if one thread had read them.
#include "pipelines/read_texts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "heed/cpu.h"

namespace heed::pipelines {
namespace {

constexpr int64_t kBegin = 7, kEnd = 3007;

class ReadTexts : public ::testing::Test {
 protected:
  void SetUp() override { set_num_threads(4); }
  void TearDown() override { set_num_threads(threads_before_); }

  // Every hundredth text has two warnings.
  TextOptions options() {
    TextOptions result;
    result.on_warning = [this](const TextWarning& warning) {
      EXPECT_EQ(std::this_thread::get_id(), caller_);
      warned_.push_back(warning.text);
    };
    result.name = [this](int64_t text) {
      EXPECT_EQ(std::this_thread::get_id(), caller_);
      return "line " + std::to_string(text);
    };
    return result;
  }
  static int64_t read(int64_t text, const TextOptions& options) {
    if (text % 100 == 0 && options.on_warning) {
      options.on_warning({.text = text});
      options.on_warning({.text = text});
    }
    return 2 * text;
  }
  // What read() gives for the texts before `end`, and the warnings about them.
  void expect_all_before(int64_t end) {
    ASSERT_EQ(std::ssize(made_), end - kBegin);
    for (int64_t i = 0; i < std::ssize(made_); ++i) EXPECT_EQ(made_[static_cast<size_t>(i)], 2 * (kBegin + i));
    std::vector<int64_t> expected;
    for (int64_t text = 100; text < end; text += 100) expected.insert(expected.end(), 2, text);
    EXPECT_EQ(warned_, expected);
  }

  const int threads_before_ = num_threads();
  const std::thread::id caller_ = std::this_thread::get_id();
  std::vector<int64_t> warned_;
  std::vector<int64_t> made_;
};

TEST_F(ReadTexts, WarningsComeInOrderOnTheCallingThread) {
  int64_t looked = 0;
  read_texts(
      kBegin, kEnd, options(), read,
      [&](int64_t done) {
        EXPECT_EQ(done, 0);
        ++looked;
      },
      made_);
  expect_all_before(kEnd);
  EXPECT_EQ(looked, 3);
}

TEST_F(ReadTexts, NoWarningIsMadeThatNobodyWants) {
  read_texts(
      0, 50, {},
      [](int64_t text, const TextOptions& own) {
        EXPECT_FALSE(own.on_warning);
        return text;
      },
      {}, made_);
  EXPECT_EQ(made_.size(), 50u);
}

TEST_F(ReadTexts, TheFirstBadTextIsTheError) {
  for (const int64_t bad : {kBegin, int64_t{600}, int64_t{2001}, kEnd - 1}) {
    made_.clear();
    warned_.clear();
    std::string message;
    try {
      read_texts(
          kBegin, kEnd, options(),
          [&](int64_t text, const TextOptions& own) {
            if (text == bad || text == bad + 1 || text == bad + 300)
              throw std::runtime_error(own.name ? own.name(text) : "a name that nobody reads");
            return read(text, own);
          },
          {}, made_);
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "line " + std::to_string(bad));
    expect_all_before(bad);
  }
}

TEST_F(ReadTexts, WhatFailsOnceOnlyIsReadAgain) {  // memory that was short, for example
  std::mutex mutex;
  std::set<int64_t> failed;
  read_texts(
      kBegin, kEnd, options(),
      [&](int64_t text, const TextOptions& own) {
        const std::scoped_lock lock(mutex);
        if (text % 1100 == 3 && failed.insert(text).second) throw std::bad_alloc();
        return read(text, own);
      },
      {}, made_);
  expect_all_before(kEnd);
}

TEST_F(ReadTexts, ProgressMayEndTheWork) {
  const auto stop = [](int64_t) { throw std::runtime_error("interrupted"); };
  EXPECT_THROW(read_texts(kBegin, kEnd, options(), read, stop, made_), std::runtime_error);
  EXPECT_TRUE(made_.empty());
}

TEST_F(ReadTexts, SeveralThreadsRead) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  read_texts(
      0, 128, {},
      [&](int64_t text, const TextOptions&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::scoped_lock lock(mutex);
        seen.insert(std::this_thread::get_id());
        return text;
      },
      {}, made_);
  EXPECT_GT(seen.size(), 1u);
  std::vector<int64_t> expected(128);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(made_, expected);
}

}  // namespace
}  // namespace heed::pipelines
