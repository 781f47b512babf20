// Folders of weights as Hugging Face's tools write them, the cache that they keep, and what a mapped file promises.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/mapped_file.h"
#include "base/scratch.h"
#include "heed/io.h"

namespace heed::io {
namespace {

namespace fs = std::filesystem;
using test::contents_of;
using test::expect_error;
using test::Scratch;

TEST(Weights, OfOneFileAndOfShardsAreTheSame) {
  const Scratch scratch;
  const Tensors tensors = {{"a", Tensor::from({1, 2, 3}, {3})},
                           {"b", Tensor::from({4, 5}, {1, 2}).to(DType::bf16)},
                           {"c", Tensor::from({6, 7}, {2}).to(DType::f16)}};
  fs::create_directories(scratch / "one");
  fs::create_directories(scratch / "shards");
  write_safetensors(scratch / "one/model.safetensors", tensors, {{"format", "pt"}});
  write_safetensors(scratch / "shards/model-00001-of-00002.safetensors",
                    {{"a", tensors.at("a")}, {"c", tensors.at("c")}}, {{"format", "pt"}, {"part", "1"}});
  write_safetensors(scratch / "shards/model-00002-of-00002.safetensors", {{"b", tensors.at("b")}},
                    {{"format", "pt"}, {"part", "2"}});
  const auto index =
      scratch.file("shards/model.safetensors.index.json",
                   "{\"metadata\": {\"total_size\": 20}, \"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", "
                   "\"b\": \"model-00002-of-00002.safetensors\", \"c\": \"model-00001-of-00002.safetensors\"}}");
  for (const char* const folder : {"one", "shards"}) {
    const SafetensorsFile read = read_weights(scratch / folder);
    EXPECT_EQ(read.metadata, (std::map<std::string, std::string>{{"format", "pt"}})) << folder;
    ASSERT_EQ(read.tensors.size(), 3u) << folder;
    for (const auto& [name, tensor] : tensors) {
      const Tensor& found = read.tensors.at(name);
      EXPECT_EQ(found.shape(), tensor.shape()) << name;
      ASSERT_EQ(found.dtype(), tensor.dtype()) << name;
      EXPECT_EQ(std::memcmp(found.raw(), tensor.raw(), static_cast<size_t>(tensor.nbytes())), 0) << name;
    }
  }
  fs::remove(scratch / "shards/model-00002-of-00002.safetensors");
  expect_error([&] { (void)read_weights(scratch / "shards"); }, "model-00002-of-00002.safetensors");
  EXPECT_TRUE(fs::exists(index));
}

TEST(Weights, ThatAreNotThereAreRefused) {
  const Scratch scratch;
  expect_error([&] { (void)read_weights(scratch.path()); }, "found neither");
  expect_error([&] { (void)read_weights(scratch / "none"); }, "found nothing");
}

TEST(Weights, OutliveTheNameOfTheirFile) {
  const Scratch scratch;
  const auto file = scratch / "model.safetensors";
  write_safetensors(file, {{"a", Tensor::from({1, 2}, {2})}});
  const Tensor tensor = read_safetensors(file).tensors.at("a");
  write_safetensors(file, {{"a", Tensor::from({3, 4}, {2})}});  // another file of the same name
  EXPECT_EQ(tensor.at({0}), 1);
  fs::remove(file);
  EXPECT_EQ(tensor.at({1}), 2);
}

TEST(Weights, ThatAreWrittenIntoStayInMemory) {
  const Scratch scratch;
  const auto file = scratch / "model.safetensors";
  write_safetensors(file, {{"a", Tensor::from({1, 2}, {2})}});
  const std::string before = contents_of(file);
  const Tensor tensor = read_safetensors(file).tensors.at("a");
  tensor.zero();
  EXPECT_EQ(tensor.at({1}), 0);
  EXPECT_EQ(contents_of(file), before);
  EXPECT_EQ(read_safetensors(file).tensors.at("a").at({1}), 2);
}

TEST(Weights, AreMappedAndNotCopied) {
  const Scratch scratch;
  const auto file = scratch / "model.safetensors";
  write_safetensors(file, {{"a", Tensor::from({1, 2, 3, 4}, {4})}, {"b", Tensor::from({5, 6}, {2})}});
  const Tensors read = read_safetensors(file).tensors;
  // One after the other in the file, so in memory too.
  EXPECT_EQ(static_cast<char*>(read.at("b").raw()) - static_cast<char*>(read.at("a").raw()), 16);
}

// The environment of a user who has a cache.
class Hub : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* const name : kNames) {
      const char* const value = std::getenv(name);
      if (value != nullptr) before_.emplace_back(name, value);
      ::unsetenv(name);
    }
  }
  void TearDown() override {
    for (const char* const name : kNames) ::unsetenv(name);
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  // A cache as `hf download` makes it, with one model.
  [[nodiscard]] fs::path make_cache(const std::string& name) const {
    const fs::path cache = scratch_ / name, model = cache / "models--org--name";
    fs::create_directories(model / "refs");
    fs::create_directories(model / "blobs");
    fs::create_directories(model / "snapshots" / kCommit);
    std::ofstream(model / "refs/main") << kCommit;
    write_safetensors(model / "blobs/1234", {{"a", Tensor::from({1, 2}, {2})}});
    fs::create_symlink("../../blobs/1234", model / "snapshots" / kCommit / "model.safetensors");
    return cache;
  }

  static constexpr const char* kNames[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME",
                                           "HOME"};
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
  Scratch scratch_;
  std::vector<std::pair<std::string, std::string>> before_;
};

