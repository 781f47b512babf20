// Selection against a full sort.
#include "kernels/rows/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "kernels/settings.h"

namespace heed::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Select, IsTheBeginningOfAFullSort) {
  testing::on_every_isa([] {
    std::mt19937 random(4);
    for (const int64_t size : {1, 5, 8, 17, 63, 64, 65, 1000}) {
      for (const int64_t count : {1, 2, 10, 1000}) {
        std::vector<float> x(static_cast<size_t>(size));
        for (float& v : x) v = static_cast<float>(random() % 50);  // many ties
        x[random() % x.size()] = -kInfinity;
        x[random() % x.size()] = kNaN;
        std::vector<uint8_t> blocked(x.size(), 0);
        for (const bool all : {true, false}) {
          if (!all)
            for (uint8_t& b : blocked) b = random() % 4 == 0;
          std::vector<Selected> expected;
          for (size_t i = 0; i < x.size(); ++i)
            if (blocked[i] == 0 && x[i] > -kInfinity) expected.push_back({x[i], static_cast<int32_t>(i)});
          std::stable_sort(expected.begin(), expected.end(),
                           [](const Selected& a, const Selected& b) { return a.value > b.value; });
          std::vector<Selected> found(static_cast<size_t>(count));
          const int64_t number = select_largest(x.data(), size, all ? nullptr : blocked.data(), count, found.data());
          ASSERT_EQ(number, std::min(count, std::ssize(expected)));
          for (size_t k = 0; k < static_cast<size_t>(number); ++k) {
            ASSERT_EQ(found[k].place, expected[k].place) << size << " " << count << " " << k;
            ASSERT_EQ(found[k].value, expected[k].value);
          }
        }
      }
    }
  });
}

TEST(Select, KnowsRowsWithNaNOrInfinity) {
  testing::on_every_isa([] {
    for (const int64_t size : {1, 15, 16, 33}) {
      std::vector<float> x(static_cast<size_t>(size), -kInfinity);
      EXPECT_TRUE(all_below_infinity(x.data(), size));
      for (size_t at = 0; at < x.size(); ++at) {
        for (const float wrong : {kNaN, -kNaN, kInfinity}) {
          x[at] = wrong;
          EXPECT_FALSE(all_below_infinity(x.data(), size)) << size << " " << at;
        }
        x[at] = std::numeric_limits<float>::max();
        EXPECT_TRUE(all_below_infinity(x.data(), size)) << size << " " << at;
      }
    }
  });
}

}  // namespace
}  // namespace heed::kernels
