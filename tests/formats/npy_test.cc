// .npy and .npz: NumPy's own files load, ours are what NumPy reads, and damage is an Error.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <random>

#include "base/scratch.h"
#include "formats/numpy_files.h"
#include "heed/io.h"

namespace heed::io {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;

void expect_plain(const Tensor& tensor) {
  ASSERT_EQ(tensor.shape(), Shape({2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) EXPECT_EQ(tensor.at({i, j}), 0.5 * static_cast<double>(3 * i + j)) << i << j;
  }
}

std::string with_dictionary(const std::string& dictionary, std::string_view data = {}) {
  std::string file("\x93NUMPY\x01\0", 8);
  file += {static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return (file + dictionary).append(data);
}

TEST(Npy, ReadsWhatNumPyWrote) {
  const Scratch scratch;
  const Tensor plain = read_npy(scratch.file("a.npy", test::kPlain));
  EXPECT_EQ(plain.dtype(), DType::f32);
  expect_plain(plain);
  const Tensor fortran = read_npy(scratch.file("a.npy", test::kFortran));
  EXPECT_EQ(fortran.dtype(), DType::f64);
  EXPECT_EQ(fortran.strides(), Shape({1, 2}));
  expect_plain(fortran);
  const Tensor version2 = read_npy(scratch.file("a.npy", test::kVersion2));
  EXPECT_EQ(version2.dtype(), DType::i32);
  EXPECT_EQ(version2.at({1, 2}), 2);
  const Tensor booleans = read_npy(scratch.file("a.npy", test::kBooleans));
  EXPECT_EQ(booleans.dtype(), DType::boolean);
  EXPECT_TRUE(booleans.data<bool>()[0] && !booleans.data<bool>()[1] && booleans.data<bool>()[2]);
  const Tensor scalar = read_npy(scratch.file("a.npy", test::kScalar));
  EXPECT_EQ(scalar.dtype(), DType::f16);
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.at({}), 2.5);
}

TEST(Npy, WritesNumPysBytes) {
  const Scratch scratch;
  write_npy(scratch / "a.npy", read_npy(scratch.file("b.npy", test::kPlain)));
  // NumPy pads for its own reasons to 128 bytes as well: the files are equal.
  EXPECT_EQ(contents_of(scratch / "a.npy"), test::kPlain);
  for (const std::string& file : {test::kBooleans, test::kScalar}) {
    write_npy(scratch / "a.npy", read_npy(scratch.file("b.npy", file)));
    EXPECT_EQ(contents_of(scratch / "a.npy"), file);
  }
  write_npy(scratch / "a.npy", Tensor::from({1, 2}, {2}).to(DType::bf16));  // NumPy has no bfloat16
  EXPECT_EQ(read_npy(scratch / "a.npy").dtype(), DType::f32);
  write_npy(scratch / "a.npy", read_npy(scratch.file("b.npy", test::kFortran)));
  EXPECT_TRUE(read_npy(scratch / "a.npy").is_contiguous());
  expect_plain(read_npy(scratch / "a.npy"));
}

TEST(Npy, SaysWhatIsWrong) {
  const Scratch scratch;
  const struct {
    std::string file;
    const char* message;
  } cases[] = {
      {"", "begins with \\x93NUMPY"},
      {"PK\x03\x04", "begins with \\x93NUMPY"},
      {std::string("\x93NUMPY\x04\0", 8), "version 1.0, 2.0 or 3.0; found 4.0"},
      {std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12), "at most 65536 bytes"},
      {std::string("\x93NUMPY\x01\0\xff\x0f", 10), "more bytes; 0 are left"},
      {test::kObjects, "dtype=object is refused"},
      {test::kBigEndian, "little-endian"},
      {test::kRecord, "not a record"},
      {test::kPlain.substr(0, test::kPlain.size() - 1), "24 bytes of elements for shape (2, 3); found 23"},
      {test::kPlain + "x", "24 bytes of elements for shape (2, 3); found 25"},
      {with_dictionary("{'descr': '<c8', 'fortran_order': False, 'shape': ()}"), "a descr of f4"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}"), "True or False"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False}"), "the keys"},
      {with_dictionary("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}"), "every key once"},
      {with_dictionary("{'descr': '<f4', 'x': 1, 'fortran_order': False, 'shape': ()}"), "only the keys"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "not negative"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (3)}"), "a tuple"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (1,2,3,4,5,6,7,8,9)}"), "at most 8 axes"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "below 2^63"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296,0)}"), "2^63 bytes"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}"), "4000000000 bytes"},
      {with_dictionary("{'descr': '<f4', 'fortran_order': False, 'shape': ()} import os"), "nothing after"},
      {with_dictionary("__import__('os').system('true')"), "{ at byte 0"},
      {with_dictionary("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", "\x01\x02"), "booleans 0 and 1"},
  };
  for (const auto& c : cases) {
    expect_error([&] { (void)read_npy(scratch.file("x.npy", c.file)); }, c.message);
    expect_error([&] { (void)read_npy(scratch / "x.npy"); }, "x.npy\"");
  }
}

