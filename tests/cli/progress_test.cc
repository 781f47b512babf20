// The line of the progress bar.
#include "cli/progress.h"

#include <gtest/gtest.h>

namespace heed::cli {
namespace {

TEST(ProgressLine, TheBarTakesWhatTheTextLeaves) {
  EXPECT_EQ(progress_line(1200, 8000, "epoch 2  loss 2.5000", 184, 60),
            "[#...........] 1,200/8,000  epoch 2  loss 2.5000  3:04 left");
  EXPECT_EQ(progress_line(5, 10, "", -1, 200), "[###############...............] 5/10");
  EXPECT_EQ(progress_line(7, 0, "sentences", -1, 80), "7  sentences") << "a total that is not known";
}

TEST(ProgressLine, TheLastDetailsGoFirstWhereTheLineIsNarrow) {
  const auto line = [](int64_t width) {
    return progress_line(50, 100, "epoch 2  9,876 tokens/s  waiting 15 %", 184, width);
  };
  EXPECT_EQ(line(58), " 50/100  epoch 2  9,876 tokens/s  waiting 15 %  3:04 left");
  EXPECT_EQ(line(57), "[#####......] 50/100  epoch 2  9,876 tokens/s  3:04 left");
  EXPECT_EQ(line(30), " 50/100  epoch 2  3:04 left");
  EXPECT_EQ(line(20), " 50/100  3:04 left");
  EXPECT_EQ(line(6), " 50/1") << "not the last column: a full line would wrap";
  EXPECT_EQ(line(0), "");
}

}  // namespace
}  // namespace heed::cli
