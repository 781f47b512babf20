// Tokenizers that belong to another kind of model.
#include "generate/tokenizer_kind.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/data.h"
#include "base/scratch.h"

namespace heed::generate {
namespace {

using heed::test::expect_error;
using heed::test::Scratch;
using nlohmann::json;

// A word a token: `vocabulary`, and what stands before and behind a text.
std::shared_ptr<const text::Tokenizer> tokenizer_of(const std::vector<std::string>& vocabulary,
                                                    const std::vector<std::string>& before,
                                                    const std::vector<std::string>& behind) {
  json words, tokens = json::object();
  for (const std::string& word : vocabulary) words[word] = words.size();
  json single = json::array();
  const auto add = [&](const std::string& token) {
    tokens[token] = {{"id", token}, {"ids", {words.at(token)}}, {"tokens", {token}}};
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
  };
  for (const std::string& token : before) add(token);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  for (const std::string& token : behind) add(token);
  const json model = {{"type", "WordLevel"}, {"vocab", words}, {"unk_token", "<unk>"}};
  const json processor = {
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", single}, {"special_tokens", tokens}};
  const Scratch folder;
  (void)folder.file(
      "tokenizer.json",
      json{{"version", "1.0"}, {"added_tokens", json::array()}, {"model", model}, {"post_processor", processor}}
          .dump());
  return text::Tokenizer::load(folder.path(), text::Side::source);
}

const std::vector<std::string> kOfT5 = {"<pad>", "</s>", "<unk>", "a"};
const std::vector<std::string> kOfRoberta = {"<s>", "<pad>", "</s>", "<unk>", "a"};

void check(const std::shared_ptr<const text::Tokenizer>& tokenizer, const char* family) {
  require_kind_of_tokenizer(*tokenizer, *models::load(heed::test::test_data("families") / family), "folder", "test");
}

TEST(TokenizerKind, AnEncoderDecoderEndsATextAsItsTokenizerDoes) {
  const auto t5 = tokenizer_of(kOfT5, {}, {"</s>"}), roberta = tokenizer_of(kOfRoberta, {"<s>"}, {"</s>"});
  check(t5, "t5");
  check(t5, "mt5");
  check(t5, "t5-encoder");  // the encoder of one, alone
  check(roberta, "bart");
  check(tokenizer_of(kOfRoberta, {}, {"</s>", "a"}), "mbart");  // its languages stand behind the end
  expect_error([&] { check(roberta, "t5"); },
               "[test] folder: a tokenizer that ends a text with the id 1, \"eos_token_id\" of config.json; found one "
               "that ends it with 2, </s>");
  expect_error([&] { check(roberta, "t5-encoder"); }, "a tokenizer that ends a text with the id 1");
  expect_error([&] { check(t5, "bart"); }, "ends a text with the id 2");
  expect_error([&] { check(t5, "marian"); }, "ends a text with the id 0");
}

TEST(TokenizerKind, AnEncoderReadsATokenBeforeAText) {
  const auto t5 = tokenizer_of(kOfT5, {}, {"</s>"}), roberta = tokenizer_of(kOfRoberta, {"<s>"}, {"</s>"});
  for (const char* const family : {"bert-classify", "distilbert-classify", "roberta-classify", "mpnet-model"}) {
    check(roberta, family);  // multilingual models of BERT's kind have such tokenizers, with another padding
    check(tokenizer_of(kOfT5, {}, {}), family);
    expect_error([&] { check(t5, family); },
                 "a tokenizer that puts a token before a text, [CLS] or <s>, as an encoder reads it; found one that "
                 "puts only </s> behind it");
  }
}

}  // namespace
}  // namespace heed::generate