TEST(Npz, ReadsWhatNumPyWrote) {
  const Scratch scratch;
  const Tensors stored = read_npz(scratch.file("a.npz", test::kStored));
  ASSERT_EQ(stored.size(), 2u);
  expect_plain(stored.at("q"));
  EXPECT_EQ(stored.at("k").dtype(), DType::i64);
  EXPECT_EQ(stored.at("k").at({3}), 3);
  const Tensors deflated = read_npz(scratch.file("a.npz", test::kDeflated));
  expect_plain(deflated.at("q"));
  EXPECT_EQ(deflated.at("zeros").shape(), Shape({50, 50}));
  EXPECT_EQ(deflated.at("zeros").at({49, 49}), 0);
}

TEST(Npz, WritesWhatItReads) {
  const Scratch scratch;
  const Tensors tensors = {{"q", Tensor::from({1, 2, 3, 4, 5, 6}, {2, 3})},
                           {"a/../b ü", Tensor::full({}, 3)},
                           {"empty", Tensor::zeros({0, 2}, DType::i64)},
                           {"t", Tensor::from({1, 2, 3, 4}, {2, 2}).transpose(0, 1)}};
  write_npz(scratch / "a.npz", tensors);
  const Tensors read = read_arrays(scratch / "a.npz");
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_EQ(read.at(name).shape(), tensor.shape()) << name;
    const Tensor flat = tensor.contiguous();
    EXPECT_EQ(std::memcmp(read.at(name).raw(), flat.raw(), static_cast<size_t>(flat.nbytes())), 0) << name;
  }
  write_npz(scratch / "none.npz", {});
  EXPECT_TRUE(read_npz(scratch / "none.npz").empty());
  EXPECT_EQ(scratch.count(), 2);
}

TEST(Npz, ReadsOrRefusesEveryPrefixAndEveryFlippedBit) {
  const Scratch scratch;
  for (const std::string& whole : {test::kStored, test::kDeflated}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW((void)read_npz(scratch.file("x.npz", whole.substr(0, size))), Error) << size;
    }
    int refused = 0;
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string damaged = whole;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      try {
        for (const auto& [name, tensor] : read_npz(scratch.file("x.npz", damaged))) EXPECT_LE(tensor.nbytes(), 10000);
      } catch (const Error&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 1000);
  }
}

TEST(Npz, RefusesBombsAndTricks) {
  const Scratch scratch;
  const auto damaged = [&](size_t at, std::string_view bytes) {
    std::string file = test::kDeflated;
    file.replace(at, bytes.size(), bytes);
    return scratch.file("x.npz", file);
  };
  const size_t directory = test::kDeflated.find("PK\x01\x02");
  ASSERT_NE(directory, std::string::npos);
  expect_error([&] { (void)read_npz(damaged(directory + 24, std::string_view("\0\0\0\x70", 4))); },
               "sizes that are possible");
  expect_error([&] { (void)read_npz(damaged(directory + 24, std::string_view("\x99\0\0\0", 4))); },
               "the data is shorter");
  expect_error([&] { (void)read_npz(damaged(directory + 24, std::string_view("\x97\0\0\0", 4))); }, "there is more");
  expect_error([&] { (void)read_npz(damaged(directory + 8, std::string_view("\x01", 1))); }, "not encrypted");
  expect_error([&] { (void)read_npz(damaged(directory + 10, std::string_view("\x0c", 1))); }, "stored or deflated");
  expect_error([&] { (void)read_npz(damaged(directory + 46, "x")); }, "the same name");
  // Both members on the first one's bytes: an overlapping bomb.
  const size_t second = test::kDeflated.find("PK\x01\x02", directory + 1);
  expect_error([&] { (void)read_npz(damaged(second + 42, std::string_view("\0\0\0\0", 4))); }, "do not overlap");
  expect_error([&] { (void)read_npz(scratch.file("x.npz", test::kPlain)); }, "zip");
}

TEST(ReadArrays, GoesByTheEnding) {
  const Scratch scratch;
  expect_plain(read_arrays(scratch.file("a.npy", test::kPlain)).at("array"));
  write_safetensors(scratch / "a.safetensors", {{"x", Tensor::full({1}, 2)}});
  EXPECT_EQ(read_arrays(scratch / "a.safetensors").at("x").at({0}), 2);
  expect_error([&] { (void)read_arrays(scratch / "a.txt"); }, ".safetensors, .npz or .npy");
}

TEST(ReadFile, ReadsAndWritesWhole) {
  const Scratch scratch;
  write_file_atomically(scratch / "f", std::string_view("a\0b", 3));
  EXPECT_EQ(read_file(scratch / "f"), std::string("a\0b", 3));
  expect_error([&] { (void)read_file(scratch / "f", 2); }, "at most 2 bytes; found 3");
}

}  // namespace
}  // namespace heed::io
