// Learning rates against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "heed/train.h"

namespace heed::train {
namespace {

TEST(Schedule, InverseSquareRootGrowsLinearlyAndFallsAsTheRoot) {
  // fairseq's inverse_sqrt: lr 0.005, warm-up 2,000 from 1e-7.
  const Schedule s{.kind = ScheduleKind::inverse_sqrt, .peak = 0.005, .warmup = 2000, .warmup_start = 1e-7};
  EXPECT_NEAR(s.at(1), 1e-7 + (0.005 - 1e-7) / 2000, 1e-15);
  EXPECT_NEAR(s.at(1000), 1e-7 + (0.005 - 1e-7) * 0.5, 1e-15);
  EXPECT_DOUBLE_EQ(s.at(2000), 0.005);
  EXPECT_DOUBLE_EQ(s.at(8000), 0.0025);  // four times the warm-up: half
}

TEST(Schedule, NoamIsThePapersFormula) {
  // Vaswani et al. 2017: 512^-0.5 min(t^-0.5, t 4000^-1.5); at 4,000 both are 4000^-0.5: 6.987e-4.
  const Schedule s{.kind = ScheduleKind::noam, .peak = 1.0, .warmup = 4000, .width = 512};
  EXPECT_NEAR(s.at(4000), 6.98771e-4, 1e-8);
  EXPECT_NEAR(s.at(1), 1.74693e-7, 1e-11);
  EXPECT_NEAR(s.at(16000), 3.49386e-4, 1e-8);
}

TEST(Schedule, CosineIsNanoGpts) {
  // nanoGPT get_lr: warm-up 100, decay to 2,000, from 1e-3 to 1e-4.
  const Schedule s{.kind = ScheduleKind::cosine, .peak = 1e-3, .warmup = 100, .total = 2000, .floor = 1e-4};
  EXPECT_DOUBLE_EQ(s.at(50), 5e-4);
  EXPECT_DOUBLE_EQ(s.at(100), 1e-3);
  EXPECT_NEAR(s.at(1050), 5.5e-4, 1e-12);  // half way: the mean of both
  EXPECT_NEAR(s.at(2000), 1e-4, 1e-15);
  EXPECT_NEAR(s.at(5000), 1e-4, 1e-15);
}

TEST(Schedule, ConstantStaysAfterTheWarmUp) {
  const Schedule s{.kind = ScheduleKind::constant, .peak = 2e-4, .warmup = 10};
  EXPECT_DOUBLE_EQ(s.at(5), 1e-4);
  EXPECT_DOUBLE_EQ(s.at(10), 2e-4);
  EXPECT_DOUBLE_EQ(s.at(1000000), 2e-4);
}

TEST(Schedule, NoWarmUpStartsAtThePeak) {
  for (const auto kind : {ScheduleKind::constant, ScheduleKind::inverse_sqrt, ScheduleKind::cosine}) {
    EXPECT_DOUBLE_EQ((Schedule{.kind = kind, .peak = 3.0, .warmup = 0, .total = 1000000000}).at(1), 3.0);
  }
}

}  // namespace
}  // namespace heed::train
