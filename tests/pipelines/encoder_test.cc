// Encoders in folders of Hugging Face: vectors, classes and missing words of texts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/message.h"
#include "heed/error.h"
#include "heed/pipelines.h"
#include "pipelines/hugging_face.h"

namespace heed {
namespace {

namespace fs = std::filesystem;
using test::Golden;
using test::Scratch;
using test::with_words;
using testing::message_of;

// The states of ids, in the model alone.
Tensor states_of(const Encoder& encoder, const std::vector<int32_t>& ids, const std::vector<int32_t>& types) {
  const auto length = static_cast<int64_t>(ids.size());
  const auto count = static_cast<int32_t>(length);
  const NoGradScope no_grad;
  return encoder.model()
      .encode(Tensor::from(std::span<const int32_t>(ids), {1, length}),
              Tensor::from(std::span<const int32_t>(&count, 1), {1}),
              Tensor::from(std::span<const int32_t>(types), {1, length}))
      .data()
      .select(0, 0)
      .contiguous();
}

TEST(HuggingFaceEncoder, ReadsTextsWithTheTokensAroundThem) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "st-mean"));
  const Encoding encoding = encoder.encode("Paris is the capital");
  EXPECT_EQ(encoding.tokens, (std::vector<std::string>{"[CLS]", "paris", "is", "the", "capital", "[SEP]"}));
  const Tensor want = states_of(encoder, {2, 5, 6, 7, 8, 3}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(std::memcmp(encoding.states.data<float>(), want.data<float>(), sizeof(float) * 6 * 16), 0);
  // The mean of all six, of length 1.
  const Tensor vector = encoder.embed(std::vector<std::string>{"Paris is the capital"});
  ASSERT_EQ(vector.shape(), (Shape{1, 16}));
  std::vector<double> mean(16);
  double squares = 0;
  for (int64_t e = 0; e < 16; ++e) {
    for (int64_t l = 0; l < 6; ++l) mean[static_cast<size_t>(e)] += want.at({l, e}) / 6;
    squares += mean[static_cast<size_t>(e)] * mean[static_cast<size_t>(e)];
  }
  for (int64_t e = 0; e < 16; ++e)
    EXPECT_NEAR(vector.at({0, e}), mean[static_cast<size_t>(e)] / std::sqrt(squares), 1e-6);
  const inspect::Record record = encoder.record("paris");
  EXPECT_EQ(record.source_tokens, (std::vector<std::string>{"[CLS]", "paris", "[SEP]"}));
  EXPECT_EQ(record.encoder.size(), 2u);
  EXPECT_EQ(architecture_of(scratch / "st-mean"), models::Architecture::encoder_only);
  EXPECT_THROW((void)encoder.record(""), Error);
}

TEST(HuggingFaceEncoder, ALimitAPromptAndAnUnknownText) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-mean");
  scratch.file("st-mean/sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": false})");
  scratch.file("st-mean/config_sentence_transformers.json", R"({"prompts": {"query": "query: ", "document": ""}})");
  const Encoder encoder = Encoder::load(folder);
  EXPECT_EQ(encoder.prompts(), (std::vector<std::string>{"document", "query"}));
  const std::vector<std::string> texts = {"paris", "the capital of france"};
  const std::string message = message_of([&] { (void)encoder.embed(texts); });
  EXPECT_CONTAINS(message, "text 2: at most the 5 tokens that the model reads; found 6");
  std::vector<std::string> warnings;
  EncoderOptions options{.text = {.too_long = TooLong::cut, .on_warning = [&](const TextWarning& warning) {
                                    warnings.push_back(std::to_string(warning.text) + ": " + to_string(warning));
                                  }}};
  const Tensor cut = encoder.embed(texts, options);
  EXPECT_EQ(warnings, (std::vector<std::string>{"1: 6 tokens, cut to 5"}));
  const Tensor short_one = encoder.embed(std::vector<std::string>{"the capital of"});
  EXPECT_EQ(std::memcmp(cut.data<float>() + 16, short_one.data<float>(), 16 * sizeof(float)), 0);

  const Tensor with_prompt = encoder.embed(std::span(texts).first(1), {.prompt = "query"});
  const Tensor written = encoder.embed(std::vector<std::string>{"query: paris"});
  EXPECT_EQ(std::memcmp(with_prompt.data<float>(), written.data<float>(), 16 * sizeof(float)), 0);
  const Tensor plain = encoder.embed(std::span(texts).first(1));
  scratch.file("st-mean/config_sentence_transformers.json", R"({"prompts": {}})");
  for (const char* const usual : {"query", "document"}) {  // sentence-transformers gives every model both, empty
    const Tensor same = Encoder::load(folder).embed(std::span(texts).first(1), {.prompt = usual});
    EXPECT_EQ(std::memcmp(same.data<float>(), plain.data<float>(), 16 * sizeof(float)), 0) << usual;
  }
  EXPECT_CONTAINS(message_of([&] { (void)encoder.embed(texts, {.prompt = "passage"}); }),
                  "a prompt of this model (document, query); found \"passage\"");
  scratch.file("st-mean/config_sentence_transformers.json",
               R"({"prompts": {"query": "query: "}, "default_prompt_name": "query"})");
  const Tensor by_default = Encoder::load(folder).embed(std::span(texts).first(1));
  EXPECT_EQ(std::memcmp(by_default.data<float>(), written.data<float>(), 16 * sizeof(float)), 0);

  warnings.clear();
  (void)encoder.embed(std::vector<std::string>{"xyz abc paris"}, options);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_CONTAINS(warnings.at(0), "6 of 11 characters are unknown");
  EXPECT_CONTAINS(message_of([&] { (void)encoder.embed(std::vector<std::string>{"a\xff"}); }), "text 1: valid UTF-8");
}

