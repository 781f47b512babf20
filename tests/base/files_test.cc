// Reading refuses what is not a plain file, writing is all or nothing.
#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/mapped_file.h"
#include "base/scratch.h"

namespace heed::files {
namespace {

using test::contents_of;
using test::expect_error;
using test::Scratch;

std::string gzipped(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 5, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
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
  // A link of a link, to a file that is not there yet; and links that name each other.
  std::filesystem::create_symlink("next", scratch / "first");
  std::filesystem::create_symlink("later", scratch / "next");
  write_atomically(scratch / "first", "new", "f");
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "first"));
  EXPECT_TRUE(std::filesystem::is_symlink(scratch / "next"));
  EXPECT_EQ(contents_of(scratch / "later"), "new");
  std::filesystem::create_symlink("b", scratch / "a");
  std::filesystem::create_symlink("a", scratch / "b");
  expect_error([&] { write_atomically(scratch / "a", "x", "f"); }, "found links in a circle");
  std::filesystem::create_symlink("/dev/null", scratch / "device");
  expect_error([&] { write_atomically(scratch / "device", "x", "f"); }, "device\": a regular file or a new name");
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

// Everything that a stream gives, `block` bytes at a time.
std::string stream_of(const Path& file, size_t block = 1 << 16) {
  ByteStream stream(file, "f");
  std::string all, part(block, '\0');
  while (const int64_t count = stream.read(part)) all.append(part, 0, static_cast<size_t>(count));
  EXPECT_EQ(stream.position(), static_cast<int64_t>(all.size()));
  return all;
}

TEST(ByteStream, GivesAPlainFileAndAllMembersOfAGzipFile) {
  const Scratch scratch;
  const std::string one = gzipped("hello "), two = gzipped("world");
  EXPECT_TRUE(is_gzip(one));
  EXPECT_FALSE(is_gzip("hello"));
  for (const size_t block : {1, 4, 1 << 16}) {
    EXPECT_EQ(stream_of(scratch.file("f", "hello world"), block), "hello world");
    EXPECT_EQ(stream_of(scratch.file("f", one + two), block), "hello world");
    EXPECT_EQ(stream_of(scratch.file("f", one + "padding"), block), "hello ");
    EXPECT_EQ(stream_of(scratch.file("f", ""), block), "");
  }
  std::string long_text;
  for (int64_t i = 0; i < 300000; ++i) long_text += std::to_string(i * 7919 % 100003);
  const std::string members = gzipped(long_text);  // more than one block of the file, the last one with its end
  EXPECT_EQ(stream_of(scratch.file("f", members + members + two)), long_text + long_text + "world");
  for (const int64_t begin : {int64_t{0}, int64_t{5}, int64_t{1} << 20}) {
    for (const std::string& contents : {long_text, members}) {
      ByteStream stream(scratch.file("f", contents), "f");
      stream.skip_to(begin);
      std::string part(10, '\0');
      EXPECT_EQ(stream.read(part), 10);
      EXPECT_EQ(part, long_text.substr(static_cast<size_t>(begin), 10));
      expect_error([&] { stream.skip_to(begin); },
                   "a byte from " + std::to_string(begin + 10) + " on to go on at; found " + std::to_string(begin));
      expect_error([&] { stream.skip_to(int64_t{1} << 40); }, "it is shorter");
    }
  }
}

// A gzip member of `bytes` bytes in which everything is stored, and what it holds.
std::pair<std::string, std::string> stored_member(size_t bytes) {
  constexpr size_t kMost = 65535, kAround = 10 + 8, kOfABlock = 5;
  const size_t blocks = (bytes - kAround + kMost + kOfABlock - 1) / (kMost + kOfABlock);
  std::string text;
  while (text.size() < bytes - kAround - blocks * kOfABlock) text += static_cast<char>('a' + text.size() % 23);
  const auto little_endian = [](uint64_t number, int count) {
    std::string digits;
    for (int i = 0; i < count; ++i) digits += static_cast<char>(number >> (8 * i) & 255);
    return digits;
  };
  std::string member = test::from_hex(
      "1f8b080000000000"
      "00ff");
  for (size_t at = 0; at < text.size(); at += kMost) {
    const std::string block = text.substr(at, kMost);
    member += static_cast<char>(at + kMost >= text.size());  // the last block
    member += little_endian(block.size(), 2) + little_endian(~block.size(), 2) + block;
  }
  return {member + little_endian(crc32(text), 4) + little_endian(text.size(), 4), text};
}

// A gzip file is read in blocks of 2^18 bytes: of the two bytes that begin a member, one may lie in the next block.
TEST(ByteStream, FindsAMemberThatBeginsAtTheEndOfABlock) {
  const Scratch scratch;
  constexpr size_t kBlock = size_t{1} << 18;
  for (size_t size = kBlock - 2; size <= kBlock + 1; ++size) {
    const auto [member, text] = stored_member(size);
    ASSERT_EQ(member.size(), size);
    for (const size_t read : {size_t{1000}, kBlock, 2 * kBlock}) {
      EXPECT_TRUE(stream_of(scratch.file("f", member + gzipped("world")), read) == text + "world") << size;
      EXPECT_TRUE(stream_of(scratch.file("f", member + member), read) == text + text) << size;
      EXPECT_TRUE(stream_of(scratch.file("f", member + "\x1f"
                                                       "x"),
                            read) == text)
          << size;  // padding
      EXPECT_TRUE(stream_of(scratch.file("f", member + "\x1f"), read) == text) << size;
      EXPECT_TRUE(stream_of(scratch.file("f", member), read) == text) << size;
    }
  }
}

TEST(ByteStream, HasALimit) {
  const Scratch scratch;
  const std::string member = gzipped(std::string(10 << 20, '\0'));
  std::string bomb;
  for (int i = 0; i < 38; ++i) bomb += member;
  expect_error([&] { (void)stream_of(scratch.file("f", bomb)); }, "bytes after decompression; there are more");
}

TEST(ByteStream, RefusesEveryPrefixAndNeverCrashesOnAFlippedBit) {
  const Scratch scratch;
  const std::string whole = gzipped("The quick brown fox jumps over the lazy dog, again and again and again.");
  for (size_t size = 2; size < whole.size(); ++size) {
    expect_error([&] { (void)stream_of(scratch.file("f", whole.substr(0, size))); }, "a whole gzip file");
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    try {
      (void)stream_of(scratch.file("f", damaged));
    } catch (const Error&) {
    }
  }
}

TEST(Checksum, OfTwoRunsIsThatOfBothTogether) {
  EXPECT_EQ(crc32_of_both(crc32("12345"), crc32("6789"), 4), 0xcbf43926u);
  EXPECT_EQ(crc32_of_both(crc32("123456789"), crc32(""), 0), 0xcbf43926u);
}

TEST(MappedFile, GivesTheBytesAndNoticesAnotherSize) {
  const Scratch scratch;
  const std::string bytes(100000, 'x');
  const MappedFile mapped(scratch.file("f", bytes), "f");
  EXPECT_EQ(mapped.bytes(), bytes);
  mapped.release();
  EXPECT_EQ(mapped.bytes(), bytes);
  mapped.check();
  std::filesystem::resize_file(scratch / "f", 50000);
  expect_error([&] { mapped.check(); }, "a file that keeps its size, 100000 bytes, while it is read; found 50000");
  EXPECT_EQ(MappedFile(scratch.file("e", ""), "f").bytes(), "");
  expect_error([&] { MappedFile(scratch.path(), "f"); }, "found a folder");
  expect_error([&] { MappedFile(scratch / "none", "f"); }, "No such file");
}

// How many pages of the mapped bytes the system has in memory.
size_t pages_in_memory(const MappedFile& mapped) {
  std::vector<unsigned char> pages((mapped.bytes().size() + 4095) / 4096);
  EXPECT_EQ(::mincore(const_cast<char*>(mapped.bytes().data()), mapped.bytes().size(), pages.data()), 0);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
}

TEST(MappedFile, FetchesWhatWillBeRead) {
  if (::sysconf(_SC_PAGESIZE) != 4096) GTEST_SKIP() << "pages of 4096 bytes are expected";
  const Scratch scratch = Scratch::on_disk();
  constexpr int64_t kBytes = int64_t{3} << 20;
  const Path file = scratch.file("f", std::string(kBytes, 'x'));
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  const bool forgotten = descriptor >= 0 && ::fsync(descriptor) == 0 &&
                         ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED) == 0 && ::close(descriptor) == 0;
  const MappedFile mapped(file, "f");
  if (!forgotten || pages_in_memory(mapped) > 100) GTEST_SKIP() << "the file stays in memory here";
  EXPECT_EQ(mapped.bytes()[1000], 'x');
  EXPECT_LT(pages_in_memory(mapped), 200u);  // what was not asked for is not fetched
  const auto wait_for = [&](size_t pages) {
    for (int n = 0; n < 1000 && pages_in_memory(mapped) < pages; ++n) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return pages_in_memory(mapped);
  };
  mapped.will_read(kBytes / 2 + 100, kBytes / 4);
  EXPECT_GE(wait_for(192), 192u);
  EXPECT_LT(pages_in_memory(mapped), 700u);
  mapped.will_read(0, kBytes);
  EXPECT_EQ(wait_for(768), 768u);
  mapped.will_read(kBytes - 1, 100);  // as far as the file has them
  mapped.will_read(kBytes, 100);
  EXPECT_EQ(mapped.bytes()[kBytes - 1], 'x');
}

