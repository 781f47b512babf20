// The weights that torch.save() writes: a table of names and tensors, as a pickle, and the bytes of the tensors.
//
// Since PyTorch 1.6 the file is a zip archive with stored members:
//
//   NAME/data.pkl      the pickle. A tensor is a call of torch._utils._rebuild_tensor_v2 with its storage, the place of
//                      its first number in it, its extents and strides. The storage is a reference: ("storage", the
//                      class that says the type, KEY, a device, how many numbers)
//   NAME/data/KEY      the numbers of a storage
//   NAME/byteorder     "little", in newer files
//
// Before, it was four pickles one after the other (a number that says what the file is, the version, sizes of C's
// types, the table), a fifth with the keys of the storages, and for each of them a u64, how many numbers, and the
// numbers.
//
// Nothing in the file is called: see pickle.h. A storage may belong to several tensors (tied weights).
#include <cstring>
#include <memory>

#include "base/files.h"
#include "base/mapped_file.h"
#include "formats/extents.h"
#include "formats/names.h"
#include "formats/pytorch_table.h"
#include "formats/zip.h"
#include "heed/io.h"

namespace heed::io {
namespace {

// The number by which torch.load() knows an older file, as a pickle of protocol 2.
constexpr std::string_view kOldMagic("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8\x50\x19.", 15);
constexpr int64_t kOldVersion = 1001;
// Several tensors may be copies of one storage. All copies together take at most so many times the file's bytes.
constexpr int64_t kMostCopies = 16;

class PytorchReader {
 public:
  explicit PytorchReader(const std::filesystem::path& file)
      : mapped_(std::make_shared<files::MappedFile>(file, kReadPytorch, files::MapFor::memory)),
        name_(files::quoted(file)) {}

  Tensors read() {
    if (mapped_->bytes().starts_with("PK")) {
      read_archive();
    } else {
      mapped_->require(
          mapped_->bytes().starts_with(kOldMagic),
          "weights that torch.save() wrote, older ones in protocol 2; the bytes from byte 0 on are not theirs");
      read_older();
    }
    return tensors();
  }

 private:
  void read_archive() {
    const files::InputFile input(mapped_->path(), kReadPytorch);
    mapped_->require(input.size() == mapped_->size(), "a file that nobody changes; its size did");
    std::map<std::string, ZipMember> members;
    std::string prefix;
    for (ZipMember& member : read_zip_members(input, "weights that torch.save() wrote", kReadPytorch)) {
      if (member.name.ends_with("/data.pkl")) {
        mapped_->require(prefix.empty(), "one table of tensors; member " + shown(member.name) + " is a second one");
        prefix = member.name.substr(0, member.name.size() - 8);
      }
      std::string name = member.name;
      const bool added = members.emplace(std::move(name), member).second;
      mapped_->require(added, "every name once; member " + shown(member.name) + " comes twice");
    }
    mapped_->require(!prefix.empty(),
                     "a zip archive with a member \"*/data.pkl\", as torch.save() writes it; found none");
    if (const auto order = members.find(prefix + "byteorder"); order != members.end()) {
      mapped_->require(bytes_of(order->second) == "little",
                       "numbers in little-endian order; member " + shown(order->first) + " says another");
    }
    const ZipMember& pickled = members.at(prefix + "data.pkl");
    const std::string name = name_ + ", member " + shown(pickled.name);
    files::Reader reader(bytes_of(pickled), name, kReadPytorch);
    const Pickle pickle(reader);
    require_end(reader);
    table_ = read_pytorch_table(pickle.value(), name);
    for (auto& [key, storage] : table_.storages) {
      const auto at = members.find(prefix + "data/" + key);
      mapped_->require(at != members.end(),
                       "the numbers of a tensor in member " + shown(prefix + "data/" + key) + "; found no such member");
      const auto found = static_cast<int64_t>(bytes_of(at->second).size());
      const int64_t bytes = storage.numbers * size_of(storage.dtype);
      mapped_->require(found == bytes, std::to_string(bytes) + " bytes in member " + shown(at->first) +
                                           ", as the table says; found " + std::to_string(found));
      storage.begin = at->second.data;
    }
  }

  // Of a member that is stored, and has the checksum that the archive gives.
  std::string_view bytes_of(const ZipMember& member) const {
    mapped_->require(!member.deflated, "members that are stored; " + shown(member.name) + " is deflated");
    const std::string_view bytes =
        mapped_->bytes().substr(static_cast<size_t>(member.data), static_cast<size_t>(member.packed));
    mapped_->require(files::crc32(bytes) == member.crc,
                     "the checksum that the archive gives for member " + shown(member.name) + "; the data is damaged");
    return bytes;
  }

