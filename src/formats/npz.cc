// .npz: a zip archive whose members are .npy files, stored or deflated.
//
// All members together have a limit (a "zip bomb" claims terabytes).
#include <algorithm>

#include "base/files.h"
#include "formats/extents.h"
#include "formats/npy.h"
#include "formats/zip.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

constexpr int64_t kFreeOutput = int64_t{1} << 30;  // what may always come out, beside 64 times the file's size

class Archive {
 public:
  explicit Archive(const std::filesystem::path& file) : input_(file, "read_npz"), name_(files::quoted(file)) {}

  Tensors read() const {
    const std::vector<ZipMember> members = read_zip_members(input_, "an .npz file", "read_npz");
    int64_t total = 0;
    for (const ZipMember& member : members) {
      // Both summands are below 2^62: packed lies inside the file, unpacked was compared with it.
      total += member.unpacked;
      input_.require(total <= kFreeOutput + 64 * input_.size(), "arrays of reasonable size; " + std::to_string(total) +
                                                                    " bytes are said to be in " +
                                                                    std::to_string(input_.size()));
    }
    Tensors tensors;
    for (const ZipMember& member : members) {
      std::string key = member.name;
      input_.require(key.ends_with(".npy"), "members named *.npy; found " + files::quoted(key));
      key.resize(key.size() - 4);
      input_.require(tensors.emplace(key, read_member(member)).second,
                     "every name once; " + files::quoted(key) + " comes twice");
    }
    return tensors;
  }

 private:
  Tensor read_member(const ZipMember& member) const {
    const std::string name = name_ + ", member " + files::quoted(member.name);
    std::string unpacked(static_cast<size_t>(member.packed), '\0');
    input_.read_at(member.data, unpacked.data(), member.packed);
    if (member.deflated) {
      std::string inflated(static_cast<size_t>(member.unpacked), '\0');
      files::inflate_exactly(unpacked, inflated, name, "read_npz");
      unpacked.swap(inflated);
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
    require(size < kZipMost32 && out.written() + static_cast<int64_t>(size) < kZipMost32 &&
                tensors.size() < kZipMost16 && name.size() <= kZipMost16,
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
    put(begin, kZipLocalSignature, 4);
    out.write(begin + common + name);
    out.write(header);
    out.write(data);
    put(directory, kZipCentralSignature, 4);
    put(directory, 20, 2);
    directory += common;
    put(directory, 0, 2 + 2 + 2);  // comment, disk, internal attributes
    put(directory, 0, 4);
    put(directory, static_cast<uint64_t>(local), 4);
    directory += name;
  }
  const uint64_t begin = static_cast<uint64_t>(out.written());
  std::string end;
  put(end, kZipEndSignature, 4);
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
