// Model folders: saved and loaded bit by bit; everything wrong with them is said.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <tuple>

#include "base/message.h"
#include "base/scratch.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/memory.h"
#include "models/helpers.h"

namespace heed::models::test {
namespace {

using testing::message_of;

TEST(Folders, OfOthersNameTheirFamily) {
  const heed::test::Scratch scratch;
  const auto expect = [&](std::string_view what) {
    heed::test::expect_error([&] { (void)load(scratch.path()); }, what);
    heed::test::expect_error([&] { (void)read_config(scratch.path()); }, what);
  };
  scratch.file("config.json", R"({"hidden_size": 8})");
  expect("found no model.safetensors there");
  scratch.file("pytorch_model.bin", "");
  expect("config.json: the key \"model_type\", as Hugging Face writes it; found none");
}

TEST(Folder, RoundTripKeepsEveryBit) {
  for (const Architecture a : {Architecture::encoder_decoder, Architecture::decoder_only, Architecture::encoder_only}) {
    for (const auto& [name, config] : variants(a)) {
      const TemporaryFolder folder;
      const auto model = create(config, 9);
      shake(*model);
      save(*model, folder / "model");
      const auto loaded = load(folder / "model");
      EXPECT_EQ(to_json(loaded->config()), to_json(config));
      const auto before = model->named_parameters(), after = loaded->named_parameters();
      ASSERT_EQ(before.size(), after.size());
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_EQ(before[i].first, after[i].first);
        EXPECT_TRUE(same_bits(before[i].second.data(), after[i].second.data())) << name << " " << before[i].first;
      }
    }
  }
}

TEST(Folder, LoadsWhatItsArchitectureSays) {
  const TemporaryFolder folder;
  save(*create(small(Architecture::decoder_only)), folder.path());
  EXPECT_NE(dynamic_cast<const Gpt*>(load(folder.path()).get()), nullptr);
  save(*create(small(Architecture::encoder_only)), folder.path());
  EXPECT_NE(dynamic_cast<const Bert*>(load(folder.path()).get()), nullptr);
  save(*create(small(Architecture::encoder_decoder)), folder.path());
  EXPECT_NE(dynamic_cast<const Transformer*>(load(folder.path()).get()), nullptr);
}

TEST(Folder, HalfPrecisionWeightsAreWidened) {
  const TemporaryFolder folder;
  const auto model = create(small(Architecture::decoder_only), 9);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    save(*model, folder.path());
    io::Tensors halved;
    for (const auto& [path, value] : model->named_parameters()) halved[path] = value.data().to(dtype);
    io::write_safetensors(folder / "model.safetensors", halved);
    const auto loaded = load(folder.path());
    for (const auto& [path, value] : loaded->named_parameters()) {
      EXPECT_TRUE(same_bits(value.data(), halved.at(path).to(DType::f32))) << path;
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__)
// KB that this process had in memory at most since `reset`, or 0 where the system does not say.
int64_t most_memory(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << "5";
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kilobytes = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kilobytes;
  }
  return kilobytes;
}

// A file of weights that is mapped counts as memory too while it is read. Weights are packed one by one, and a large
// table that is looked up in is there once.
TEST(Folder, LoadingNeedsTheWeightsAndLittleMore) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 17);  // what is freed goes back to the system at once
  const TemporaryFolder folder;
  Config config = small(Architecture::decoder_only);
  config.target_vocabulary = 10'000;
  config.width = 512;
  config.feed_forward = 2048;
  config.decoder_layers = 6;
  ASSERT_TRUE(config.tie_output);
  int64_t bytes = 0;
  {
    const auto model = create(config);
    save(*model, folder.path());
    bytes = 4 * model->parameter_count();
  }
  const int64_t table = 4 * config.width * config.target_vocabulary;
  const std::tuple<const char*, LoadOptions, int64_t> ways[] = {
      {"rows", {}, bytes},
      {"packed", {.packed = true}, bytes + table},  // while it is packed, one weight is there twice
      {"int8", {.packed = true, .weights = WeightFormat::int8}, bytes / 4 + table}};
  for (const auto& [name, options, expected] : ways) {
    release_cached_memory();
    const int64_t before = most_memory(true);
    const auto model = load(folder.path(), options);
    EXPECT_LT(1024 * (most_memory(false) - before), expected * 115 / 100) << name;
  }
}
#endif