  void read_older() {
    files::Reader reader(mapped_->bytes(), name_, kReadPytorch);
    reader.seek(static_cast<int64_t>(kOldMagic.size()));
    read_old_head(reader);
    table_ = read_pytorch_table(Pickle(reader).value(), name_);
    const Pickle keys(reader);
    reader.require(keys.value().is(PickleKind::list), "a list of storages; found " + words_for(keys.value()));
    for (const PickleValue* key : keys.value().parts) {
      reader.require(key->is(PickleKind::text), "the key of a storage; found " + words_for(*key));
      const auto at = table_.storages.find(std::string(key->text));
      reader.require(at != table_.storages.end() && at->second.begin < 0,
                     "the key of a storage that a tensor has, once; found " + shown(key->text));
      PytorchStorage& storage = at->second;
      const int64_t numbers = reader.i63("how many numbers a storage has");
      reader.require(numbers == storage.numbers, std::to_string(storage.numbers) + " numbers in storage " +
                                                     shown(key->text) + ", as the table says; found " +
                                                     std::to_string(numbers));
      storage.begin = reader.position();
      (void)reader.bytes(numbers * size_of(storage.dtype));
    }
    require_end(reader);
    for (const auto& [key, storage] : table_.storages)
      reader.require(storage.begin >= 0, "the numbers of storage " + shown(key) + "; found none");
  }

  // The version, and what the machine was like.
  static void read_old_head(files::Reader& reader) {
    const Pickle version(reader);
    reader.require(version.value().is(PickleKind::whole) && version.value().whole == kOldVersion,
                   "version 1001 of older files; found another");
    const Pickle system(reader);
    reader.require(is_little_endian(system.value()), "numbers in little-endian order; the file does not say so");
  }

  static bool is_little_endian(const PickleValue& system) {
    if (!system.is(PickleKind::table)) return false;
    for (size_t i = 0; i < system.parts.size(); i += 2) {
      const PickleValue &key = *system.parts[i], &value = *system.parts[i + 1];
      if (key.text == "little_endian") return value.is(PickleKind::boolean) && value.whole == 1;
    }
    return false;
  }

  static void require_end(const files::Reader& reader) {
    reader.require(reader.remaining() == 0,
                   "the end of the weights; found " + std::to_string(reader.remaining()) + " more bytes");
  }

  Tensors tensors() {
    Tensors result;
    for (const auto& [name, view] : table_.tensors) {
      result.emplace(name, tensor_of(name, view));
    }
    return result;
  }

  // The file's memory, where the numbers lie there as they should; else a copy.
  Tensor tensor_of(const std::string& name, const PytorchView& view) {
    const PytorchStorage& storage = table_.storages.at(view.storage);
    const Shape shape(view.extents), strides(view.strides);
    if (view.reach == 0) return Tensor::empty(shape, storage.dtype);
    char* const data = mapped_->writable() + storage.begin + view.first * size_of(storage.dtype);
    const bool dense = Tensor::wrap(data, shape, strides, storage.dtype).is_contiguous();
    const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(storage.dtype)) == 0;
    if (dense && aligned && storage.dtype != DType::boolean) return Tensor::wrap(mapped_, data, shape, storage.dtype);
    const Tensor copy = Tensor::empty({view.reach}, storage.dtype);
    copied_ += copy.nbytes();  // each summand is less than the file's size
    mapped_->require(copied_ / kMostCopies <= mapped_->size(),
                     "tensors of at most " + std::to_string(kMostCopies) + " times the file's bytes; found more");
    std::memcpy(copy.raw(), data, static_cast<size_t>(copy.nbytes()));
    mapped_->require(booleans_are_valid(copy), "booleans 0 and 1; tensor " + shown(name) + " has others");
    return dense ? copy.reshape(shape) : Tensor::wrap(copy.raw(), shape, strides, storage.dtype).clone();
  }

  std::shared_ptr<files::MappedFile> mapped_;
  std::string name_;
  PytorchTable table_;
  int64_t copied_ = 0;  // bytes
};

}  // namespace

Tensors read_pytorch(const std::filesystem::path& file) { return PytorchReader(file).read(); }

}  // namespace heed::io
