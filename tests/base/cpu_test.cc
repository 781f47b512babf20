// The choice of the instruction set: what can run can be forced, what cannot is an error.
#include "heed/cpu.h"
#include "base/message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heed/error.h"

namespace heed {
namespace {

TEST(Cpu, EveryAvailableSetCanBeForced) {
  const std::vector<Isa> isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::portable);
  for (const Isa isa : isas) {
    set_isa(isa);
    EXPECT_EQ(active_isa(), isa);
    EXPECT_EQ(parse_isa(to_string(isa)), isa);
  }
}

TEST(Cpu, AnUnknownNameIsAnError) {
  EXPECT_EQ(testing::message_of([] { (void)parse_isa("avx10"); }),
            "[isa] one of portable, avx2, avx512, avx512bf16, amx; found \"avx10\"");
}

TEST(Cpu, TheMachineIsDescribed) {
  const CpuInfo& info = cpu_info();
  EXPECT_GE(info.cores, 1);
  EXPECT_FALSE(info.model.empty());
  const bool has_avx2 = std::count(info.features.begin(), info.features.end(), "avx2") == 1;
  const std::vector<Isa> isas = available_isas();
#ifndef HEED_PORTABLE_ONLY
  EXPECT_EQ(has_avx2, std::count(isas.begin(), isas.end(), Isa::avx2) == 1);
  // AMX may be there and yet not be granted.
  const auto listed = [&](const char* name) {
    return std::count(info.features.begin(), info.features.end(), name) == 1;
  };
  EXPECT_EQ(listed("avx512_bf16"), std::count(isas.begin(), isas.end(), Isa::avx512bf16) == 1);
  EXPECT_LE(std::count(isas.begin(), isas.end(), Isa::amx), listed("amx_bf16") ? 1 : 0);
#else
  EXPECT_EQ(isas.size(), 1u);
  (void)has_avx2;
#endif
}

}  // namespace
}  // namespace heed
