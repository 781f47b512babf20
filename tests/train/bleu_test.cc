// BLEU is sacreBLEU's: its own test values, its scores of a file, its tokens.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/text.h"
#include "heed/train.h"
#include "train/bleu_tokenize.h"

namespace heed::train {
namespace {

using Strings = std::vector<std::string>;
using References = std::vector<Strings>;

std::string joined(const Strings& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += (text.empty() ? "" : " ") + token;
  return text;
}

// Made by sacrebleu 2.6.0: ' '.join(BLEU(tokenize, lowercase)._preprocess_segment(text).split()).
// Beside these, 40,000 random strings of awkward characters and every code point below U+20000 were compared.
TEST(BleuTokenizer, CutsAsSacreBleu) {
  const struct {
    const char* tokenizer;
    bool lowercase;
    const char* text;
    const char* tokens;
  } cases[] = {
      {"13a", false, "Hello, world!", "Hello , world !"},
      {"13a", false, "It's 3,5% or 1.000.000 -- not 12-3.", "It's 3,5 % or 1.000.000 -- not 12 - 3 ."},
      {"13a", false, "a.b ,c. .5 5. 5.a", "a . b , c . . 5 5 . 5 . a"},
      {"13a", false, "<skipped>x &amp;lt; &quot;q&quot; &gt;", "x < \" q \" >"},
      {"13a", false, "e-\012mail a\012b", "email a b"},
      {"13a", false, "  (a)[b]{c}|d~`^_\\@#$*+=/?;:", "( a ) [ b ] { c } | d ~ ` ^ _ \\ @ # $ * + = / ? ; :"},
      {"13a", false, "..,,..", ". . , , . ."},
      {"13a", false, "1-2-3 a-1 1-a -1", "1 - 2 - 3 a-1 1 - a -1"},
      {"13a", false, "\344\270\255\346\226\207\357\274\214\346\265\213\350\257\225\343\200\202a1\344\270\2552",
       "\344\270\255\346\226\207\357\274\214\346\265\213\350\257\225\343\200\202a1\344\270\2552"},
      {"13a", false, "\342\200\224\342\200\234x\342\200\235\342\200\246\342\251\255\342\251\256\360\240\200\200",
       "\342\200\224\342\200\234x\342\200\235\342\200\246\342\251\255\342\251\256\360\240\200\200"},
      {"13a", false,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243 . \304\260I "
       "\320\226\321\221"},
      {"13a", false, "Tab\011nbsp\302\240thin\342\200\211end \343\200\200", "Tab nbsp thin end"},
      {"13a", false, "\357\274\241\357\274\221 3.5\345\205\203", "\357\274\241\357\274\221 3.5\345\205\203"},
      {"13a", false, "don't stop.Now,please", "don't stop . Now , please"},
      {"13a", true,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\244\303\266\303\274\303\237 \316\261\317\202 \316\277\316\264\316\277\317\202 . i\314\207i "
       "\320\266\321\221"},
      {"zh", false, "Hello, world!", "Hello , world !"},
      {"zh", false, "It's 3,5% or 1.000.000 -- not 12-3.", "It's 3,5 % or 1.000.000 -- not 12 - 3."},
      {"zh", false, "a.b ,c. .5 5. 5.a", "a . b , c . . 5 5 . 5 . a"},
      {"zh", false, "<skipped>x &amp;lt; &quot;q&quot; &gt;", "< skipped > x & amp ; lt ; & quot ; q & quot ; & gt ;"},
      {"zh", false, "e-\012mail a\012b", "e- mail a b"},
      {"zh", false, "  (a)[b]{c}|d~`^_\\@#$*+=/?;:", "( a ) [ b ] { c } | d ~ ` ^ _ \\ @ # $ * + = / ? ; :"},
      {"zh", false, "..,,..", ". . , , . ."},
      {"zh", false, "1-2-3 a-1 1-a -1", "1 - 2 - 3 a-1 1 - a -1"},
      {"zh", false, "\344\270\255\346\226\207\357\274\214\346\265\213\350\257\225\343\200\202a1\344\270\2552",
       "\344\270\255 \346\226\207 \357\274\214 \346\265\213 \350\257\225 \343\200\202 a1 \344\270\255 2"},
      {"zh", false, "\342\200\224\342\200\234x\342\200\235\342\200\246\342\251\255\342\251\256\360\240\200\200",
       "\342\200\224 \342\200\234 x \342\200\235 \342\200\246 \342\251\255 \342\251\256\360\240\200\200"},
      {"zh", false,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243 . \304\260I "
       "\320\226\321\221"},
      {"zh", false, "Tab\011nbsp\302\240thin\342\200\211end \343\200\200", "Tab nbsp thin end"},
      {"zh", false, "\357\274\241\357\274\221 3.5\345\205\203", "\357\274\241 \357\274\221 3.5 \345\205\203"},
      {"zh", false, "don't stop.Now,please", "don't stop . Now , please"},
      {"zh", true,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\244\303\266\303\274\303\237 \316\261\317\202 \316\277\316\264\316\277\317\202 . i\314\207i "
       "\320\266\321\221"},
      {"char", false, "\342\200\224\342\200\234x\342\200\235\342\200\246\342\251\255\342\251\256\360\240\200\200",
       "\342\200\224 \342\200\234 x \342\200\235 \342\200\246 \342\251\255 \342\251\256 \360\240\200\200"},
      {"char", false,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\204 \303\226 \303\234 \303\237 \316\221 \316\243 \316\237 \316\224 \316\237 \316\243 . \304\260 I "
       "\320\226 \321\221"},
      {"char", false, "Tab\011nbsp\302\240thin\342\200\211end \343\200\200", "T a b n b s p t h i n e n d"},
      {"char", true,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\244 \303\266 \303\274 \303\237 \316\261 \317\202 \316\277 \316\264 \316\277 \317\202 . i \314\207 i "
       "\320\266 \321\221"},
      {"none", false, "\342\200\224\342\200\234x\342\200\235\342\200\246\342\251\255\342\251\256\360\240\200\200",
       "\342\200\224\342\200\234x\342\200\235\342\200\246\342\251\255\342\251\256\360\240\200\200"},
      {"none", false,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I "
       "\320\226\321\221"},
      {"none", false, "Tab\011nbsp\302\240thin\342\200\211end \343\200\200", "Tab nbsp thin end"},
      {"none", true,
       "\303\204\303\226\303\234\303\237 \316\221\316\243 \316\237\316\224\316\237\316\243. \304\260I \320\226\321\221",
       "\303\244\303\266\303\274\303\237 \316\261\317\202 \316\277\316\264\316\277\317\202. i\314\207i "
       "\320\266\321\221"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(joined(bleu_tokens(c.text, parse_bleu_tokenizer(c.tokenizer), c.lowercase)), c.tokens)
        << c.tokenizer << ": " << c.text;
  }
}

TEST(BleuTokenizer, KeepsBytesThatAreNotUtf8) {
  EXPECT_EQ(bleu_tokens("a\xff.b \xe4", BleuTokenizer::v13a, true), (Strings{"a\xff", ".", "b", "\xe4"}));
}

TEST(Bleu, HasSacreBleusValues) {
  const auto file = test::test_data("bleu/cases.json");
  const auto cases = nlohmann::json::parse(test::contents_of(file));
  int checked = 0;
  for (const auto& c : cases["corpus"]) {
    const Bleu found =
        bleu(c["hyp"].get<Strings>(), c["refs"].get<References>(), {.tokenize = c["options"].value("tokenize", "13a")});
    EXPECT_NEAR(found.score, c["bleu"].get<double>(), 1e-6);
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

// Wharton's story against itself with every seventh word left out and every eleventh replaced, as sacrebleu 2.6.0
// scores it.
TEST(Bleu, HasSacreBleusScoresOfAWholeText) {
  Strings system, reference;
  for (const std::string& line : text::read_lines(test::test_data("text/the-verdict.txt"))) {
    if (line.empty()) continue;
    std::istringstream words(line);
    std::string changed;
    size_t number = reference.size();
    for (std::string word; std::getline(words, word, ' '); ++number) {
      if (number % 7 != 3) changed += (changed.empty() ? "" : " ") + (number % 11 == 0 ? "The" : word);
    }
    system.push_back(changed);
    reference.push_back(line);
  }
  ASSERT_EQ(system.size(), 83u);
  const struct {
    const char* tokenizer;
    bool lowercase;
    double score, brevity_penalty;
    int64_t system_length, reference_length;
    double precisions[4];
  } cases[] = {
      {"13a", false, 51.2575697, 0.8264573, 3641, 4335, {92.0900851, 72.9623384, 55.4532374, 39.7110849}},
      {"13a", true, 51.8144019, 0.8264573, 3641, 4335, {92.9414996, 73.5806633, 56.0575540, 40.3007075}},
      {"none", false, 47.3023417, 0.8455755, 3112, 3634, {90.7133676, 68.1413008, 48.9477257, 32.3673184}},
      {"none", true, 47.9560777, 0.8455755, 3112, 3634, {91.7095116, 68.8676131, 49.5926680, 33.0307263}},
      {"char", false, 71.4488130, 0.8104748, 13853, 16764, {97.2424746, 90.9077705, 85.2560824, 80.1381946}},
      {"char", true, 72.4860655, 0.8104748, 13853, 16764, {98.9677326, 92.4546115, 86.3300943, 80.9982358}},
  };
  for (const auto& c : cases) {
    const Bleu found = bleu(system, References{reference}, {.tokenize = c.tokenizer, .lowercase = c.lowercase});
    const std::string where = std::string(c.tokenizer) + (c.lowercase ? ", lower case" : "");
    EXPECT_NEAR(found.score, c.score, 1e-6) << where;
    EXPECT_NEAR(found.brevity_penalty, c.brevity_penalty, 1e-6) << where;
    EXPECT_EQ(found.system_length, c.system_length) << where;
    EXPECT_EQ(found.reference_length, c.reference_length) << where;
    for (size_t n = 0; n < 4; ++n) EXPECT_NEAR(found.precisions[n], c.precisions[n], 1e-6) << where;
  }
}

TEST(Bleu, OfAPerfectTranslationIs100) {
  const Strings lines = {"The cat sat on the mat.", "It was 3,5 times as large."};
  const Bleu found = bleu(lines, References{lines});
  EXPECT_DOUBLE_EQ(found.score, 100);
  EXPECT_EQ(to_string(found),
            "BLEU = 100.00 100.0/100.0/100.0/100.0 (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)");
}

// sacrebleu 2.6.0: corpus_score(["a b c d e", "x y"], [["a b c d f", "x"], [None, "x y z"]]) with tokenize="none".
TEST(Bleu, TakesSeveralReferencesOfWhichSomeAreMissing) {
  const Strings system = {"a b c d e", "x y"};
  const References references = {{"a b c d f", "x"}, {"", "x y z"}};
  const Bleu found = bleu(system, references, {.tokenize = "none"});
  EXPECT_NEAR(found.score, 69.14415692838818, 1e-9);
  EXPECT_EQ(to_string(found), "BLEU = 69.14 85.7/80.0/66.7/50.0 (BP = 1.000 ratio = 1.167 hyp_len = 7 ref_len = 6)");
}

TEST(Bleu, OfNothingIsZero) {
  EXPECT_EQ(bleu(Strings{""}, References{{"a b c d"}}).score, 0);
  EXPECT_EQ(bleu(Strings{"a b c d"}, References{{""}}).score, 0);
  EXPECT_EQ(bleu(Strings{"x y z w"}, References{{"a b c d"}}).score, 0);
  EXPECT_EQ(bleu(Strings{"a b"}, References{{"a b"}}).score, 0);  // no 4-gram at all
}

TEST(Bleu, RefusesWhatDoesNotFit) {
  const Strings one = {"a"};
  test::expect_error([&] { (void)bleu(one, References{{"a", "b"}}); }, "a reference for each of 1 sentences");
  test::expect_error([&] { (void)bleu(one, References{}); }, "found none");
  test::expect_error([&] { (void)bleu({}, References{{}}); }, "found none");
  test::expect_error([&] { (void)bleu(one, References{{"a"}}, {.tokenize = "intl"}); },
                     "13a, zh, char or none; found intl");
}

}  // namespace
}  // namespace heed::train
