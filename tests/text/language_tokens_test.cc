// Which tokens name languages.
#include "text/language_tokens.h"

#include <gtest/gtest.h>

namespace heed::text {
namespace {

TEST(LanguageTokens, AreKnownByTheirForm) {
  for (const char* const piece :
       {"__fr__", "__2en__", "__zh__", "__ast__", ">>fra<<", ">>cmn_Hans<<", "fra_Latn", "fr_XX", "de_DE"})
    EXPECT_TRUE(looks_like_language(piece)) << piece;
  // GPT-2's vocabulary, which BART has, has runs of up to 64 underscores.
  const std::string underscores(64, '_');
  for (const std::string& piece : {std::string("____"), std::string("________"), underscores, std::string("__"),
                                   std::string(), std::string("__1__"), std::string(">><<"), std::string("fr"),
                                   std::string("f_XX"), std::string("▁fr_XX"), std::string("snake_case")})
    EXPECT_FALSE(looks_like_language(piece)) << piece;
}

}  // namespace
}  // namespace heed::text
