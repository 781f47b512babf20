// .npy: "\x93NUMPY", version, header length, a Python dictionary as text, the elements. NumPy Enhancement Proposal 1.
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//
// The dictionary is read by a small scanner of its own: nothing is evaluated, nothing recurses.
#include "formats/npy.h"

#include <algorithm>
#include <array>

#include "base/files.h"
#include "formats/extents.h"
#include "heed/error.h"
#include "heed/io.h"

namespace heed::io {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyType {
  std::string_view name;  // kind and size
  DType dtype;
};
constexpr NpyType kNpyTypes[] = {{"f4", DType::f32}, {"f8", DType::f64}, {"f2", DType::f16}, {"i8", DType::i64},
                                 {"i4", DType::i32}, {"i1", DType::i8},  {"u1", DType::u8},  {"b1", DType::boolean}};

class HeaderScanner {
 public:
  HeaderScanner(std::string_view text, const std::string& name, std::string_view function)
      : text_(text), name_(name), function_(function) {}

  NpyHeader scan() {
    expect('{');
    bool descr = false, order = false, shape = false;
    while (!take('}')) {
      const std::string_view key = quoted_string();
      expect(':');
      bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : key == "shape" ? &shape : nullptr;
      check(seen != nullptr, "only the keys descr, fortran_order and shape");
      check(!*seen, "every key once");
      *seen = true;
      if (seen == &descr) {
        dtype(quoted_string_of_descr());
      } else if (seen == &order) {
        header_.fortran = truth();
      } else {
        tuple();
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_spaces();
    check(at_ == text_.size(), "nothing after the dictionary");
    check(descr && order && shape, "the keys descr, fortran_order and shape");
    return header_;
  }

 private:
  void check(bool ok, std::string_view what) const {
    if (!ok)
      fail(function_, name_, ", byte ", at_, " of the dictionary: an .npy header with ", what, "; found ",
           files::quoted(std::string(text_.substr(0, 200))));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) { check(take(c), std::string(1, c) + " at byte " + std::to_string(at_)); }

  std::string_view quoted_string() {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    check(quote == '\'' || quote == '"', "a string at byte " + std::to_string(at_));
    const size_t end = text_.find(quote, at_ + 1);
    check(end != std::string_view::npos, "the end of a string");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }

  std::string_view quoted_string_of_descr() {
    skip_spaces();
    check(at_ < text_.size() && text_[at_] != '[', "one number an element, not a record");
    return quoted_string();
  }

  void dtype(std::string_view descr) {
    check(!descr.empty(), "a descr");
    check(descr.find('O') == std::string_view::npos, "numbers, not Python objects (dtype=object is refused)");
    const bool has_order = descr[0] == '<' || descr[0] == '>' || descr[0] == '|' || descr[0] == '=';
    const std::string_view kind = has_order ? descr.substr(1) : descr;
    for (const NpyType& type : kNpyTypes) {
      if (type.name != kind) continue;
      check(size_of(type.dtype) == 1 || descr[0] != '>', "little-endian numbers, not big-endian ones");
      header_.dtype = type.dtype;
      return;
    }
    check(false, "a descr of f4, f8, f2, i4, i8, u1 or b1");
  }

  bool truth() {
    skip_spaces();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    check(false, "fortran_order True or False");
    return false;
  }

  void tuple() {
    expect('(');
    std::array<int64_t, Shape::kMaxRank> extents{};
    size_t rank = 0;
    bool comma = true;
    while (!take(')')) {
      check(comma, "commas between extents");
      check(rank < extents.size(), "at most 8 axes");
      extents[rank++] = extent();
      comma = take(',');
    }
    check(rank != 1 || comma, "a tuple as shape");
    header_.shape = Shape(std::span(extents.data(), rank));
  }

  int64_t extent() {
    skip_spaces();
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      check(!__builtin_mul_overflow(value, int64_t{10}, &value) &&
                !__builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value),
            "extents below 2^63");
    }
    check(at_ > begin, "extents that are whole numbers, not negative");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  std::string_view function_;
  size_t at_ = 0;
  NpyHeader header_;
};

}  // namespace

NpyHeader parse_npy_header(std::string_view begin, const std::string& name, std::string_view function) {
  files::Reader reader(begin, name, function);
  reader.require(begin.substr(0, kMagic.size()) == kMagic, "an .npy array, which begins with \\x93NUMPY");
  reader.seek(static_cast<int64_t>(kMagic.size()));
  const int major = reader.u8();
  const int minor = reader.u8();
  reader.require(major >= 1 && major <= 3 && minor == 0,
                 ".npy version 1.0, 2.0 or 3.0; found " + std::to_string(major) + "." + std::to_string(minor));
  const int64_t length = major == 1 ? reader.u16() : reader.u32();
  reader.require(length <= 65536, "an .npy header of at most 65536 bytes; found " + std::to_string(length));
  const std::string_view text = reader.bytes(length);
  NpyHeader header = HeaderScanner(text, name, function).scan();
  header.data_begin = reader.position();
  header.data_bytes =
      checked_bytes(std::span(header.shape.begin(), static_cast<size_t>(header.shape.rank())), size_of(header.dtype));
  reader.require(header.data_bytes >= 0, "an array of fewer than 2^63 bytes");
  return header;
}

NpyTensor allocate_npy(const NpyHeader& header) {
  if (!header.fortran) {
    const Tensor memory = Tensor::empty(header.shape, header.dtype);
    return {memory, memory};
  }
  Shape reversed = header.shape;
  const int rank = header.shape.rank();
  for (int axis = 0; axis < rank; ++axis) reversed[axis] = header.shape[rank - 1 - axis];
  const Tensor memory = Tensor::empty(reversed, header.dtype);
  Tensor view = memory;
  for (int axis = 0; axis < rank / 2; ++axis) view = view.transpose(axis, rank - 1 - axis);
  return {memory, view};
}

std::string make_npy_header(const Tensor& tensor) {
  std::string dictionary = "{'descr': '";
  for (const NpyType& type : kNpyTypes) {
    if (type.dtype == tensor.dtype()) dictionary += (size_of(type.dtype) == 1 ? "|" : "<") + std::string(type.name);
  }
  dictionary += "', 'fortran_order': False, 'shape': (";
  for (const int64_t extent : tensor.shape()) dictionary += std::to_string(extent) + ", ";
  if (tensor.rank() > 1) dictionary.resize(dictionary.size() - 2);
  if (tensor.rank() == 1) dictionary.resize(dictionary.size() - 1);
  dictionary += "), }";
  const size_t before = kMagic.size() + 4;
  const size_t whole = (before + dictionary.size() + 1 + 63) / 64 * 64;
  dictionary.resize(whole - before - 1, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

Tensor as_npy_has_it(const Tensor& tensor, std::string_view function) {
  require(tensor.defined(), function, "a defined tensor");
  return (tensor.dtype() == DType::bf16 ? tensor.to(DType::f32) : tensor).contiguous();
}

Tensor read_npy(const std::filesystem::path& file) {
  const files::InputFile input(file, "read_npy");
  std::string begin(static_cast<size_t>(std::min(input.size(), kMaxNpyHeader)), '\0');
  input.read_at(0, begin.data(), static_cast<int64_t>(begin.size()));
  const NpyHeader header = parse_npy_header(begin, files::quoted(file), "read_npy");
  input.require(input.size() - header.data_begin == header.data_bytes,
                std::to_string(header.data_bytes) + " bytes of elements for shape " + to_string(header.shape) +
                    "; found " + std::to_string(input.size() - header.data_begin));
  const NpyTensor tensor = allocate_npy(header);
  input.read_at(header.data_begin, tensor.memory.raw(), header.data_bytes);
  input.require(booleans_are_valid(tensor.memory), "booleans 0 and 1; found other bytes");
  return tensor.view;
}

void write_npy(const std::filesystem::path& file, const Tensor& tensor) {
  const Tensor flat = as_npy_has_it(tensor, "write_npy");
  files::AtomicFile out(file, "write_npy");
  out.write(make_npy_header(flat));
  out.write(flat.raw(), flat.nbytes());
  out.commit();
}

}  // namespace heed::io
