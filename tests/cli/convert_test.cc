// heed convert: the same translations from the converted folder.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "heed/io.h"
#include "malformed/pytorch_bytes.h"
#include "pipelines/hugging_face.h"

namespace heed::cli::test {
namespace {

const std::string kShipped = (fs::path(HEED_SOURCE_DIR) / "demo" / "en-zh").string();
const std::string kSentences = read(fs::path(HEED_SOURCE_DIR) / "demo" / "sentences.txt");

std::string translations(const std::string& model) {
  const Result r = run({"translate", model}, {.input = kSentences});
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

TEST(Convert, TheLayoutOfHuggingFaceKeepsTheTranslations) {
  const Folder folder;
  const std::string marian = (folder / "marian").string(), again = (folder / "again").string();
  const Result r = run({"convert", kShipped, marian, "--layout", "huggingface"});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(nlohmann::json::parse(read(fs::path(marian) / "config.json"))["model_type"], "marian");
  EXPECT_EQ(translations(marian), translations(kShipped));
  // Written once more it has the same bytes.
  ASSERT_EQ(run({"convert", marian, again}).status, 0);
  for (const char* const file : {"config.json", "generation_config.json", "model.safetensors", "source.spm",
                                 "target.spm", "vocab.json", "target_vocab.json", "tokenizer_config.json"}) {
    EXPECT_EQ(read(fs::path(marian) / file), read(fs::path(again) / file)) << file;
  }
}

// What makes a vector of the states goes along, from folders beside the model too.
TEST(Convert, SentenceModelsKeepTheirModules) {
  for (const char* const name : {"st-mean", "st-cls-dense"}) {
    const heed::test::Scratch scratch;
    const std::string from = heed::test::with_words(scratch, name).string(), to = (scratch / "converted").string();
    scratch.file(std::string(name) + "/README.md", "---\nlicense: mit\n---\n");
    const Result r = run({"convert", from, to});
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(read(fs::path(to) / "README.md"), read(fs::path(from) / "README.md")) << "the licence";
    const Result expected = run({"embed", from, "Paris is a city", "--json"});
    ASSERT_EQ(expected.status, 0) << expected.err;
    EXPECT_EQ(run({"embed", to, "Paris is a city", "--json"}).out, expected.out) << name;
  }
}

// model.safetensors of a folder as PyTorch's older format.
void make_older(const fs::path& folder) {
  namespace bytes = heed::malformed::pytorch;
  std::vector<std::pair<std::string, std::string>> entries, storages;
  for (const auto& [name, tensor] : io::read_safetensors(folder / "model.safetensors").tensors) {
    const bool longs = tensor.dtype() == DType::i64;
    const bytes::Storage storage{
        .type = longs ? "LongStorage" : "FloatStorage", .key = name, .numbers = tensor.numel()};
    const std::vector<int64_t> extents(tensor.shape().begin(), tensor.shape().end());
    const std::vector<int64_t> strides(tensor.strides().begin(), tensor.strides().end());
    entries.emplace_back(name, bytes::tensor(bytes::reference(storage), extents, strides));
    storages.emplace_back(name,
                          std::string(static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.nbytes())));
  }
  std::ofstream(folder / "pytorch_model.bin", std::ios::binary)
      << bytes::zip_file(bytes::table(entries), storages).bytes;
  fs::remove(folder / "model.safetensors");
}

// The names of Hugging Face's first models are one word.
TEST(Convert, FindsNamesOfOneWordInTheCache) {
  const heed::test::Scratch scratch;
  const std::string commit(40, 'a');
  const fs::path model = scratch / "hub/models--bert";
  fs::create_directories(model / "refs");
  fs::create_directories(model / "snapshots");
  std::ofstream(model / "refs/main") << commit;
  fs::rename(heed::test::with_words(scratch, "bert-model"), model / "snapshots" / commit);
  const Setting cache{.environment = {"HF_HUB_CACHE=" + (scratch / "hub").string()}};
  const Result info = run({"info", "bert"}, cache);
  EXPECT_EQ(info.status, 0) << info.err;
  EXPECT_NE(info.out.find("family              bert"), std::string::npos) << info.out;
  EXPECT_EQ(run({"convert", "bert", (scratch / "new").string()}, cache).status, 0);
}

TEST(Convert, ReadsTheOlderWeightsOfPytorch) {
  const heed::test::Scratch scratch;
  const fs::path from = heed::test::with_words(scratch, "st-cls-dense"), to = scratch / "converted";
  const Result expected = run({"embed", from.string(), "Paris is a city", "--json"});
  ASSERT_EQ(expected.status, 0) << expected.err;
  make_older(from);
  make_older(from / "2_Dense");
  const Result refused = run({"embed", from.string(), "Paris is a city"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("heed convert MODEL NEW_FOLDER"), std::string::npos) << refused.err;
  const Result r = run({"convert", from.string(), to.string()});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(run({"embed", to.string(), "Paris is a city", "--json"}).out, expected.out);
  EXPECT_FALSE(fs::exists(to / "pytorch_model.bin"));
  // Where both formats are there, safetensors are read and counted.
  std::ofstream(to / "pytorch_model.bin", std::ios::binary) << std::string(3'000'000, 'x');
  const Result both = run({"convert", to.string(), (scratch / "again").string()});
  EXPECT_NE(both.err.find("weights of 0.0 MB, 0.0 MB before"), std::string::npos) << both.err;
}

TEST(Convert, Int8GivesTheBitsOfRoundingWhenLoaded) {
  const Folder folder;
  const std::string int8 = (folder / "int8").string();
  ASSERT_EQ(run({"convert", kShipped, int8, "--weights", "int8"}).status, 0);
  EXPECT_EQ(translations(int8), run({"translate", kShipped, "--weights", "int8"}, {.input = kSentences}).out);
  EXPECT_LT(fs::file_size(fs::path(int8) / "model.safetensors"),
            fs::file_size(fs::path(kShipped) / "model.safetensors"));
  const Result again = run({"convert", int8, (folder / "again").string()});
  EXPECT_EQ(again.status, 0);
  EXPECT_NE(again.err.find("the weights were in int8 before, and stay so"), std::string::npos) << again.err;
  const Result plain = run({"convert", kShipped, (folder / "plain").string()});
  EXPECT_EQ(plain.err.find("in int8"), std::string::npos) << plain.err;
}

TEST(Convert, RefusesWhatCannotBe) {
  const Folder folder;
  const std::string out = (folder / "out").string();
  EXPECT_EQ(run({"convert", kShipped, kShipped}).status, 2);
  EXPECT_EQ(run({"convert", kShipped, out, "--weights", "int8", "--layout", "huggingface"}).status, 2);
  fs::copy(fs::path(HEED_SOURCE_DIR) / "demo" / "shakespeare", folder / "decoder");
  const std::string decoder = (folder / "decoder").string();
  auto config = nlohmann::json::parse(read(folder / "decoder" / "config.json"));
  config["activation"] = "relu";
  (void)folder.write("decoder/config.json", config.dump());
  const Result other = run({"convert", decoder, out, "--layout", "huggingface"});
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("feed_forward of 4 width and gelu, as an MPT has"), std::string::npos) << other.err;
  EXPECT_FALSE(fs::exists(fs::path(out) / "config.json"));
  fs::create_directory(folder / "full");
  (void)folder.write("full/file", "x");
  EXPECT_EQ(run({"convert", kShipped, (folder / "full").string()}).status, 2);
}

}  // namespace
}  // namespace heed::cli::test
