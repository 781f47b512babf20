// .npz: a zip archive whose members are .npy files, stored or deflated.
//
// Only the central directory at the end of the file is believed, and only after it has been checked: members lie inside
// the file, do not overlap, cannot be larger than deflate can make them, and all together have a limit (a "zip bomb"
// claims terabytes). Member names are keys and nothing else: never a path. PKWARE APPNOTE 6.3.
#include <algorithm>

#include "base/files.h"
#include "formats/extents.h"
#include "formats/npy.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr int64_t kEndSize = 22, kLocator64Size = 20, kEnd64Size = 56, kLocalSize = 30, kCentralSize = 46;
constexpr int64_t kMaxDirectory = 100'000'000;
constexpr int64_t kMaxDeflateRatio = 1032;         // no deflate stream gives more bytes for one
constexpr int64_t kFreeOutput = int64_t{1} << 30;  // what may always come out, beside 64 times the file's size
constexpr int64_t k32 = 0xffffffff, k16 = 0xffff;

struct Member {
  std::string name;
  int method = 0;
  uint32_t crc = 0;
  int64_t packed = 0;    // bytes in the file
  int64_t unpacked = 0;  // bytes of the .npy
  int64_t local = 0;     // where its local header is
  int64_t data = 0;      // where its bytes begin
};

struct Directory {
  int64_t count = 0;
  int64_t begin = 0;
  int64_t size = 0;
};

class Archive {
 public:
  explicit Archive(const std::filesystem::path& file) : input_(file, "read_npz"), name_(files::quoted(file)) {}

  Tensors read() {
    std::vector<Member> members = read_directory(find_directory());
    std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.local < b.local; });
    int64_t end = 0, total = 0;
    for (Member& member : members) {
      input_.require(member.local >= end, "members that do not overlap; " + files::quoted(member.name) + " does");
      locate(member);
      end = member.data + member.packed;
      // Both summands are below 2^62: packed lies inside the file, unpacked was compared with it.
      total += member.unpacked;
      input_.require(total <= kFreeOutput + 64 * input_.size(), "arrays of reasonable size; " + std::to_string(total) +
                                                                    " bytes are said to be in " +
                                                                    std::to_string(input_.size()));
    }
    Tensors tensors;
    for (const Member& member : members) {
      std::string key = member.name;
      input_.require(key.ends_with(".npy"), "members named *.npy; found " + files::quoted(key));
      key.resize(key.size() - 4);
      input_.require(tensors.emplace(key, read_member(member)).second,
                     "every name once; " + files::quoted(key) + " comes twice");
    }
    return tensors;
  }

 private:
  files::Reader part(int64_t offset, int64_t size) {
    buffer_.resize(0);
    input_.require(offset >= 0 && size >= 0 && offset <= input_.size() && size <= input_.size() - offset,
                   "a whole zip archive; it points outside of the file");
    buffer_.resize(static_cast<size_t>(size));
    input_.read_at(offset, buffer_.data(), size);
    return files::Reader(buffer_, name_, "read_npz");
  }

  Directory find_directory() {
    const int64_t tail = std::min(input_.size(), kEndSize + k16);
    input_.require(tail >= kEndSize, "an .npz file, which is a zip archive; found " + std::to_string(tail) + " bytes");
    files::Reader reader = part(input_.size() - tail, tail);
    // The last signature whose comment reaches the end of the file.
    for (int64_t at = tail - kEndSize; at >= 0; --at) {
      reader.seek(at);
      if (reader.u32() != kEndSignature) continue;
      const int disk = reader.u16();
      const int directory_disk = reader.u16();
      const int64_t here = reader.u16();
      Directory directory{.count = reader.u16()};
      directory.size = reader.u32();
      directory.begin = reader.u32();
      if (reader.u16() != reader.remaining()) continue;
      if (directory.count == k16 || directory.size == k32 || directory.begin == k32) {
        return find_directory64(input_.size() - tail + at);
      }
      reader.require(disk == 0 && directory_disk == 0 && here == directory.count, "a zip archive in one part");
      return checked(directory, input_.size() - tail + at);
    }
    input_.fail("an .npz file, which is a zip archive; its last " + std::to_string(tail) +
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

  std::vector<Member> read_directory(const Directory& directory) {
    files::Reader reader = part(directory.begin, directory.size);
    std::vector<Member> members;
    for (int64_t i = 0; i < directory.count; ++i) {
      reader.require(reader.u32() == kCentralSignature, "the next member of the zip directory");
      (void)reader.bytes(4);  // versions
      const int flags = reader.u16();
      Member member;
      member.method = reader.u16();
      (void)reader.bytes(4);  // time
      member.crc = reader.u32();
      member.packed = reader.u32();
      member.unpacked = reader.u32();
      const int64_t name_size = reader.u16(), extra_size = reader.u16(), comment_size = reader.u16();
      (void)reader.bytes(2 + 2 + 4);  // disk, attributes
      member.local = reader.u32();
      member.name = reader.bytes(name_size);
      read_zip64(files::Reader(reader.bytes(extra_size), name_, "read_npz"), member);
      (void)reader.bytes(comment_size);
      const std::string shown = files::quoted(member.name);
      reader.require((flags & 1) == 0, "members that are not encrypted; " + shown + " is");
      reader.require(member.method == 0 || member.method == 8, "members stored or deflated; " + shown + " is neither");
      reader.require(member.local <= directory.begin && member.packed <= directory.begin - member.local,
                     "members before the directory; " + shown + " is not");
      reader.require(
          member.method == 0 ? member.unpacked == member.packed : member.unpacked / kMaxDeflateRatio <= member.packed,
          "sizes that are possible; those of " + shown + " are not");
      members.push_back(std::move(member));
    }
    return members;
  }

  // Sizes and places that do not fit 32 bits stand in an extra field, in this order, only those that do not fit.
  void read_zip64(files::Reader extra, Member& member) const {
    while (extra.remaining() >= 4) {
      const int id = extra.u16();
      files::Reader field(extra.bytes(extra.u16()), name_ + ", a zip64 field", "read_npz");
      if (id != 1) continue;
      if (member.unpacked == k32) member.unpacked = field.i63("a size");
      if (member.packed == k32) member.packed = field.i63("a size");
      if (member.local == k32) member.local = field.i63("a place");
    }
  }

  void locate(Member& member) {
    files::Reader reader = part(member.local, kLocalSize);
    reader.require(reader.u32() == kLocalSignature, "a local header for " + files::quoted(member.name));
    reader.seek(26);
    const int64_t name_size = reader.u16(), extra_size = reader.u16();
    member.data = member.local + kLocalSize + name_size + extra_size;
    (void)part(member.local + kLocalSize, name_size);
    input_.require(buffer_ == member.name,
                   "the same name in the directory and before the data of " + files::quoted(member.name));
    input_.require(member.data <= input_.size() && member.packed <= input_.size() - member.data,
                   "members inside the file; " + files::quoted(member.name) + " is not");
  }

  Tensor read_member(const Member& member) {
    const std::string name = name_ + ", member " + files::quoted(member.name);
    (void)part(member.data, member.packed);
    std::string unpacked;
    if (member.method == 8) {
      unpacked.resize(static_cast<size_t>(member.unpacked));
      files::inflate_exactly(buffer_, unpacked, name, "read_npz");
    } else {
      unpacked.swap(buffer_);
    }
    require(files::crc32(unpacked) == member.crc, "read_npz", name,
            ": the checksum the archive gives; the data is damaged");
    const NpyHeader header = parse_npy_header(unpacked, name, "read_npz");
    const int64_t found = static_cast<int64_t>(unpacked.size()) - header.data_begin;
    require(found == header.data_bytes, "read_npz", name, ": ", header.data_bytes, " bytes of elements for shape ",
            header.shape, "; found ", found);
    const NpyTensor tensor = allocate_npy(header);
    std::copy_n(unpacked.data() + header.data_begin, header.data_bytes, static_cast<char*>(tensor.memory.raw()));
    require(booleans_are_valid(tensor.memory), "read_npz", name, ": booleans 0 and 1; found other bytes");
    return tensor.view;
  }

  files::InputFile input_;
  std::string name_;
  std::string buffer_;  // what part() read last
};

void put(std::string& out, uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i));
}

}  // namespace

