// What a message can hold.
#include "heed/error.h"

#include <gtest/gtest.h>

#include "base/message.h"

namespace heed {
namespace {

std::string said(std::string_view part) {
  return testing::message_of([&] { fail("f", part); });
}

TEST(Error, IsOneLineOfUtf8WhateverIsInIt) {
  EXPECT_EQ(said("plain"), "[f] plain");
  EXPECT_EQ(said("caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80"), "[f] caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80");
  EXPECT_EQ(said("a\nb\rc\td\x1b[31m"), "[f] a?b?c?d?[31m");
  EXPECT_EQ(said(std::string_view("a\0b\x7f", 4)), "[f] a?b?");
  EXPECT_EQ(said("\xff\xfe"), "[f] ??");
  EXPECT_EQ(said("\xc2\x9b"), "[f] ??");            // a control character that terminals obey
  EXPECT_EQ(said("\xc0\xaf"), "[f] ??");            // longer than it need be
  EXPECT_EQ(said("\xe0\x80\xaf"), "[f] ???");       // the same
  EXPECT_EQ(said("\xed\xa0\x80"), "[f] ???");       // half of a pair of UTF-16
  EXPECT_EQ(said("\xf4\x90\x80\x80"), "[f] ????");  // beyond the last character
  EXPECT_EQ(said("\xe4\xb8"), "[f] ??");            // cut off
  EXPECT_EQ(said("\xe4\xb8 \xad"), "[f] ?? ?");
}

}  // namespace
}  // namespace heed