TEST_F(Hub, ModelsAreFoundWhereTheToolsKeepThem) {
  const std::pair<const char*, const char*> places[] = {{"HOME", ".cache/huggingface/hub"},
                                                        {"XDG_CACHE_HOME", "huggingface/hub"},
                                                        {"HF_HOME", "hub"},
                                                        {"HUGGINGFACE_HUB_CACHE", ""},
                                                        {"HF_HUB_CACHE", ""}};
  for (const auto& [variable, below] : places) {  // each is asked before those in front of it
    const fs::path root = scratch_ / variable;
    const fs::path cache = make_cache((fs::path(variable) / below).string());
    ::setenv(variable, root.c_str(), 1);
    const fs::path found = find_model_folder("org/name");
    EXPECT_TRUE(fs::equivalent(found, cache / "models--org--name/snapshots" / kCommit)) << variable << ": " << found;
    EXPECT_EQ(read_weights(found).tensors.at("a").at({1}), 2);
  }
  ::setenv("HOME", scratch_.path().c_str(), 1);
  ::setenv("HF_HUB_CACHE", "~/HF_HUB_CACHE", 1);
  EXPECT_TRUE(fs::exists(find_model_folder("org/name")));
}

TEST_F(Hub, AFolderThatIsThereWins) { EXPECT_EQ(find_model_folder(scratch_.path().string()), scratch_.path()); }

TEST_F(Hub, WhatIsNotThereComesWithTheCommandThatDownloadsIt) {
  expect_error([] { (void)find_model_folder("org/name"); }, "hf download org/name");
  const fs::path cache = make_cache("cache");
  ::setenv("HF_HUB_CACHE", cache.c_str(), 1);
  expect_error([] { (void)find_model_folder("org/other"); }, "Download it with: hf download org/other");
  expect_error([] { (void)find_model_folder("all-MiniLM-L6-v2"); },
               "hf download all-MiniLM-L6-v2 (or ORG/all-MiniLM-L6-v2, if it belongs to an organisation");
  fs::remove_all(cache / "models--org--name/snapshots");
  expect_error([] { (void)find_model_folder("org/name"); }, "hf download org/name");
  for (const char* const commit : {"", "main", "../../..", "0123456789ABCDEF0123456789abcdef01234567"}) {
    std::ofstream(cache / "models--org--name/refs/main") << commit;
    expect_error([] { (void)find_model_folder("org/name"); }, "40 hexadecimal digits");
  }
  for (const char* const name :
       {"", "/none", "a/b/c", "../x", "org/..", "org/", "/name", "a--b/c", "org/na me", "org/name\n", "~/model"}) {
    expect_error([&] { (void)find_model_folder(name); }, "a model folder at ");
  }
}

}  // namespace
}  // namespace heed::io