TEST(HuggingFaceEncoder, LeavesAPromptOutWhereItsPoolingSaysSo) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-no-prompt");
  scratch.file("st-no-prompt/sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": false})");
  const Encoder encoder = Encoder::load(folder);
  const std::vector<std::string> text = {"capital"};
  // [CLS] is the capital [SEP]: the prompt's are the first three.
  const Tensor states = states_of(encoder, {2, 6, 7, 8, 3}, {0, 0, 0, 0, 0});
  const Tensor vector = encoder.embed(text, {.prompt_text = "is the "});
  ASSERT_EQ(vector.shape(), (Shape{1, 96}));
  for (int64_t e = 0; e < 16; ++e) {
    EXPECT_NEAR(vector.at({0, e}), states.at({3, e}), 1e-6);                                 // the first
    EXPECT_NEAR(vector.at({0, 32 + e}), (states.at({3, e}) + states.at({4, e})) / 2, 1e-6);  // the mean
    EXPECT_NEAR(vector.at({0, 64 + e}), (4 * states.at({3, e}) + 5 * states.at({4, e})) / 9, 1e-6);
  }
  // Without a prompt, all count; of a prompt that fills the limit the end is left.
  const Tensor all = encoder.embed(std::vector<std::string>{"is the capital"}, {.prompt_text = ""});
  for (int64_t e = 0; e < 16; ++e) EXPECT_NEAR(all.at({0, e}), states.at({0, e}), 1e-6);
  std::vector<std::string> warnings;
  const EncoderOptions cut{.prompt_text = "is the capital of paris ",
                           .text = {.too_long = TooLong::cut, .on_warning = [&](const TextWarning& warning) {
                                      warnings.push_back(to_string(warning));
                                    }}};
  const Tensor end = encoder.embed(text, cut);
  for (int64_t e = 0; e < 16; ++e) EXPECT_NEAR(end.at({0, e}), states.at({4, e}), 1e-6);
  EXPECT_EQ(warnings, std::vector<std::string>{"8 tokens, cut to 5"});
  const Encoder pooling_all = Encoder::load(with_words(scratch, "st-mean"));
  for (const Encoder& each : {encoder, pooling_all})
    EXPECT_CONTAINS(message_of([&] { (void)each.embed(text, {.prompt_text = "is \xff "}); }),
                    "the prompt: valid UTF-8");
}

TEST(HuggingFaceEncoder, RecordsTheTokensThatItsVectorIsMadeOf) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-mean");
  scratch.file("st-mean/tokenizer_config.json", R"({"do_lower_case": false})");
  scratch.file("st-mean/sentence_bert_config.json", R"({"do_lower_case": true})");
  const Encoder encoder = Encoder::load(folder);
  const inspect::Record record = encoder.record("PARIS is a City");
  EXPECT_EQ(record.source_tokens, (std::vector<std::string>{"[CLS]", "paris", "is", "a", "city", "[SEP]"}));
  EXPECT_EQ(record.source_tokens, encoder.encode("PARIS is a City").tokens);
  EXPECT_EQ(record.source, "PARIS is a City");
}

// As in sentence-transformers, tokens that a text names keep their case, and the case matters where there are modules.
TEST(HuggingFaceEncoder, ReadsTextsInLowerCaseWhereItsFolderSaysSo) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-mean");
  scratch.file("st-mean/tokenizer_config.json", R"({"do_lower_case": false})");
  scratch.file("st-mean/sentence_bert_config.json", R"({"do_lower_case": true})");
  using Words = std::vector<std::string>;
  const Encoder encoder = Encoder::load(folder);
  EXPECT_EQ(encoder.encode("PARIS [SEP] City", {.parse_special = true}).tokens,
            (Words{"[CLS]", "paris", "[SEP]", "city", "[SEP]"}));
  fs::remove(folder / "modules.json");
  EXPECT_EQ(Encoder::load(folder).encode("PARIS city").tokens, (Words{"[CLS]", "[UNK]", "city", "[SEP]"}));
}

