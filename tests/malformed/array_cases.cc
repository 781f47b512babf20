// npy and npz.
#include "malformed/zip.h"

namespace heed::malformed {
namespace {

std::string npy(std::string_view dictionary, std::string_view data, std::string_view version = "\1") {
  std::string file = "\x93NUMPY" + std::string(version) + '\0';
  file += version == "\1" ? bytes_of(static_cast<uint16_t>(dictionary.size()))
                          : bytes_of(static_cast<uint32_t>(dictionary.size()));
  return file.append(dictionary).append(data);
}

std::string dictionary(std::string_view descr, std::string_view shape, std::string_view order = "False") {
  return "{'descr': " + std::string(descr) + ", 'fortran_order': " + std::string(order) +
         ", 'shape': " + std::string(shape) + "}";
}

constexpr std::string_view kFour = "\0\0\x80\x3f";
const std::string kOne(kFour.data(), 4);  // 1.0f

void add_npy(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("npy", kind, std::move(contents), reason);
  };
  const std::string good = npy(dictionary("'<f4'", "(1,)"), kOne);
  cases.good("npy", "one float", good);
  cases.good("npy", "fortran order", npy(dictionary("'<f4'", "(1, 1)", "True"), kOne));
  cases.good("npy", "version 2", npy(dictionary("'<i4'", "()"), kOne, "\2"));
  bad("empty", "", "which begins with");
  bad("magic cut off", "\x93NUM", "which begins with");
  bad("another magic", patched(good, 1, "X"), "which begins with");
  bad("version 0", patched(good, 6, std::string(1, '\0')), "found 0.0");
  bad("version 4", patched(good, 6, "\4"), "found 4.0");
  bad("minor version 1", patched(good, 7, "\1"), "found 1.1");
  bad("no length", good.substr(0, 9), "2 more bytes");
  bad("length beyond the file", patched(good, 8, "\xff\xff"), "more bytes");
  bad("length of 4 GiB", patched(npy(dictionary("'<f4'", "(1,)"), kOne, "\2"), 8, "\xff\xff\xff\xff"),
      "at most 65536 bytes; found 4294967295");
  bad("length 0", npy("", kOne), "{ at byte 0");
  bad("a list", npy("['<f4']", kOne), "{ at byte 0");
  bad("an expression", npy("__import__('os').system('true')", kOne), "{ at byte 0");
  bad("a descr that is code", npy(dictionary("eval('1')", "(1,)"), kOne), "a string at byte");
  bad("string without end", npy("{'descr", kOne), "the end of a string");
  bad("objects", npy(dictionary("'|O'", "(1,)"), kOne), "not Python objects");
  bad("a record", npy(dictionary("[('a', '<f4')]", "(1,)"), kOne), "not a record");
  bad("big-endian", npy(dictionary("'>f4'", "(1,)"), kOne), "big-endian");
  bad("unknown type", npy(dictionary("'<c8'", "(1,)"), kOne), "a descr of f4");
  bad("empty type", npy(dictionary("''", "(1,)"), kOne), "a descr");
  bad("fortran_order A", npy(dictionary("'<f4'", "(1,)", "A"), kOne), "fortran_order True or False");
  bad("key twice", npy("{'descr': '<f4', 'descr': '<f4'}", kOne), "every key once");
  bad("key missing", npy("{'descr': '<f4', 'fortran_order': False}", kOne), "the keys descr");
  bad("key unknown", npy("{'name': 'x'}", kOne), "only the keys");
  bad("text after the dictionary", npy(dictionary("'<f4'", "(1,)") + "x", kOne), "nothing after the dictionary");
  bad("shape no tuple", npy(dictionary("'<f4'", "(1)"), kOne), "a tuple as shape");
  bad("shape negative", npy(dictionary("'<f4'", "(-1,)"), kOne), "not negative");
  bad("shape a fraction", npy(dictionary("'<f4'", "(1.0,)"), kOne), "commas between extents");
  bad("extent 2^64", npy(dictionary("'<f4'", "(18446744073709551616,)"), kOne), "extents below 2^63");
  bad("nine axes", npy(dictionary("'<f4'", "(1,1,1,1,1,1,1,1,1)"), kOne), "at most 8 axes");
  bad("product of extents overflows", npy(dictionary("'<f4'", "(4294967296, 4294967296)"), kOne), "fewer than 2^63");
  bad("bytes overflow", npy(dictionary("'<f4'", "(4611686018427387904,)"), kOne), "fewer than 2^63");
  bad("large extents beside a 0", npy(dictionary("'<f4'", "(0, 9223372036854775807)"), ""), "fewer than 2^63");
  bad("a petabyte", npy(dictionary("'<f4'", "(281474976710656,)"), kOne), "1125899906842624 bytes");
  bad("elements cut off", good.substr(0, good.size() - 1), "found 3");
  bad("bytes after the elements", good + "PK", "found 6");
  bad("booleans 2", npy(dictionary("'|b1'", "(1,)"), "\2"), "booleans 0 and 1");
  bad("NUL in the dictionary", npy(std::string("{\0}", 3), kOne), "a string at byte");
}

Zip zip_of(std::string_view name, std::string_view data) { return zip({{std::string(name), std::string(data)}}); }

void add_npz(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("npz", kind, std::move(contents), reason);
  };
  const std::string array = npy(dictionary("'<f4'", "(1,)"), kOne);
  const Zip good = zip_of("a.npy", array);
  cases.good("npz", "one array", good.bytes);
  bad("empty", "", "found 0 bytes");
  bad("an .npy file", array, "no end of a zip directory");
  bad("only the end", good.bytes.substr(good.end + 1), "found 21 bytes");
  bad("end cut off", good.bytes.substr(0, good.bytes.size() - 1), "no end of a zip directory");
  bad("several parts", good.with(good.end + 4, "\1"), "in one part");
  bad("more members than room", good.with(good.end + 8, "\xff\x7f\xff\x7f"), "room for its members");
  bad("directory beyond the file", good.with(good.end + 16, "\xff\xff\xff\x7f"), "a zip directory before byte");
  bad("directory too long", good.with(good.end + 12, "\xff\xff\xff\x7f"), "a zip directory before byte");
  bad("zip64 without its locator", good.with(good.end + 8, "\xff\xff\xff\xff"), "zip64");
  bad("directory of another kind", good.with(good.central, "XX"), "zip");
  bad("member beyond the file", good.with(good.central + 42, "\xff\xff\xff\x7f"), "members before the directory");
  bad("member of another kind", good.with(0, "XX"), "a local header");
  bad("method unknown", good.with(good.central + 10, "\x63"), "stored or deflated");
  bad("encrypted", good.with(good.central + 8, "\1"), "encrypted");
  bad("wrong CRC", good.with(good.central + 16, "\1\2\3\4"), "the checksum the archive gives");
  bad("flipped byte", good.with(good.data + array.size() - 1, "\x40"), "the checksum the archive gives");
  bad("stored sizes that differ", good.with(good.central + 24, "\1"), "byte");
  bad("a terabyte in a kilobyte", good.with(good.central + 24, "\xff\xff\xff\x7f"), "byte");
  bad("packed size beyond the file", good.with(good.central + 20, "\xff\xff\xff\x7f"), "byte");
  bad("name beyond the directory", good.with(good.central + 28, "\xff\x7f"), "more bytes");
  bad("a member that is no array", zip_of("a.txt", array).bytes, "members named *.npy");
  bad("a folder", zip_of("a/", "").bytes, "members named *.npy");
  bad("a member without header", zip_of("a.npy", "not an array").bytes, "which begins with");
  bad("a member with objects", zip_of("a.npy", npy(dictionary("'|O'", "(1,)"), kOne)).bytes, "not Python objects");
  bad("a member cut off", zip_of("a.npy", array.substr(0, array.size() - 1)).bytes, "byte");
}

}  // namespace

void add_arrays(Cases& cases) {
  add_npy(cases);
  add_npz(cases);
}

}  // namespace heed::malformed