class BadFolder : public ::testing::Test {
 protected:
  BadFolder() {
    save(*create(small(Architecture::decoder_only), 9), folder_.path());
    good_ = io::read_safetensors(weights_);
    good_.metadata.clear();  // with the checksum every change would be refused before it is looked at
  }
  void expect_refused(const std::string& what, const std::vector<std::string>& parts) {
    const std::string message = message_of([&] { (void)load(folder_.path()); });
    EXPECT_NE(message, "") << what;
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << what << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << what;
  }
  void expect_refused(const std::string& what, const std::vector<std::string>& parts,
                      const std::function<void(io::Tensors&)>& change) {
    io::Tensors tensors = good_.tensors;
    change(tensors);
    io::write_safetensors(weights_, tensors);
    expect_refused(what, parts);
  }

  TemporaryFolder folder_;
  std::filesystem::path weights_ = folder_ / "model.safetensors";
  io::SafetensorsFile good_;
};

TEST_F(BadFolder, NamesFileAndTensor) {
  const std::string bias = "decoder.layers.1.self_attention.key.bias", table = "decoder.embedding.tokens.weight";
  const std::string file = "model.safetensors";
  expect_refused("missing tensor", {file, bias, "none"}, [&](io::Tensors& t) { t.erase(bias); });
  expect_refused("unexpected tensor", {file, "stranger"}, [&](io::Tensors& t) { t["stranger"] = Tensor::zeros({2}); });
  expect_refused("wrong shape", {file, bias, "(8)", "(9)"}, [&](io::Tensors& t) { t[bias] = Tensor::zeros({9}); });
  expect_refused("transposed", {file, table, "(11, 8)", "(8, 11)"},
                 [&](io::Tensors& t) { t[table] = t[table].transpose(0, 1).clone(); });
  expect_refused("wrong type", {file, bias, "f32", "i32"},
                 [&](io::Tensors& t) { t[bias] = Tensor::zeros({8}, DType::i32); });
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    expect_refused("not finite", {file, bias, "finite", "element 5"}, [&](io::Tensors& t) {
      t[bias] = t[bias].clone();
      t[bias].data<float>()[5] = bad;
    });
  }
}

TEST_F(BadFolder, NamesTheFile) {
  const std::string whole = io::read_file(weights_), config = io::read_file(folder_ / "config.json");
  io::write_file_atomically(weights_, whole.substr(0, whole.size() - 5));
  expect_refused("truncated", {"model.safetensors"});
  io::write_file_atomically(weights_, "");
  expect_refused("empty", {"model.safetensors"});
  std::filesystem::remove(weights_);
  expect_refused("no weights", {"model.safetensors"});
  io::write_file_atomically(weights_, whole);
  (void)load(folder_.path());
  io::write_file_atomically(folder_ / "config.json", "{\"width\": 8");
  expect_refused("bad JSON", {"config.json", "JSON"});
  std::filesystem::remove(folder_ / "config.json");
  expect_refused("no configuration", {"config.json"});
  EXPECT_NE(message_of([&] { (void)load(folder_ / "nowhere"); }).find("nowhere"), std::string::npos);
  EXPECT_NE(message_of([&] { (void)load(weights_); }).find("a file"), std::string::npos);
}

// A flipped bit is refused, or it was in what says nothing about the weights.
TEST_F(BadFolder, LetsNoFlippedBitIntoAWeight) {
  save(*create(small(Architecture::decoder_only), 9), folder_.path());
  const auto model = load(folder_.path());
  const std::string whole = io::read_file(weights_);
  std::mt19937 random(3);
  int refused = 0;
  for (size_t trial = 0; trial < 500; ++trial) {
    const size_t at = trial < 200 ? trial : random() % whole.size();  // the metadata, then anywhere
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << (random() % 8)));
    std::ofstream(weights_, std::ios::binary) << flipped;
    std::unique_ptr<Model> loaded;
    const std::string message = message_of([&] { loaded = load(folder_.path()); });
    refused += message != "";
    if (loaded == nullptr) {
      EXPECT_NE(message.find("model.safetensors"), std::string::npos) << "byte " << at << ": " << message;
      continue;
    }
    const auto before = model->named_parameters(), after = loaded->named_parameters();
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_TRUE(same_bits(before[i].second.data(), after[i].second.data()))
          << "byte " << at << " " << before[i].first;
    }
  }
  EXPECT_GT(refused, 460);
}

TEST_F(BadFolder, TakesNoMemoryForSizesThatTheWeightsDoNotBearOut) {
  std::string config = io::read_file(folder_ / "config.json");
  const size_t at = config.find("\"feed_forward\": 12");
  ASSERT_NE(at, std::string::npos);
  config.replace(at, 18, "\"feed_forward\": 16777216");
  io::write_file_atomically(folder_ / "config.json", config);
  reset_peak_memory();
  expect_refused("a giant configuration", {"model.safetensors", "parameters"});
  EXPECT_LT(memory_stats().peak_bytes, int64_t{64} << 20);
}

}  // namespace
}  // namespace heed::models::test
