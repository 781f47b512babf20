// safetensors: what others wrote loads, what is malformed is refused with a message, and nothing crashes in between.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/data.h"
#include "base/scratch.h"
#include "heed/io.h"

namespace heed::io {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;

std::string with_header(std::string_view header, std::string_view data = {}) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file.append(header).append(data);
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "{\"a\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}}";
}

TEST(Safetensors, WritesWhatItReads) {
  const Scratch scratch;
  Tensors tensors;
  tensors["f32"] = Tensor::from({1.5f, -2, 3, 4, 5, 6}, {2, 3});
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean}) {
    tensors[std::string(to_string(dtype))] = Tensor::from({1, 0, 1}, {3}).to(dtype);
  }
  tensors["transposed"] = Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1);
  tensors["empty"] = Tensor::zeros({0, 5});
  tensors["scalar"] = Tensor::full({}, 7);
  tensors["name \"\\ \n ü 中 </script>"] = Tensor::full({1}, 8);
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"note", "a \"quoted\" line\n"}};
  const auto file = scratch / "x.safetensors";
  write_safetensors(file, tensors, metadata);
  const SafetensorsFile read = read_safetensors(file);
  EXPECT_EQ(read.metadata, metadata);
  ASSERT_EQ(read.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor& found = read.tensors.at(name);
    ASSERT_EQ(found.dtype(), tensor.dtype()) << name;
    ASSERT_EQ(found.shape(), tensor.shape()) << name;
    const Tensor flat = tensor.contiguous();
    EXPECT_EQ(std::memcmp(found.raw(), flat.raw(), static_cast<size_t>(flat.nbytes())), 0) << name;
  }
  EXPECT_EQ(scratch.count(), 1);
  // The data begins at a multiple of 8, and the same tensors give the same bytes.
  const std::string bytes = contents_of(file);
  EXPECT_EQ(static_cast<uint8_t>(bytes[0]) % 8, 0);
  write_safetensors(scratch / "y.safetensors", tensors, metadata);
  EXPECT_EQ(contents_of(scratch / "y.safetensors"), bytes);
}

// "what must load" is the reference implementation's opinion, in cases.tsv.
TEST(Safetensors, AgreesWithTheReferenceOnItsCases) {
  const auto folder = test::test_data("safetensors");
  std::ifstream cases(folder / "cases.tsv");
  int good = 0, bad = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, line.find('\t'));
    if (line.substr(line.find('\t') + 1) == "ok") {
      EXPECT_NO_THROW((void)read_safetensors(folder / name)) << name;
      ++good;
    } else {
      EXPECT_THROW((void)read_safetensors(folder / name), Error) << name;
      ++bad;
    }
  }
  EXPECT_EQ(good, 6);
  EXPECT_EQ(bad, 9);
}

TEST(Safetensors, ReadsARealModel) {
  const auto file = test::test_data("models/aren-transliteration/model.safetensors");
  EXPECT_GT(read_safetensors(file).tensors.size(), 100u);
}

