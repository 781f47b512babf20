// CTranslate2's model.bin against the same model in safetensors, which others converted.
#include <gtest/gtest.h>

#include <cstring>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/io.h"

namespace heed::io {
namespace {

using test::Scratch;

TEST(Ctranslate2, HasTheValuesOfTheSameModelInSafetensors) {
  const auto folder = test::test_data("models/aren-transliteration");
  const SafetensorsFile read = read_ctranslate2(folder / "model.bin");
  const Tensors expected = read_safetensors(folder / "model.safetensors").tensors;
  EXPECT_EQ(read.metadata.at("spec"), "TransformerBase");
  EXPECT_EQ(read.metadata.at("revision"), "2");
  ASSERT_EQ(read.tensors.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const Tensor& found = read.tensors.at(name);
    ASSERT_EQ(found.dtype(), tensor.dtype()) << name;
    ASSERT_EQ(found.shape(), tensor.shape()) << name;
    EXPECT_EQ(std::memcmp(found.raw(), tensor.raw(), static_cast<size_t>(tensor.nbytes())), 0) << name;
  }
}

template <class T>
void put_number(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_text(std::string& out, std::string_view text) {
  put_number(out, static_cast<uint16_t>(text.size() + 1));
  out.append(text).push_back('\0');
}

void put_variable(std::string& out, std::string_view name, std::initializer_list<uint32_t> extents, uint8_t type,
                  std::string_view data) {
  put_text(out, name);
  put_number(out, static_cast<uint8_t>(extents.size()));
  for (const uint32_t extent : extents) put_number(out, extent);
  put_number(out, type);
  put_number(out, static_cast<uint32_t>(data.size()));
  out.append(data);
}

TEST(Ctranslate2, MultipliesEightBitsByOneOverTheScaleOfTheirRow) {
  std::string file, scales;
  for (const float scale : {3.0f, 127.0f / 0.7f}) put_number(scales, scale);
  put_number(file, uint32_t{6});
  put_text(file, "TransformerSpec");
  put_number(file, uint32_t{7});
  put_number(file, uint32_t{6});
  put_variable(file, "a/weight", {2, 3}, 1, std::string_view("\x01\x7f\x80\x00\xff\x05", 6));
  put_variable(file, "a/weight_scale", {2}, 0, scales);
  put_variable(file, "heads", {}, 2, std::string_view("\x08\xff", 2));
  put_variable(file, "half", {1}, 4, std::string_view("\x00\x3c", 2));
  put_variable(file, "bf16", {1}, 5, std::string_view("\x80\x3f", 2));
  put_variable(file, "name", {2}, 1, "de");
  put_number(file, uint32_t{1});
  put_text(file, "b/weight");
  put_text(file, "a/weight");
  const Scratch scratch;
  const Tensors read = read_ctranslate2(scratch.file("model.bin", file)).tensors;

  const Tensor& weight = read.at("a/weight");
  ASSERT_EQ(weight.dtype(), DType::f32);
  ASSERT_EQ(weight.shape(), (Shape{2, 3}));
  const float first = 1.0f / 3.0f, second = 1.0f / (127.0f / 0.7f);
  const float expected[] = {first, 127.0f * first, -128.0f * first, 0.0f, -second, 5.0f * second};
  EXPECT_EQ(std::memcmp(weight.raw(), expected, sizeof expected), 0);
  EXPECT_EQ(read.at("b/weight").raw(), weight.raw());  // an alias is the same tensor
  EXPECT_EQ(read.size(), 6u);                          // the scales are used up
  EXPECT_EQ(read.at("heads").at({}), -248);
  EXPECT_EQ(read.at("half").at({0}), 1);
  EXPECT_EQ(read.at("bf16").at({0}), 1);
  EXPECT_EQ(read.at("name").dtype(), DType::i8);
}

}  // namespace
}  // namespace heed::io