TEST(HuggingFaceEncoder, ScoresTextsInLowerCaseWhereItsFolderSaysSo) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-cross-encoder");
  scratch.file("bert-cross-encoder/tokenizer_config.json", R"({"do_lower_case": false})");
  const auto score = [&](const char* text, const char* pair) {
    const TextPair both{.text = text, .pair = pair};
    return Encoder::load(folder).classify({&both, 1}).at(0).score;
  };
  const float lower = score("paris is", "the city");
  EXPECT_NE(score("PARIS is", "the city"), lower);
  EXPECT_NE(score("paris is", "the CITY"), lower);
  scratch.file("bert-cross-encoder/modules.json",
               R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}])");
  scratch.file("bert-cross-encoder/config_sentence_transformers.json", R"({"model_type": "CrossEncoder"})");
  scratch.file("bert-cross-encoder/sentence_bert_config.json", R"({"do_lower_case": true})");
  EXPECT_EQ(score("PARIS is", "the CITY"), lower);
}

TEST(HuggingFaceEncoder, OfPairsHasNoEmptyPrompts) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-cross-encoder");
  scratch.file("bert-cross-encoder/modules.json",
               R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}])");
  scratch.file("bert-cross-encoder/config_sentence_transformers.json",
               R"({"model_type": "CrossEncoder", "default_prompt_name": "query"})");
  EXPECT_CONTAINS(message_of([&] { (void)Encoder::load(folder); }),
                  "config_sentence_transformers.json: key \"default_prompt_name\": one of the prompts");
}

TEST(HuggingFaceEncoder, MayHaveAnEmptyPromptByDefault) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-mean");
  const std::vector<std::string> text = {"paris"};
  const Tensor plain = Encoder::load(folder).embed(text);
  for (const char* const name : {"query", "document"}) {
    scratch.file("st-mean/config_sentence_transformers.json",
                 std::string(R"({"prompts": {"passage": "is "}, "default_prompt_name": ")") + name + "\"}");
    const Tensor found = Encoder::load(folder).embed(text);
    EXPECT_EQ(std::memcmp(found.data<float>(), plain.data<float>(), 16 * sizeof(float)), 0) << name;
  }
}

TEST(HuggingFaceEncoder, WrongSettingsAreErrorsWithFileAndKey) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-mean");
  const auto load = [&] { (void)Encoder::load(folder); };
  scratch.file("st-mean/sentence_bert_config.json", R"({"max_seq_length": 0})");
  EXPECT_CONTAINS(message_of(load), "sentence_bert_config.json: key \"max_seq_length\": 1 or more; found 0");
  scratch.file("st-mean/sentence_bert_config.json", R"({"transformer_task": "fill-mask"})");
  EXPECT_CONTAINS(message_of(load), "key \"transformer_task\": feature-extraction");
  scratch.file("st-mean/sentence_bert_config.json", R"({"module_output_name": "scores"})");
  EXPECT_CONTAINS(message_of(load), "key \"module_output_name\": token_embeddings; found \"scores\"");
  scratch.file("st-mean/sentence_bert_config.json",
               R"({"modality_config": {"text": {"method_output_name": "pooler_output"}}})");
  EXPECT_CONTAINS(message_of(load), "modality_config, text: key \"method_output_name\": last_hidden_state");
  scratch.file("st-mean/sentence_bert_config.json", R"({"modality_config": {"image": {"method": "forward"}}})");
  EXPECT_CONTAINS(message_of(load), "modality_config: key \"image\": a key that heed knows");
  scratch.file("st-mean/sentence_bert_config.json", R"({"query_length": 32})");
  EXPECT_CONTAINS(message_of(load), "key \"query_length\": a key that heed knows");
  scratch.file("st-mean/sentence_bert_config.json", R"({"tokenizer_args": {"add_prefix_space": true}})");
  EXPECT_CONTAINS(message_of(load), "tokenizer_args: key \"add_prefix_space\": a key that heed knows");
  // The usual value of these is true: false says something.
  scratch.file("st-mean/sentence_bert_config.json", R"({"tokenizer_args": {"do_lower_case": false}})");
  EXPECT_CONTAINS(message_of(load), "tokenizer_args: key \"do_lower_case\": a key that heed knows");
  scratch.file("st-mean/sentence_bert_config.json", R"({"processor_kwargs": {"strip_accents": false}})");
  EXPECT_CONTAINS(message_of(load), "processor_kwargs: key \"strip_accents\": a key that heed knows");
  fs::remove(folder / "sentence_bert_config.json");
  scratch.file("st-mean/config_sentence_transformers.json", R"({"model_type": "SparseEncoder"})");
  EXPECT_CONTAINS(message_of(load), "key \"model_type\": SentenceTransformer; found \"SparseEncoder\"");
  scratch.file("st-mean/config_sentence_transformers.json", R"({"truncate_dim": 0})");
  EXPECT_CONTAINS(message_of(load), "key \"truncate_dim\": 1 or more");
  scratch.file("st-mean/config_sentence_transformers.json", R"({"query_prefix": "[Q]"})");
  EXPECT_CONTAINS(message_of(load), "key \"query_prefix\": a key that heed knows");
  scratch.file("st-mean/config_sentence_transformers.json", R"({"prompts": {"query": 1}})");
  EXPECT_CONTAINS(message_of(load), "config_sentence_transformers.json: key \"prompts\"");
  scratch.file("st-mean/config_sentence_transformers.json", R"({"default_prompt_name": "passage"})");
  EXPECT_CONTAINS(message_of(load), "key \"default_prompt_name\": one of the prompts");
  fs::remove(folder / "config_sentence_transformers.json");
  std::string many;
  for (int i = 0; i < 62; ++i) many += "[PAD]" + std::to_string(i) + "\n";
  scratch.file("st-mean/vocab.txt", "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n" + many);
  EXPECT_CONTAINS(message_of(load), "as many as the model has; found 67");
}