Tensors read_npz(const std::filesystem::path& file) { return Archive(file).read(); }

void write_npz(const std::filesystem::path& file, const Tensors& tensors) {
  files::AtomicFile out(file, "write_npz");
  std::string directory;
  for (const auto& [key, tensor] : tensors) {
    const Tensor flat = as_npy_has_it(tensor, "write_npz");
    const std::string header = make_npy_header(flat);
    const std::string name = key + ".npy";
    const std::string_view data(static_cast<const char*>(flat.raw()), static_cast<size_t>(flat.nbytes()));
    const uint64_t size = header.size() + data.size();
    require(
        size < k32 && out.written() + static_cast<int64_t>(size) < k32 && tensors.size() < k16 && name.size() <= k16,
        "write_npz", files::quoted(file),
        ": less than 4 GiB and 65535 arrays; found more. A .safetensors file has room for them");
    const int64_t local = out.written();
    // Versions 2.0, flag 11: names are UTF-8, stored, 1980-01-01 (a file's bytes do not depend on when it was written).
    std::string common;
    put(common, 20, 2);
    put(common, 0x0800, 2);
    put(common, 0, 2);
    put(common, 0x00210000, 4);
    put(common, files::crc32(data, files::crc32(header)), 4);
    put(common, size, 4);
    put(common, size, 4);
    put(common, name.size(), 2);
    put(common, 0, 2);
    std::string begin;
    put(begin, kLocalSignature, 4);
    out.write(begin + common + name);
    out.write(header);
    out.write(data);
    put(directory, kCentralSignature, 4);
    put(directory, 20, 2);
    directory += common;
    put(directory, 0, 2 + 2 + 2);  // comment, disk, internal attributes
    put(directory, 0, 4);
    put(directory, static_cast<uint64_t>(local), 4);
    directory += name;
  }
  const uint64_t begin = static_cast<uint64_t>(out.written());
  std::string end;
  put(end, kEndSignature, 4);
  put(end, 0, 4);
  put(end, tensors.size(), 2);
  put(end, tensors.size(), 2);
  put(end, directory.size(), 4);
  put(end, begin, 4);
  put(end, 0, 2);
  out.write(directory + end);
  out.commit();
}

}  // namespace heed::io
