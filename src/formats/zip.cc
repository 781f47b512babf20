// The directory of a zip archive.
#include "formats/zip.h"

#include <algorithm>

namespace heed::io {
namespace {

constexpr uint32_t kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr int64_t kEndSize = 22, kLocator64Size = 20, kEnd64Size = 56, kLocalSize = 30, kCentralSize = 46;
constexpr int64_t kMaxDirectory = 100'000'000;
constexpr int64_t kMaxDeflateRatio = 1032;  // no deflate stream gives more bytes for one

struct Directory {
  int64_t count = 0;
  int64_t begin = 0;
  int64_t size = 0;
};

class ZipReader {
 public:
  ZipReader(const files::InputFile& input, std::string_view what, std::string_view function)
      : input_(input), name_(files::quoted(input.path())), what_(what), function_(function) {}

  std::vector<ZipMember> read() {
    std::vector<ZipMember> members = read_directory(find_directory());
    std::sort(members.begin(), members.end(), [](const ZipMember& a, const ZipMember& b) { return a.local < b.local; });
    int64_t end = 0;
    for (ZipMember& member : members) {
      input_.require(member.local >= end, "members that do not overlap; " + files::quoted(member.name) + " does");
      locate(member);
      end = member.data + member.packed;
    }
    return members;
  }

 private:
  files::Reader part(int64_t offset, int64_t size) {
    buffer_.resize(0);
    input_.require(offset >= 0 && size >= 0 && offset <= input_.size() && size <= input_.size() - offset,
                   "a whole zip archive; it points outside of the file");
    buffer_.resize(static_cast<size_t>(size));
    input_.read_at(offset, buffer_.data(), size);
    return files::Reader(buffer_, name_ + " from byte " + std::to_string(offset) + " on", function_);
  }

  Directory find_directory() {
    const int64_t tail = std::min(input_.size(), kEndSize + kZipMost16);
    input_.require(tail >= kEndSize, what_ + ", which is a zip archive; found " + std::to_string(tail) + " bytes");
    files::Reader reader = part(input_.size() - tail, tail);
    // The last signature whose comment reaches the end of the file.
    for (int64_t at = tail - kEndSize; at >= 0; --at) {
      reader.seek(at);
      if (reader.u32() != kZipEndSignature) continue;
      const int disk = reader.u16();
      const int directory_disk = reader.u16();
      const int64_t here = reader.u16();
      Directory directory{.count = reader.u16()};
      directory.size = reader.u32();
      directory.begin = reader.u32();
      if (reader.u16() != reader.remaining()) continue;
      if (directory.count == kZipMost16 || directory.size == kZipMost32 || directory.begin == kZipMost32) {
        return find_directory64(input_.size() - tail + at);
      }
      reader.require(disk == 0 && directory_disk == 0 && here == directory.count, "a zip archive in one part");
      return checked(directory, input_.size() - tail + at);
    }
    input_.fail(what_ + ", which is a zip archive; its last " + std::to_string(tail) +
                " bytes have no end of a zip directory");
  }

  Directory find_directory64(int64_t end) {
    files::Reader locator = part(end - kLocator64Size, kLocator64Size);
    locator.require(locator.u32() == kLocator64Signature, "a zip64 locator before the end of the directory");
    locator.require(locator.u32() == 0, "a zip archive in one part");
    const int64_t at = locator.i63("the zip64 directory's place");
    files::Reader reader = part(at, kEnd64Size);
    reader.require(reader.u32() == kEnd64Signature, "a zip64 directory end");
    (void)reader.bytes(8 + 2 + 2 + 4 + 4 + 8);  // its size, versions, disks, entries on this disk
    Directory directory{.count = reader.i63("the number of members")};
    directory.size = reader.i63("the directory's size");
    directory.begin = reader.i63("the directory's place");
    return checked(directory, at);
  }

  Directory checked(Directory directory, int64_t end) {
    input_.require(directory.begin <= end && directory.size <= end - directory.begin &&
                       directory.size <= kMaxDirectory && directory.count <= directory.size / kCentralSize,
                   "a zip directory before byte " + std::to_string(end) + ", with room for its members; found " +
                       std::to_string(directory.size) + " bytes from byte " + std::to_string(directory.begin) +
                       " for " + std::to_string(directory.count) + " members");
    return directory;
  }

  std::vector<ZipMember> read_directory(const Directory& directory) {
    files::Reader reader = part(directory.begin, directory.size);
    std::vector<ZipMember> members;
    for (int64_t i = 0; i < directory.count; ++i) {
      reader.require(reader.u32() == kZipCentralSignature, "the next member of the zip directory");
      (void)reader.bytes(4);  // versions
      const int flags = reader.u16();
      ZipMember member;
      const int method = reader.u16();
      member.deflated = method == 8;
      (void)reader.bytes(4);  // time
      member.crc = reader.u32();
      member.packed = reader.u32();
      member.unpacked = reader.u32();
      const int64_t name_size = reader.u16(), extra_size = reader.u16(), comment_size = reader.u16();
      (void)reader.bytes(2 + 2 + 4);  // disk, attributes
      member.local = reader.u32();
      member.name = reader.bytes(name_size);
      read_zip64(files::Reader(reader.bytes(extra_size), name_, function_), member);
      (void)reader.bytes(comment_size);
      const std::string shown = files::quoted(member.name);
      reader.require((flags & 1) == 0, "members that are not encrypted; " + shown + " is");
      reader.require(method == 0 || method == 8, "members stored or deflated; " + shown + " is neither");
      reader.require(member.local <= directory.begin && member.packed <= directory.begin - member.local,
                     "members before the directory; " + shown + " is not");
      reader.require(
          member.deflated ? member.unpacked / kMaxDeflateRatio <= member.packed : member.unpacked == member.packed,
          "sizes that are possible; those of " + shown + " are not");
      members.push_back(std::move(member));
    }
    return members;
  }

  // Sizes and places that do not fit 32 bits stand in an extra field, in this order, only those that do not fit.
  void read_zip64(files::Reader extra, ZipMember& member) const {
    while (extra.remaining() >= 4) {
      const int id = extra.u16();
      files::Reader field(extra.bytes(extra.u16()), name_ + ", a zip64 field", function_);
      if (id != 1) continue;
      if (member.unpacked == kZipMost32) member.unpacked = field.i63("a size");
      if (member.packed == kZipMost32) member.packed = field.i63("a size");
      if (member.local == kZipMost32) member.local = field.i63("a place");
    }
  }

  void locate(ZipMember& member) {
    files::Reader reader = part(member.local, kLocalSize);
    reader.require(reader.u32() == kZipLocalSignature, "a local header for " + files::quoted(member.name));
    reader.seek(26);
    const int64_t name_size = reader.u16(), extra_size = reader.u16();
    member.data = member.local + kLocalSize + name_size + extra_size;
    (void)part(member.local + kLocalSize, name_size);
    input_.require(buffer_ == member.name,
                   "the same name in the directory and before the data of " + files::quoted(member.name));
    input_.require(member.data <= input_.size() && member.packed <= input_.size() - member.data,
                   "members inside the file; " + files::quoted(member.name) + " is not");
  }

  const files::InputFile& input_;
  std::string name_, what_, function_;
  std::string buffer_;  // what part() read last
};

}  // namespace

std::vector<ZipMember> read_zip_members(const files::InputFile& input, std::string_view what,
                                        std::string_view function) {
  return ZipReader(input, what, function).read();
}

}  // namespace heed::io
