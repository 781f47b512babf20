// Heads get the names of what they do.
#include "serve/heads.h"

#include <gtest/gtest.h>

#include <functional>

namespace heed::serve {
namespace {

// Weights whose rows are `share` on the column of `place` and even elsewhere; a decoder's rows end at the diagonal.
Tensor pointing(int64_t rows, int64_t columns, bool causal, const std::function<int64_t(int64_t)>& place,
                double share) {
  const Tensor weights = Tensor::zeros({rows, columns});
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t seen = causal ? i + 1 : columns;
    for (int64_t j = 0; j < seen; ++j)
      weights.data<float>()[i * columns + j] = static_cast<float>((1 - share) / static_cast<double>(seen));
    const int64_t at = std::min(std::max<int64_t>(place(i), 0), seen - 1);
    weights.data<float>()[i * columns + at] += static_cast<float>(share);
  }
  return weights;
}

const Ids kDistinct = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13};

TEST(NameHead, FindsWhatAHeadDoes) {
  struct Case {
    const char* name;
    const char* part;
    std::function<int64_t(int64_t)> place;
  };
  const std::vector<Case> cases = {{"previous", "encoder", [](int64_t i) { return i - 1; }},
                                   {"previous", "decoder", [](int64_t i) { return i - 1; }},
                                   {"next", "encoder", [](int64_t i) { return i + 1; }},
                                   {"same", "decoder", [](int64_t i) { return i; }},
                                   {"same", "encoder", [](int64_t i) { return i; }},
                                   {"first", "decoder", [](int64_t) { return 0; }},
                                   {"first", "cross", [](int64_t) { return 0; }},
                                   {"end", "encoder", [](int64_t) { return 99; }},
                                   {"end", "cross", [](int64_t) { return 99; }},
                                   {"diagonal", "cross", [](int64_t i) { return i; }}};
  for (const Case& one : cases) {
    const bool causal = std::string_view(one.part) == "decoder";
    const HeadName clear = name_head(pointing(10, 10, causal, one.place, 0.8), one.part, kDistinct);
    EXPECT_EQ(clear.name, one.name) << one.part;
    EXPECT_GT(clear.measure, 0.7) << one.name;
    const HeadName weak = name_head(pointing(10, 10, causal, one.place, 0.35), one.part, kDistinct);
    EXPECT_EQ(weak.name, "") << one.part << " " << one.name;
  }
}

TEST(NameHead, CallsEvenWeightsBroadAndSpreadOnesNothing) {
  const auto none = [](int64_t) { return int64_t{0}; };
  EXPECT_EQ(name_head(pointing(10, 10, false, none, 0), "encoder", kDistinct).name, "broad");
  EXPECT_EQ(name_head(pointing(10, 10, true, none, 0), "decoder", kDistinct).name, "broad");
  // On three tokens all the time, none of them special.
  Tensor three = Tensor::zeros({10, 10});
  for (int64_t i = 0; i < 10; ++i)
    for (const int64_t j : {3, 5, 7}) three.data<float>()[i * 10 + j] = 1.0f / 3;
  EXPECT_EQ(name_head(three, "cross", kDistinct).name, "");
}

// A text that repeats itself: the head looks at what came after the earlier copy.
TEST(NameHead, FindsInduction) {
  const Ids twice = {4, 5, 6, 7, 8, 4, 5, 6, 7, 8};
  const auto after_copy = [](int64_t i) { return i >= 5 ? i - 4 : 0; };
  const HeadName name = name_head(pointing(10, 10, true, after_copy, 0.9), "decoder", twice);
  EXPECT_EQ(name.name, "induction");
  EXPECT_NE(name_head(pointing(10, 10, true, after_copy, 0.9), "decoder", kDistinct).name, "induction");
}

// Where nearly everything lies near the line from corner to corner, lying there says nothing.
TEST(NameHead, DoesNotCallShortTextsDiagonal) {
  EXPECT_EQ(name_head(pointing(
                          4, 4, false, [](int64_t) { return 1; }, 0.6),
                      "cross", {4, 5, 6, 7})
                .name,
            "");
}

TEST(NameHead, SaysNothingOfTinyMapsAndRowsOfZeros) {
  EXPECT_EQ(name_head(Tensor::full({1, 5}, 0.2f), "cross", {4}).name, "");
  EXPECT_EQ(name_head(Tensor::zeros({5, 5}), "cross", {4, 5, 6, 7, 8}).name, "");
}

}  // namespace
}  // namespace heed::serve