// What real folders have, and what changes no vector.
TEST(HuggingFaceEncoder, HarmlessSettingsAreRead) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "st-mean");
  const std::vector<std::string> texts = {"paris is the capital"};
  const Tensor expected = Encoder::load(folder).embed(texts);
  scratch.file("st-mean/sentence_bert_config.json",
               R"({"do_lower_case": false, "model_args": {"trust_remote_code": true, "attn_implementation": "sdpa"},
                   "config_args": {}, "unpad_inputs": true, "query_expansion": null, "processing_kwargs": {},
                   "tokenizer_args": {"use_fast": false, "local_files_only": false, "model_max_length": 9}})");
  scratch.file("st-mean/config_sentence_transformers.json",
               R"({"__version__": {"pytorch": "2"}, "similarity_fn_name": "dot", "truncate_dim": 5, "prompts": {}})");
  const Encoder encoder = Encoder::load(folder);
  EXPECT_EQ(encoder.longest(), 9);
  EXPECT_EQ(encoder.embedding_size(), 5);
  const Tensor found = encoder.embed(texts);
  ASSERT_EQ(found.shape(), (Shape{1, 5}));
  for (int64_t e = 0; e < 5; ++e) EXPECT_EQ(found.at({0, e}), expected.at({0, e}));
}

TEST(HuggingFaceEncoder, WithoutModulesThereAreNoPrompts) {  // as in sentence-transformers, which takes the mean then
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-model");
  const std::vector<std::string> texts = {"paris"};
  const Tensor plain = Encoder::load(folder).embed(texts);
  scratch.file("bert-model/config_sentence_transformers.json",
               R"({"prompts": {"query": "query: "}, "default_prompt_name": "query", "truncate_dim": 5})");
  const Encoder encoder = Encoder::load(folder);
  EXPECT_EQ(encoder.prompts(), std::vector<std::string>());
  const Tensor found = encoder.embed(texts);
  ASSERT_EQ(found.shape(), plain.shape());
  EXPECT_EQ(std::memcmp(found.data<float>(), plain.data<float>(), static_cast<size_t>(plain.nbytes())), 0);
}

