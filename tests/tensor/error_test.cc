// Messages: `[function] expectation; finding`, whatever is put into them.
#include "heed/error.h"

#include <gtest/gtest.h>

#include "heed/tensor.h"

namespace heed {
namespace {

TEST(Error, PartsAreJoined) {
  try {
    fail("attention", "heads ", 8, " of size ", 1.5, ", flag ", true, ", char ", 'x', "; found ", Shape{2, 3}, " in ",
         DType::bf16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[attention] heads 8 of size 1.5, flag true, char x; found (2, 3) in bf16");
  }
}

TEST(Error, RequireThrowsOnlyWhenBroken) {
  EXPECT_NO_THROW(require(true, "f", "x"));
  EXPECT_THROW(require(false, "f", "x"), Error);
}

}  // namespace
}  // namespace heed