// KB of files that count as memory of this process, as the kernel counts them page by page.
int64_t file_memory() {
  std::ifstream maps("/proc/self/smaps_rollup");
  std::string word;
  int64_t resident = 0, anonymous = 0;
  while (maps >> word) {
    if (word == "Rss:") maps >> resident;
    if (word == "Anonymous:") maps >> anonymous;
  }
  return resident - anonymous;
}

TEST(MappedFile, GivesPagesOfMemoryBack) {
  const Scratch scratch;
  constexpr int64_t kBytes = int64_t{8} << 20;
  std::string bytes(kBytes, 'x');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i * 7 / 4096 % 26);
  const MappedFile mapped(scratch.file("f", bytes), "f", MapFor::memory);
  ASSERT_EQ(mapped.bytes(), bytes);
  const int64_t before = file_memory();
  if (before < kBytes / 1024) GTEST_SKIP() << "this system does not say what is in memory";
  give_pages_back(mapped.bytes().data() + 5000, kBytes - 10000);
  EXPECT_LT(file_memory(), before - kBytes / 1024 * 3 / 4);
  EXPECT_EQ(mapped.bytes(), bytes);  // from the file again

  // Memory that is no such file's keeps its contents, and so does a range that leaves the file.
  std::vector<char> own(100000, 'o');
  give_pages_back(own.data(), static_cast<int64_t>(own.size()));
  EXPECT_EQ(std::count(own.begin(), own.end(), 'o'), 100000);
  mapped.writable()[kBytes - 1] = '!';
  give_pages_back(mapped.bytes().data() + kBytes - 4096, 8192);
  EXPECT_EQ(mapped.bytes()[kBytes - 1], '!');
  give_pages_back(mapped.bytes().data(), 0);
}

}  // namespace
}  // namespace heed::files