// Softmax of the logits that the model itself computes for these ids, which families_test compares with transformers.
TEST(HuggingFaceEncoder, ClassesOfTexts) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-classify"));
  ASSERT_EQ(encoder.labels().size(), 3u);
  const std::vector<TextPair> texts = {{.text = "paris"}, {.text = "the city", .pair = "of france"}};
  const std::vector<Classification> got = encoder.classify(texts);
  const std::vector<int32_t> ids = {2, 7, 15, 3, 9, 10, 3}, types = {0, 0, 0, 0, 1, 1, 1};
  const int32_t count = 7;
  const Tensor logits = encoder.model()
                            .forward(Tensor::from(std::span<const int32_t>(ids), {1, 7}),
                                     Tensor::from(std::span<const int32_t>(&count, 1), {1}),
                                     Tensor::from(std::span<const int32_t>(types), {1, 7}))
                            .data();
  double sum = 0;
  for (int64_t c = 0; c < 3; ++c) sum += std::exp(logits.at({0, c}));
  for (int64_t c = 0; c < 3; ++c)
    EXPECT_NEAR(static_cast<double>(got[1].scores[static_cast<size_t>(c)]), std::exp(logits.at({0, c})) / sum, 1e-6);
  EXPECT_EQ(got[1].score, *std::max_element(got[1].scores.begin(), got[1].scores.end()));
  const std::vector<Classification> alone = encoder.classify(std::span(texts).first(1), {.batch_tokens = 1});
  EXPECT_EQ(alone[0].scores, got[0].scores);
  EXPECT_CONTAINS(message_of([&] { (void)encoder.fill("[MASK]"); }),
                  "a model that guesses masked tokens; found a model that tells classes of texts");
  EXPECT_CONTAINS(message_of([&] { (void)encoder.classify_tokens("a"); }), "a model that tells classes of tokens");
}

// The numbers are those of transformers.
TEST(HuggingFaceEncoder, TokenTypesAreThoseOfTheTokenizer) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-classify"), finder = with_words(scratch, "bert-answer");
  const std::vector<TextPair> texts = {{.text = "the city", .pair = "of france"}};
  const auto expect_scores = [&](const char* configuration, const std::vector<double>& scores,
                                 const std::vector<double>& answers) {
    for (const char* const name : {"bert-classify", "bert-answer"})
      scratch.file(std::string(name) + "/tokenizer_config.json", configuration);
    const std::vector<float> found = Encoder::load(folder).classify(texts)[0].scores;
    for (size_t c = 0; c < scores.size(); ++c) EXPECT_NEAR(static_cast<double>(found[c]), scores[c], 2e-6);
    const std::vector<Answer> best = Encoder::load(finder).answer(texts[0].text, *texts[0].pair, {.count = 3});
    ASSERT_EQ(best.size(), answers.size());
    for (size_t i = 0; i < answers.size(); ++i) EXPECT_NEAR(static_cast<double>(best[i].score), answers[i], 2e-6);
  };
  expect_scores(R"({"tokenizer_class": "BertTokenizer"})", {0.015204, 0.981667, 0.003129},
                {0.166733, 0.153578, 0.143963});
  expect_scores(R"({"tokenizer_class": "BertTokenizer", "model_input_names": ["input_ids", "attention_mask"]})",
                {0.010992, 0.987062, 0.001946}, {0.115832, 0.105493, 0.102702});
}

TEST(HuggingFaceEncoder, ScoresOfPairsAsConfigSays) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-cross-encoder");
  const std::vector<TextPair> texts = {{.text = "paris", .pair = "the capital of france"}};
  const auto score = [&] { return static_cast<double>(Encoder::load(folder).classify(texts)[0].score); };
  const double probability = score();
  auto config = nlohmann::json::parse(test::contents_of(folder / "config.json"));
  config["problem_type"] = "regression";
  scratch.file("bert-cross-encoder/config.json", config.dump());
  const double regression = score();
  config.erase("problem_type");
  config["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity";
  scratch.file("bert-cross-encoder/config.json", config.dump());
  const double raw = score();
  EXPECT_NEAR(probability, 1 / (1 + std::exp(-raw)), 1e-6);
  EXPECT_NE(probability, raw);
  EXPECT_EQ(regression, raw);
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.Sigmoid"}};
  scratch.file("bert-cross-encoder/config.json", config.dump());
  EXPECT_EQ(score(), probability);
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.activation.Tanh"}};
  scratch.file("bert-cross-encoder/config.json", config.dump());
  EXPECT_CONTAINS(message_of([&] { (void)score(); }), "Sigmoid or Identity");
  config["sentence_transformers"] = {{"activation_fn", "my.package.Tanh"}};  // which nobody imports
  scratch.file("bert-cross-encoder/config.json", config.dump());
  EXPECT_EQ(score(), probability);
}

// An activation is for one score; with several classes transformers goes by the problem alone.
TEST(HuggingFaceEncoder, ActivationsOfACrossEncoderAreNotForClasses) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-classify");
  const std::vector<TextPair> pairs = {{.text = "the city", .pair = "paris"}};
  const auto scores = [&] { return Encoder::load(folder).classify(pairs)[0].scores; };
  const std::vector<float> shares = scores();
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-6);
  auto config = nlohmann::json::parse(test::contents_of(folder / "config.json"));
  config["sentence_transformers"] = {{"activation_fn", "torch.nn.modules.linear.Identity"}};
  scratch.file("bert-classify/config.json", config.dump());
  EXPECT_EQ(scores(), shares);
  scratch.file("bert-classify/modules.json",
               R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}])");
  scratch.file("bert-classify/sentence_bert_config.json",
               R"({"transformer_task": "sequence-classification", "module_output_name": "scores", "modality_config":
                   {"text": {"method": "forward", "method_output_name": "logits"}}})");
  scratch.file("bert-classify/config_sentence_transformers.json",
               R"({"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"})");
  EXPECT_EQ(scores(), shares);
}