TEST(Safetensors, SaysWhatIsWrong) {
  const Scratch scratch;
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "at least 8 bytes; found 0"},
      {"1234567", "at least 8 bytes; found 7"},
      {with_header(""), "in JSON"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "18446744073709551615"},
      {std::string("\x03\0\0\0\0\0\0\0{}", 10), "the first 8 bytes say 3"},
      {with_header("[]"), "no array here"},
      {with_header("null"), "without null"},
      {with_header("{\"a\":"), "in JSON and UTF-8"},
      {with_header("{} x"), "in JSON and UTF-8"},
      {with_header(std::string(100000, '[')), "no array here"},
      {with_header("{\"a\":{\"b\":{}}}"), "only dtype, shape and data_offsets"},
      {with_header("{\"a\":{\"dtype\":{}}}"), "no object here"},
      {with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}"), "dtype, shape and data_offsets"},
      {with_header("{\"__metadata__\":{\"a\":1}}"), "no number here"},
      {with_header("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}"), "every key once"},
      {with_header(entry("F32", "[1]", "[0,4]"), "123"), "it ends at byte 4"},
      {with_header(entry("F32", "[1]", "[0,4]"), "12345"), "cover all 5 bytes"},
      {with_header(entry("F32", "[1]", "[1,5]"), "12345"), "begin at byte 0"},
      {with_header(entry("F32", "[2]", "[0,4]"), "1234"), "to have 8 bytes"},
      {with_header(entry("F32", "[1]", "[4,0]"), "1234"), "data_offsets"},
      {with_header(entry("F32", "[1]", "[0]"), "1234"), "with two numbers"},
      {with_header(entry("F32", "[-1]", "[0,4]"), "1234"), "a negative number"},
      {with_header(entry("F32", "[1.0]", "[0,4]"), "1234"), "a fraction"},
      {with_header(entry("F32", "[18446744073709551616]", "[0,4]"), "1234"), "a fraction or a number beyond"},
      {with_header(entry("F32", "[9223372036854775808]", "[0,4]"), "1234"), "below 2^63"},
      {with_header(entry("F32", "[4294967296,4294967296,0]", "[0,0]")), "fewer than 2^63 bytes"},
      {with_header(entry("F32", "[0,4611686018427387904,4]", "[0,0]")), "fewer than 2^63 bytes"},
      {with_header(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234"), "at most 8 axes"},
      {with_header(entry("F8_E4M3", "[4]", "[0,4]"), "1234"), "of dtype F32"},
      {with_header(entry("f32", "[1]", "[0,4]"), "1234"), "of dtype F32"},
      {with_header(entry("BOOL", "[4]", "[0,4]"), std::string_view("\0\1\2\0", 4)), "bytes 0 and 1"},
      {with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                   "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}"),
       "every name once"},
      {with_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                   "123"),
       "begin at byte 1"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "found a pointer of Git LFS"},
  };
  for (const auto& c : cases) {
    expect_error([&] { (void)read_safetensors(scratch.file("x.safetensors", c.file)); }, c.message);
    expect_error([&] { (void)read_safetensors(scratch / "x.safetensors"); }, "x.safetensors\"");
  }
  expect_error([&] { (void)read_safetensors(scratch / "none.safetensors"); }, "No such file");
}

TEST(Safetensors, HeaderMayBePaddedAndTensorsUnsorted) {
  const Scratch scratch;
  const std::string header =
      "  {\"b\":{\"shape\":[1],\"data_offsets\":[1,5],\"dtype\":\"F32\"},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}   ";
  const auto read =
      read_safetensors(scratch.file("x.safetensors", with_header(header, std::string_view("\x07\0\0\x80\x3f", 5))));
  EXPECT_EQ(read.tensors.at("a").at({0}), 7);
  EXPECT_EQ(read.tensors.at("b").at({0}), 1);  // not aligned in the file, aligned in memory
}

TEST(Safetensors, ReadsOrRefusesEveryPrefixAndEveryFlippedBit) {
  const Scratch scratch;
  Tensors tensors = {{"weight", Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3})},
                     {"mask", Tensor::zeros({3}, DType::boolean)},
                     {"ids", Tensor::zeros({2}, DType::i64)}};
  write_safetensors(scratch / "seed", tensors, {{"format", "pt"}});
  const std::string whole = contents_of(scratch / "seed");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THROW((void)read_safetensors(scratch.file("x", whole.substr(0, size))), Error) << size;
  }
  EXPECT_THROW((void)read_safetensors(scratch.file("x", whole + '\0')), Error);
  int refused = 0, read = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const SafetensorsFile found = read_safetensors(scratch.file("x", bytes));
      for (const auto& [name, tensor] : found.tensors) EXPECT_LE(tensor.nbytes(), static_cast<int64_t>(whole.size()));
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  };
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    attempt(damaged);
  }
  std::mt19937 random(7);
  const std::string_view interesting = "{}[]\":,0123456789-eE.\\u \xff\x80";
  for (int i = 0; i < 4000; ++i) {
    std::string damaged = whole;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      damaged[8 + random() % (damaged.size() - 8)] = interesting[random() % interesting.size()];
    }
    attempt(damaged);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace heed::io
