// Weights that torch.save() wrote, against the same numbers in safetensors.
#include <gtest/gtest.h>

#include <cstring>

#include "base/scratch.h"
#include "heed/io.h"
#include "malformed/pytorch_bytes.h"

namespace heed::io {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::Scratch;

const fs::path kGolden = fs::path(HEED_SOURCE_DIR) / "tests" / "data" / "pytorch";

void expect_same(const Tensors& found, const Tensors& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    const Tensor& other = found.at(name);
    ASSERT_EQ(other.dtype(), tensor.dtype()) << name;
    ASSERT_EQ(other.shape(), tensor.shape()) << name;
    ASSERT_TRUE(other.is_contiguous()) << name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(other.raw()) % static_cast<uintptr_t>(size_of(other.dtype())), 0u) << name;
    EXPECT_EQ(std::memcmp(other.raw(), tensor.raw(), static_cast<size_t>(tensor.nbytes())), 0) << name;
  }
}

// Of both formats: see tools/golden_pytorch.py.
TEST(Pytorch, FilesHaveTheNumbersThatPytorchWrote) {
  const Tensors expected = read_safetensors(kGolden / "values.safetensors").tensors;
  ASSERT_EQ(expected.size(), 17u);
  for (const char* const file : {"zip.bin", "protocol4.bin", "old.bin"}) {
    SCOPED_TRACE(file);
    expect_same(read_pytorch(kGolden / file), expected);
  }
}

TEST(Pytorch, TensorsKeepTheFileAndNeverChangeIt) {
  const Scratch scratch;
  fs::copy(kGolden / "zip.bin", scratch.path());
  const std::string before = test::contents_of(scratch / "zip.bin");
  const Tensors tensors = read_pytorch(scratch / "zip.bin");
  EXPECT_EQ(tensors.at("matrix").raw(), tensors.at("tied").raw()) << "tied weights are one";
  const double first = tensors.at("matrix").at({0, 0});
  fs::rename(scratch / "zip.bin", scratch / "other");
  EXPECT_EQ(tensors.at("matrix").at({0, 0}), first);
  tensors.at("matrix").zero();
  EXPECT_EQ(test::contents_of(scratch / "other"), before);
}

class PytorchFolder : public ::testing::Test {
 protected:
  static std::string file(const std::string& name, float number) {
    namespace bytes = malformed::pytorch;
    return bytes::old_file(bytes::table({{name, bytes::tensor(bytes::reference({.numbers = 1}), {1}, {1})}}),
                           {{"0", malformed::bytes_of(number)}});
  }
  const Scratch scratch_;
};

TEST_F(PytorchFolder, IsReadWhereThatIsAllowed) {
  scratch_.file("pytorch_model.bin", file("a", 3));
  expect_error([&] { (void)read_weights(scratch_.path()); },
               "weights in model.safetensors; found pytorch_model.bin, PyTorch's older format. This writes them anew: "
               "heed convert MODEL NEW_FOLDER");
  {
    const PytorchAllowed outer;
    {
      const PytorchAllowed inner;
      EXPECT_EQ(read_weights(scratch_.path()).tensors.at("a").at({0}), 3);
    }
    EXPECT_EQ(read_weights(scratch_.path()).tensors.at("a").at({0}), 3);
    // The newer format goes first.
    write_safetensors(scratch_ / "model.safetensors", {{"a", Tensor::from({4}, {1})}});
    EXPECT_EQ(read_weights(scratch_.path()).tensors.at("a").at({0}), 4);
    fs::remove(scratch_ / "model.safetensors");
  }
  expect_error([&] { (void)read_weights(scratch_.path()); }, "found pytorch_model.bin");
}

TEST_F(PytorchFolder, MayHaveShards) {
  scratch_.file("pytorch_model-00001-of-00002.bin", file("a", 3));
  scratch_.file("pytorch_model-00002-of-00002.bin", file("b", 5));
  scratch_.file("pytorch_model.bin.index.json", R"({"metadata": {"total_size": 8}, "weight_map": {"a":
      "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}})");
  expect_error([&] { (void)read_weights(scratch_.path()); }, "found pytorch_model.bin.index.json");
  const PytorchAllowed allowed;
  const Tensors read = read_weights(scratch_.path()).tensors;
  EXPECT_EQ(read.size(), 2u);
  EXPECT_EQ(read.at("b").at({0}), 5);
  scratch_.file("pytorch_model-00002-of-00002.bin", file("c", 5));
  expect_error([&] { (void)read_weights(scratch_.path()); }, "only tensors that pytorch_model.bin.index.json says");
  // No shard of the other format.
  scratch_.file("pytorch_model.bin.index.json", R"({"weight_map": {"a": "model-00001-of-00001.safetensors"}})");
  expect_error([&] { (void)read_weights(scratch_.path()); }, "the name of a .bin file of this folder");
}

}  // namespace
}  // namespace heed::io