// The weights are finite, and what comes of them is not.
TEST(HuggingFaceEncoder, ResultsThatAreNoNumbersAreErrors) {
  const Scratch scratch;
  const auto broken = [&](const char* name) {
    const fs::path folder = with_words(scratch, name);
    io::Tensors tensors = io::read_safetensors(folder / "model.safetensors").tensors;
    for (auto& [path, tensor] : tensors) {
      if (tensor.dtype() != DType::f32) continue;
      tensor = tensor.clone();
      for (int64_t i = 0; i < tensor.numel(); ++i) tensor.data<float>()[i] *= 1e30f;
    }
    io::write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
    return Encoder::load(folder);
  };
  const std::vector<std::string> texts = {"paris is"};
  constexpr const char* kExpected = "[Encoder] results that are numbers; the model gave NaN or infinity";
  EXPECT_EQ(message_of([&] { (void)broken("st-mean").embed(texts); }), kExpected);
  EXPECT_EQ(message_of([&] { (void)broken("bert-classify").classify(texts); }), kExpected);
  EXPECT_EQ(message_of([&] { (void)broken("bert-tokens").classify_tokens("paris is"); }), kExpected);
  EXPECT_EQ(message_of([&] { (void)broken("bert-masked").fill("paris [MASK]"); }), kExpected);
  EXPECT_EQ(message_of([&] { (void)broken("bert-answer").answer("is", "the capital of france"); }), kExpected);
}

// sentence-transformers 6 lists the Transformer alone, and keeps the activation beside it.
TEST(HuggingFaceEncoder, ReadsCrossEncodersOfSentenceTransformers6) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-cross-encoder");
  auto config = nlohmann::json::parse(test::contents_of(folder / "config.json"));
  config.erase("sentence_transformers");
  scratch.file("bert-cross-encoder/config.json", config.dump());
  const std::vector<TextPair> pairs = {{.text = "the city", .pair = "paris"}};
  const auto score = [&] { return static_cast<double>(Encoder::load(folder).classify(pairs)[0].score); };
  const double before = score();  // of one label: Sigmoid
  scratch.file("bert-cross-encoder/modules.json",
               R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.Transformer"}])");
  scratch.file("bert-cross-encoder/sentence_bert_config.json",
               R"({"transformer_task": "sequence-classification", "module_output_name": "scores", "modality_config":
                   {"text": {"method": "forward", "method_output_name": "logits"}}})");
  const auto activate = [&](const std::string& name) {
    scratch.file("bert-cross-encoder/config_sentence_transformers.json",
                 R"({"model_type": "CrossEncoder", "prompts": {}, "activation_fn": "torch.nn.modules.)" + name + "\"}");
  };
  activate("activation.Sigmoid");
  EXPECT_EQ(score(), before);
  activate("linear.Identity");
  EXPECT_NEAR(1 / (1 + std::exp(-score())), before, 1e-6);
  activate("activation.Tanh");
  EXPECT_CONTAINS(message_of([&] { (void)score(); }), "activation_fn");
  scratch.file("bert-cross-encoder/config_sentence_transformers.json",
               R"({"model_type": "CrossEncoder", "activation_fn": "my.package.Identity"})");
  EXPECT_EQ(score(), before) << "which nobody imports";
  // A prompt stands in front of the first text.
  scratch.file("bert-cross-encoder/config_sentence_transformers.json",
               R"({"model_type": "CrossEncoder", "prompts": {"q": "query: "}, "default_prompt_name": "q"})");
  const Encoder encoder = Encoder::load(folder);
  const std::vector<TextPair> written = {{.text = "query: the city", .pair = "paris"}};
  const float prompted = encoder.classify(written, {.prompt_text = ""})[0].score;
  EXPECT_EQ(encoder.classify(pairs)[0].score, prompted);
  EXPECT_EQ(encoder.classify(pairs, {.prompt = "q"})[0].score, prompted);
  EXPECT_NE(encoder.classify(pairs, {.prompt_text = ""})[0].score, prompted);
  EXPECT_CONTAINS(message_of([&] { (void)encoder.classify(pairs, {.prompt = "x"}); }), "a prompt of this model (q)");
}

