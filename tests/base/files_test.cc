// Reading refuses what is not a plain file, writing is all or nothing.
#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>

#include <csignal>

#include "base/scratch.h"

namespace heed::files {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;

std::string gzipped(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(InputFile, SaysWhatIsNotAFile) {
  const Scratch scratch;
  expect_error([&] { InputFile(scratch / "none", "f"); }, "No such file or directory");
  expect_error([&] { InputFile(scratch.path(), "f"); }, "found a folder");
  expect_error([&] { InputFile("/dev/zero", "f"); }, "found a device");
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  expect_error([&] { InputFile(scratch / "fifo", "f"); }, "found a pipe");  // and does not wait for a writer
}

TEST(InputFile, ReadsOnlyInside) {
  const Scratch scratch;
  const InputFile file(scratch.file("f", "abcdef"), "f");
  EXPECT_EQ(file.size(), 6);
  std::string part(3, ' ');
  file.read_at(2, part.data(), 3);
  EXPECT_EQ(part, "cde");
  file.read_at(6, part.data(), 0);
  expect_error([&] { file.read_at(4, part.data(), 3); }, "the file has 6");
  expect_error([&] { file.read_at(-1, part.data(), 1); }, "the file has 6");
  expect_error([&] { file.read_at(7, part.data(), 0); }, "the file has 6");
  std::filesystem::resize_file(scratch / "f", 3);
  expect_error([&] { file.read_at(2, part.data(), 3); }, "keeps its size");
}

TEST(InputFile, NamesInMessagesAreHarmless) { EXPECT_EQ(quoted("a\nb\x1b[31m"), "\"a?b?[31m\""); }

TEST(ReadAll, HasALimit) {
  const Scratch scratch;
  EXPECT_EQ(read_all(scratch.file("f", "abc"), 3, "f"), "abc");
  expect_error([&] { (void)read_all(scratch / "f", 2, "f"); }, "at most 2 bytes; found 3");
  EXPECT_EQ(read_all(scratch.file("empty", ""), 0, "f"), "");
}

TEST(Reader, IsLittleEndianAndBounded) {
  Reader reader(std::string_view("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", 15), "bytes", "f");
  EXPECT_EQ(reader.u8(), 0x01);
  EXPECT_EQ(reader.u16(), 0x0302);
  EXPECT_EQ(reader.u32(), 0x07060504u);
  EXPECT_EQ(reader.u64(), 0x0f0e0d0c0b0a0908u);
  EXPECT_EQ(reader.remaining(), 0);
  expect_error([&] { (void)reader.u8(); }, "bytes, byte 15: 1 more bytes; 0 are left");
  reader.seek(14);
  expect_error([&] { (void)reader.u16(); }, "2 more bytes; 1 are left");
  expect_error([&] { (void)reader.bytes(-1); }, "-1 more bytes");
  expect_error([&] { reader.seek(16); }, "a position inside");
  Reader large(std::string_view("\xff\xff\xff\xff\xff\xff\xff\xff", 8), "bytes", "f");
  expect_error([&] { (void)large.i63("a size"); }, "a size below 2^63");
}

TEST(AtomicFile, ReplacesOnlyWhenCommitted) {
  const Scratch scratch;
  const Path file = scratch.file("f", "old");
  {
    AtomicFile out(file, "f");
    out.write("new");
    out.write(std::string(3 << 20, 'x'));
    EXPECT_EQ(out.written(), 3 + (3 << 20));
    EXPECT_EQ(contents_of(file), "old");
  }
  EXPECT_EQ(contents_of(file), "old");
  EXPECT_EQ(scratch.count(), 1);  // no temporary file is left
  write_atomically(file, "new", "f");
  EXPECT_EQ(contents_of(file), "new");
  EXPECT_EQ(scratch.count(), 1);
}

TEST(AtomicFile, FollowsALinkAndSparesDevices) {
  const Scratch scratch;
  const Path target = scratch.file("target", "old");
  std::filesystem::create_symlink(target, scratch / "link");
  write_atomically(scratch / "link", "new", "f");
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "link"));
  EXPECT_EQ(contents_of(target), "new");
  expect_error([] { write_atomically("/dev/null", "x", "f"); }, "found a device");
  expect_error([&] { write_atomically(scratch.path(), "x", "f"); }, "found a folder");
  expect_error([&] { write_atomically(scratch / "none" / "f", "x", "f"); }, "No such file or directory");
}

// A write that fails in the middle: a child process may write 1 MiB and no more.
TEST(AtomicFile, FailsWithTheSystemsWordsAndLeavesTheOldFile) {
  const Scratch scratch;
  const Path file = scratch.file("f", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int status = 1;
    try {
      write_atomically(file, std::string(3 << 20, 'x'), "save");
    } catch (const Error& error) {
      status = std::string_view(error.what()).find("File too large") != std::string_view::npos ? 0 : 2;
    }
    ::_exit(status);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(contents_of(file), "old");
  EXPECT_EQ(scratch.count(), 1);
}

TEST(Checksum, IsZlibsAndSeesOneBit) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926u);  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(crc32("6789", crc32("12345")), 0xcbf43926u);
  const Scratch scratch;
  std::string bytes((5 << 20) + 3, 'a');
  const Checksum before = checksum(scratch.file("f", bytes));
  EXPECT_EQ(before.size, (5 << 20) + 3);
  EXPECT_EQ(before.crc, crc32(bytes));
  bytes[4000000] ^= 1;
  EXPECT_NE(checksum(scratch.file("f", bytes)), before);
  EXPECT_EQ(to_string(Checksum{.size = 9, .crc = 0xcbf43926u}), "crc32:cbf43926:9");
}

TEST(Gunzip, JoinsMembersAndHasALimit) {
  const std::string one = gzipped("hello "), two = gzipped("world");
  EXPECT_TRUE(is_gzip(one));
  EXPECT_FALSE(is_gzip("hello"));
  EXPECT_EQ(gunzip(one + two, 11, "x", "f"), "hello world");
  expect_error([&] { (void)gunzip(one + two, 10, "x", "f"); }, "at most 10 bytes");
  const std::string bomb = gzipped(std::string(10 << 20, '\0'));
  expect_error([&] { (void)gunzip(bomb, 1 << 20, "x", "f"); }, "at most 1048576 bytes");
}

TEST(Gunzip, RefusesEveryPrefixAndNeverCrashesOnAFlippedBit) {
  const std::string whole = gzipped("The quick brown fox jumps over the lazy dog, again and again and again.");
  for (size_t size = 2; size < whole.size(); ++size) {
    expect_error([&] { (void)gunzip(whole.substr(0, size), 1000, "x", "f"); }, "a whole gzip file");
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      (void)gunzip(damaged, 1000, "x", "f");
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace heed::files