TEST(HuggingFaceEncoder, SeveralScoresOfARegressionAreThoseOfTheModel) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-classify");
  const std::vector<std::string> texts = {"the city"};
  const std::vector<float> shares = Encoder::load(folder).classify(texts)[0].scores;
  auto config = nlohmann::json::parse(test::contents_of(folder / "config.json"));
  config["problem_type"] = "regression";
  scratch.file("bert-classify/config.json", config.dump());
  const Classification found = Encoder::load(folder).classify(texts)[0];
  double sum = 0;
  for (const float score : found.scores) sum += std::exp(static_cast<double>(score));
  EXPECT_GT(std::abs(sum - 1), 0.01) << "no log probabilities";
  for (size_t c = 0; c < shares.size(); ++c)
    EXPECT_NEAR(std::exp(static_cast<double>(found.scores[c])) / sum, static_cast<double>(shares[c]), 1e-6);
  EXPECT_EQ(found.score, *std::max_element(found.scores.begin(), found.scores.end()));
}

TEST(HuggingFaceEncoder, ClassesOfTokensWithTheirBytes) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-tokens"));
  const std::vector<TokenClass> got = encoder.classify_tokens("  Paris is the citys");
  ASSERT_EQ(got.size(), 5u);
  EXPECT_EQ(got[0].token, "paris");
  EXPECT_EQ(got[0].span, (text::Span{2, 7}));
  EXPECT_EQ(got[4].token, "##s");
  EXPECT_EQ(got[4].span, (text::Span{19, 20}));
  for (const TokenClass& one : got) {
    EXPECT_NE(std::find(encoder.labels().begin(), encoder.labels().end(), one.label), encoder.labels().end());
    EXPECT_GT(one.score, 0.2f);
    EXPECT_LE(one.score, 1.0f);
  }
}

TEST(HuggingFaceEncoder, FillsWhatIsMissing) {
  const Scratch scratch;
  const Encoder encoder = Encoder::load(with_words(scratch, "bert-masked"));
  EXPECT_EQ(encoder.mask_token(), "[MASK]");
  const auto got = encoder.fill("[MASK] is the [MASK] of france", {.count = 3});
  ASSERT_EQ(got.size(), 2u);
  ASSERT_EQ(got[1].size(), 3u);
  const std::vector<int32_t> ids = {2, 4, 6, 7, 4, 9, 10, 3}, types(8);
  const int32_t count = 8;
  const Tensor logits = encoder.model()
                            .forward(Tensor::from(std::span<const int32_t>(ids), {1, 8}),
                                     Tensor::from(std::span<const int32_t>(&count, 1), {1}),
                                     Tensor::from(std::span<const int32_t>(types), {1, 8}))
                            .data();
  double sum = 0;
  int64_t best = 0;
  for (int64_t v = 0; v < logits.size(2); ++v) sum += std::exp(logits.at({0, 4, v}));
  for (int64_t v = 1; v < 16; ++v) best = logits.at({0, 4, v}) > logits.at({0, 4, best}) ? v : best;
  EXPECT_EQ(got[1][0].id, best);
  EXPECT_EQ(encoder.tokenizer().piece(got[1][0].id).find(got[1][0].token), 0u);
  EXPECT_NEAR(static_cast<double>(got[1][0].probability), std::exp(logits.at({0, 4, best})) / sum, 1e-6);
  EXPECT_GE(got[1][0].probability, got[1][1].probability);
  EXPECT_EQ(encoder.fill("[MASK]", {.count = 100}).at(0).size(), 16u);
  EXPECT_CONTAINS(message_of([&] { (void)encoder.fill("paris"); }), "a text with [MASK]");
  EXPECT_CONTAINS(message_of([&] { (void)encoder.classify(std::vector<std::string>{"a"}); }),
                  "a model that tells classes of texts; found a model that guesses masked tokens");
}

// The row that a training of heed adds for its mask is behind the tokenizer's tokens; any other is a token of a text.
TEST(HuggingFaceEncoder, NoTokenOfAVocabularyIsTakenForHeedsOwnMask) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "bert-masked");
  std::string vocabulary = io::read_file(folder / "vocab.txt");
  vocabulary.replace(vocabulary.find("[MASK]"), 6, "nomask");
  scratch.file("bert-masked/vocab.txt", vocabulary);
  auto config = nlohmann::json::parse(test::contents_of(folder / "config.json"));
  config["mask_token_id"] = 9;
  scratch.file("bert-masked/config.json", config.dump());
  const Encoder encoder = Encoder::load(folder);
  EXPECT_EQ(encoder.mask_token(), "");
  EXPECT_CONTAINS(message_of([&] { (void)encoder.fill("paris [MASK]"); }), "a tokenizer with [MASK] or <mask>");
}

// MPNet's vocabulary is BERT's with four tokens in front and <mask> behind: [MASK] is a word of it.
TEST(HuggingFaceEncoder, TheMaskIsTheTokenThatATextCanName) {
  const Scratch scratch;
  const fs::path folder = with_words(scratch, "mpnet-masked");
  scratch.file("mpnet-masked/vocab.txt", "<s>\n<pad>\n</s>\n<unk>\n[UNK]\n[MASK]\nparis\nis\nthe\ncapital\n<mask>\n");
  const Encoder encoder = Encoder::load(folder);
  EXPECT_EQ(encoder.mask_token(), "<mask>");
  EXPECT_EQ(encoder.fill("paris is the <mask>", {.count = 2}).at(0).size(), 2u);
  EXPECT_EQ(encoder.record("the <mask>").source_tokens, (std::vector<std::string>{"<s>", "the", "<mask>", "</s>"}));
}

// all-MiniLM-L6-v2 against what two other engines compute. Both use the tanh form of GELU where config.json asks for
// the exact one.
TEST(MiniLM, GivesWhatOtherEnginesGive) {
  const char* const given = std::getenv("HEED_MINILM");
  if (given == nullptr || *given == '\0')
    GTEST_SKIP() << "HEED_MINILM does not name a folder of sentence-transformers/all-MiniLM-L6-v2";
  const fs::path reference_file = test::shared_data("minilm/reference_embeddings.json");
  if (!fs::exists(reference_file)) GTEST_SKIP() << reference_file << " is not there";
  const auto reference = nlohmann::json::parse(test::contents_of(reference_file))["third_party"];
  const Encoder encoder = Encoder::load(given);
  double smallest = 1, largest = 0;
  const auto compare = [&](const std::string& text, const nlohmann::json& want) {
    const Tensor got = encoder.embed(std::vector<std::string>{text});
    ASSERT_EQ(got.numel(), std::ssize(want));
    double product = 0, squares = 0, own = 0;
    for (int64_t e = 0; e < got.numel(); ++e) {
      const auto x = static_cast<double>(got.data<float>()[e]), y = want[static_cast<size_t>(e)].get<double>();
      product += x * y;
      squares += y * y;
      own += x * x;
    }
    for (int64_t e = 0; e < got.numel(); ++e)
      largest = std::max(largest, std::abs(static_cast<double>(got.data<float>()[e]) -
                                           want[static_cast<size_t>(e)].get<double>() / std::sqrt(squares)));
    EXPECT_GT(product / std::sqrt(squares * own), 0.99999) << text;
    EXPECT_NEAR(own, 1, 1e-5);
    smallest = std::min(smallest, product / std::sqrt(squares * own));
  };
  for (const auto& [text, vector] : reference["tei"]["mean_pooled_not_normalised"].items()) compare(text, vector);
  compare(reference["ollama"]["text"].get<std::string>(), reference["ollama"]["mean_pooled_l2_normalised"]);
  std::printf("MiniLM: smallest cosine %.8f, largest deviation %.2g\n", smallest, largest);
}

TEST(MiniLM, NoNeighbourChangesABit) {
  const char* const given = std::getenv("HEED_MINILM");
  if (given == nullptr || *given == '\0')
    GTEST_SKIP() << "HEED_MINILM does not name a folder of sentence-transformers/all-MiniLM-L6-v2";
  const Encoder encoder = Encoder::load(given);
  std::vector<std::string> texts;
  for (int i = 0; i < 24; ++i) {
    std::string text;
    for (int word = 0; word <= i * i / 4; ++word) text += "word" + std::to_string(word * 7 % 10) + " ";
    texts.push_back(text);
  }
  const EncoderOptions cut{.text = {.too_long = TooLong::cut}};
  const Tensor alone_each = Tensor::empty({24, 384});
  for (size_t i = 0; i < texts.size(); ++i)
    alone_each.slice(0, static_cast<int64_t>(i), static_cast<int64_t>(i) + 1)
        .copy_from(encoder.embed(std::span(texts).subspan(i, 1), cut));
  std::mt19937 random(5);
  std::vector<size_t> order(texts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (const int64_t batch_tokens : {64, 700, 4096}) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::string> shuffled;
    for (const size_t i : order) shuffled.push_back(texts[i]);
    EncoderOptions options = cut;
    options.batch_tokens = batch_tokens;
    const Tensor got = encoder.embed(shuffled, options);
    for (size_t i = 0; i < order.size(); ++i)
      EXPECT_EQ(std::memcmp(got.data<float>() + i * 384, alone_each.data<float>() + order[i] * 384, 384 * 4), 0)
          << "text " << order[i] << " in batches of " << batch_tokens;
  }
}

}  // namespace
}  // namespace heed
