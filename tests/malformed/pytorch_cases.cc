// What torch.save() writes: pytorch_model.bin.
#include "malformed/pytorch_bytes.h"

namespace heed::malformed {
namespace {

using namespace pytorch;

const std::string kSix(24, '\1');  // the bytes of six floats
const Storage kStorage{.numbers = 6};

std::string a_table(const std::string& value) { return table({{"a", value}}); }
const std::string kTensor = tensor(reference(kStorage), {2, 3}, {3, 1});

void add_containers(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("pytorch", kind, std::move(contents), reason);
  };
  const Zip good = zip_file(a_table(kTensor), {{"0", kSix}});
  const std::string old = old_file(a_table(kTensor), {{"0", kSix}});
  cases.good("pytorch", "a zip archive", good.bytes);
  cases.good("pytorch", "an older file", old);
  cases.good("pytorch", "an archive of another name",
             zip({{"x/y/data.pkl", pickle(a_table(kTensor))}, {"x/y/data/0", kSix}}).bytes);
  cases.good("pytorch", "no tensors", zip_file(table({}), {}).bytes);

  bad("empty", "", "byte 0");
  bad("only PK", "PK", "which is a zip archive; found 2 bytes");
  bad("a safetensors file", bytes_of(uint64_t{2}) + "{}", "byte 0");
  bad("a pickle alone", pickle(a_table(kTensor)), "byte 0");
  bad("an archive of arrays", zip({{"a.npy", kSix}}).bytes, "a member \"*/data.pkl\"");
  bad("an archive without its end", good.bytes.substr(0, good.end), "no end of a zip directory");
  bad("an archive cut off", good.bytes.substr(0, good.bytes.size() - 1), "no end of a zip directory");
  bad("numbers that are not there", zip_file(a_table(kTensor), {}).bytes, "found no such member");
  bad("too few numbers", zip_file(a_table(kTensor), {{"0", kSix.substr(4)}}).bytes, "24 bytes in member");
  bad("too many numbers", zip_file(a_table(kTensor), {{"0", kSix + "1234"}}).bytes, "found 28");
  bad("the other byte order", zip_file(a_table(kTensor), {{"0", kSix}}, "big").bytes, "little-endian");
  bad("a member twice", zip({{"x/data.pkl", pickle(a_table(kTensor))}, {"x/data/0", kSix}, {"x/data/0", kSix}}).bytes,
      "comes twice");
  bad("a flipped byte in the table", good.with(good.data + 30, "\x7f"), "the checksum");
  bad("a flipped byte in the numbers", replaced(good.bytes, kSix, kSix.substr(1) + "\2"), "the checksum");
  bad("a deflated member", good.with(good.central + 10, "\x08"), "is deflated");
  bad("a second table", zip({{"x/data.pkl", pickle(table({}))}, {"y/data.pkl", pickle(table({}))}}).bytes,
      "\"y/data.pkl\" is a second one");
  bad("bytes behind the table", zip({{"x/data.pkl", pickle(a_table(kTensor)) + "N."}, {"x/data/0", kSix}}).bytes,
      "found 2 more bytes");

  bad("only the magic number", kMagic, "1 more bytes");
  bad("a magic number cut off", kMagic.substr(0, 14), "byte 0");
  bad("version 1000", kMagic + pickle(whole(1000)), "version 1001");
  bad("a version that is a text", kMagic + pickle(text("1001")), "version 1001");
  bad("the other byte order, older", replaced(old, "little_endian\x88", "little_endian\x89"), "little-endian");
  bad("no byte order", kMagic + pickle(whole(1001)) + pickle("}"), "little-endian");
  bad("a system that is a list", kMagic + pickle(whole(1001)) + pickle("]"), "little-endian");
  bad("no list of storages", old_head() + pickle(a_table(kTensor)), "1 more bytes");
  bad("storages in a table", old_head() + pickle(a_table(kTensor)) + pickle("}"), "a list of storages");
  bad("storages that are numbers", old_head() + pickle(a_table(kTensor)) + pickle("]" + whole(0) + "a"),
      "the key of a storage");
  bad("a storage of no tensor", old_file(a_table(kTensor), {{"0", kSix}, {"1", kSix}}), "found \"1\"");
  bad("a storage twice", old_file(a_table(kTensor), {{"0", kSix}, {"0", kSix}}), "once; found \"0\"");
  bad("a storage that is not there", old_file(a_table(kTensor), {}), "the numbers of storage \"0\"");
  bad("a storage of another size", old_file(a_table(kTensor), {{"0", kSix + "1234"}}), "found 7");
  bad("numbers cut off", old.substr(0, old.size() - 1), "24 more bytes; 23 are left");
  bad("bytes behind the numbers", old + "PK", "found 2 more bytes");
  bad("2^63 numbers", patched(old, old.size() - 32 + 7, "\x80"), "how many numbers");
}

void add_tables(Cases& cases) {
  const auto bad = [&](std::string_view kind, const std::string& instructions, std::string_view reason) {
    cases.bad("pytorch", kind, zip_file(instructions, {{"0", kSix}}).bytes, reason);
  };
  const auto good = [&](std::string_view kind, const std::string& instructions) {
    cases.good("pytorch", kind, zip_file(instructions, {{"0", kSix}}).bytes);
  };
  good("a transposed tensor", a_table(tensor(reference(kStorage), {3, 2}, {1, 3})));
  good("a part of a storage", a_table(tensor(reference(kStorage), {2}, {2}, 3)));
  good("two tensors of one storage", table({{"a", kTensor}, {"b", kTensor}}));
  good("a parameter", a_table(name("torch._utils", "_rebuild_parameter") + "(" + kTensor + "\x88NtR"));
  good("the older function", a_table(tensor(reference(kStorage), {2, 3}, {3, 1}, 0, "_rebuild_tensor")));
  good("a table with attributes", a_table(kTensor) + "}" + text("_metadata") + "}sb");

  bad("a tensor alone", kTensor, "a table of names and tensors");
  bad("a list of tensors", "]" + kTensor + "a", "found a list");
  bad("a number in the table", a_table(whole(3)), "a dense tensor; found a number");
  bad("a table in the table", table({{"state_dict", a_table(kTensor)}}), "a dense tensor; found a table");
  bad("a name that is a number", "}(" + whole(1) + kTensor + "u", "texts as the names");
  bad("a name twice", table({{"a", kTensor}, {"a", kTensor}}), "it comes twice");
  bad("a model", a_table(name("transformers.models", "Bert") + ")R"), "an object of \"transformers.models.Bert\"");
  bad("a function", a_table(name("os", "system")), "found \"os.system\"");
  bad("a call of the system", a_table(name("os", "system") + text("true") + "\x85R"), "an object of \"os.system\"");
  bad("a call with a name of PyTorch's", a_table(name("torch", "_rebuild_tensor_v2") + "(tR"), "a dense tensor");
  bad("quantised weights", a_table(name("torch._utils", "_rebuild_qtensor") + "(tR"), "_rebuild_qtensor");
  bad("a sparse tensor", a_table(name("torch._utils", "_rebuild_sparse_tensor") + "(tR"), "_rebuild_sparse_tensor");
  bad("a parameter of nothing", a_table(name("torch._utils", "_rebuild_parameter") + ")R"), "a dense tensor");
  bad("a tensor of nothing", a_table(name("torch._utils", "_rebuild_tensor_v2") + ")R"), "found one of 0 arguments");
  // PyTorch's negative view: {"neg": True} behind the six arguments.
  bad("a tensor with the other sign", a_table(replaced(kTensor, ")RtR", ")R}" + text("neg") + "\x88stR")),
      "found one of 7 arguments");
  bad("a parameter with more to do", a_table(name("torch._utils", "_rebuild_parameter") + "(" + kTensor + "\x88NNtR"),
      "a dense tensor");
  bad("a tensor without storage", a_table(tensor(whole(0), {2, 3}, {3, 1})), "found something else");

  const auto bad_tensor = [&](std::string_view kind, const std::string& storage, const std::vector<int64_t>& extents,
                              const std::vector<int64_t>& strides, int64_t first, std::string_view reason) {
    bad(kind, a_table(tensor(storage, extents, strides, first)), reason);
  };
  const std::string six = reference(kStorage);
  bad_tensor("a storage of another kind", "(" + text("module") + whole(0) + "tQ", {6}, {1}, 0, "found another");
  bad_tensor("a storage named by a text", text("0") + "Q", {6}, {1}, 0, "found another");
  bad_tensor("a storage with more behind it", reference(kStorage, "NN"), {6}, {1}, 0, "found another");
  bad_tensor("a key of 200 bytes", reference({.key = std::string(200, 'k'), .numbers = 6}), {6}, {1}, 0,
             "found another");
  bad_tensor("a part of another storage", reference(kStorage, "(" + text("0") + whole(1) + whole(2) + "t"), {6}, {1}, 0,
             "a part of another one");
  bad_tensor("numbers of 16 bits", reference({.type = "ShortStorage", .numbers = 6}), {6}, {1}, 0, "ShortStorage");
  bad_tensor("complex numbers", reference({.type = "ComplexFloatStorage", .numbers = 6}), {6}, {1}, 0, "Complex");
  bad_tensor("a negative size", reference({.numbers = -1}), {6}, {1}, 0, "found -1 numbers");
  bad_tensor("a size that overflows", reference({.numbers = INT64_MAX}), {6}, {1}, 0, "found 9223372036854775807");
  bad_tensor("one extent more", six, {2, 3, 1}, {3, 1}, 0, "a stride for each extent");
  bad_tensor("one stride more", six, {2, 3}, {3, 1, 1}, 0, "a stride for each extent");
  bad_tensor("a negative extent", six, {-2, 3}, {3, 1}, 0, "from 0 on");
  bad_tensor("a negative stride", six, {2, 3}, {-3, 1}, 0, "from 0 on");
  bad_tensor("nine axes", six, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, "at most 8 axes");
  bad_tensor("extents that overflow", six, {int64_t{1} << 40, int64_t{1} << 40}, {1, 1}, 0, "its shape is larger");
  bad_tensor("strides that overflow", six, {3, 2}, {INT64_MAX, 1}, 0, "no more numbers than places");
  bad_tensor("numbers behind the storage", six, {7}, {1}, 0, "in a storage of 6");
  bad_tensor("a stride too long", six, {2, 3}, {4, 1}, 0, "in a storage of 6");
  bad_tensor("a first number too far", six, {2, 3}, {3, 1}, 1, "in a storage of 6");
  bad_tensor("a negative place", six, {2, 3}, {3, 1}, -1, "in a storage of 6");
  bad_tensor("an empty tensor too far", six, {0}, {1}, 7, "in a storage of 6");
  bad_tensor("one number everywhere", six, {6}, {0}, 0, "no more numbers than places");
  bad_tensor("a terabyte of one number", six, {int64_t{1} << 38}, {0}, 0, "no more numbers than places");
  bad("one storage in two types",
      table({{"a", kTensor}, {"b", tensor(reference({.type = "IntStorage", .numbers = 6}), {6}, {1})}}),
      "the type and size that storage \"0\" had");
  bad("one storage in two sizes", table({{"a", kTensor}, {"b", tensor(reference({.numbers = 5}), {5}, {1})}}),
      "the type and size that storage \"0\" had");
  cases.bad(
      "pytorch", "booleans that are 1 and 2",
      zip_file(a_table(tensor(reference({.type = "BoolStorage", .numbers = 2}), {2}, {1})), {{"0", "\1\2"}}).bytes,
      "booleans 0 and 1");
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 200; ++i) many.emplace_back(std::to_string(i), tensor(reference({.numbers = 6000}), {3000}, {2}));
  cases.bad("pytorch", "200 copies of one storage", zip_file(table(many), {{"0", std::string(24000, '\1')}}).bytes,
            "16 times the file's bytes");
}

void add_pickles(Cases& cases) {
  const auto bad = [&](std::string_view kind, const std::string& bytes, std::string_view reason) {
    cases.bad("pytorch", kind, zip({{"x/data.pkl", bytes}, {"x/data/0", kSix}}).bytes, reason);
  };
  const auto good = [&](std::string_view kind, const std::string& bytes) {
    cases.good("pytorch", kind, zip({{"x/data.pkl", bytes}, {"x/data/0", kSix}}).bytes);
  };
  good("protocol 4", "\x80\4\x95" + bytes_of(uint64_t{9}) + "}\x94\x8c\1a\x94" + kTensor + "s.");
  good("a class by its name on the stack", "\x80\4}\x8c\1a" +
                                               replaced(kTensor, name("torch._utils", "_rebuild_tensor_v2"),
                                                        "\x8c\x0ctorch._utils\x8c\x12_rebuild_tensor_v2\x93") +
                                               "s.");
  const std::string number = bytes_of(uint32_t{300});
  good("values that are used again",
       pickle("}(" + text("a") + kTensor + "r" + number + text("b") + "j" + number + "u"));
  bad("no bytes", "", "1 more bytes");
  bad("protocol 0", "(dp0\n.", "protocol 2 to 5");
  bad("protocol 1", "\x80\1}.", "found 1");
  bad("protocol 6", "\x80\6}.", "found 6");
  bad("no end", "\x80\2}", "1 more bytes");
  bad("nothing at the end", pickle(""), "one value at the end; found 0");
  bad("two values at the end", pickle("}}"), "one value at the end; found 2");
  bad("a mark at the end", pickle("(}"), "one value at the end");
  bad("no mark", pickle("}u"), "a mark on the stack");
  bad("a value below the mark", pickle("}(s"), "a value on the stack");
  bad("a tuple of too few", pickle("N\x87"), "a value on the stack");
  bad("an entry of a text", pickle(text("a") + text("b") + text("c") + "s"), "instruction for a table");
  bad("a key without value", pickle("}(" + text("a") + "u"), "one key more");
  bad("an item of a table", pickle("}Na"), "instruction for a list");
  bad("attributes of a list", pickle("]Nb"), "instruction for a table");
  bad("a call of a text", pickle(text("a") + ")R"), "a function and its arguments");
  bad("a call without arguments", pickle(name("os", "system") + "NR"), "a function and its arguments");
  bad("a class named by numbers", pickle("NN\x93"), "two texts");
  bad("a value that was not written down", pickle("h\5"), "found none under number 5");
  bad("nothing to write down", pickle("q\1"), "a value on the stack");
  bad("an unknown instruction", pickle("\xff"), "found 0xff");
  bad("an instance as older protocols have it", pickle("(ios\nsystem\n"), "found 0x69");
  bad("an extension's code", pickle("\x82\1"), "found 0x82");
  bad("a set", pickle("\x8f"), "found 0x8f");
  bad("a text of 4 GiB", pickle("X\xff\xff\xff\xff"), "more bytes");
  bad("a text of 2^63 bytes", pickle("\x8d" + bytes_of(uint64_t{1} << 63)), "the size of a text");
  bad("a number cut off", std::string("\x80\2J\1"), "4 more bytes");
  bad("a name without end", "\x80\2ctorch", "1 more bytes");
  bad("a name of 200 bytes", pickle("c" + std::string(200, 'a') + "\na\n"), "fewer than 200 bytes");
  bad("a name of 200 bytes on the stack", pickle(text(std::string(200, 'a')) + text("a") + "\x93"),
      "fewer than 200 bytes");
  bad("a number of 9 bytes", pickle("\x8a\x09" + std::string(9, '\1')), "at most 8 bytes; found 9");
  bad("a table in itself", pickle("}q\1" + text("a") + "h\1s"), "a dense tensor; found a table");
  bad("five million instructions", "\x80\2}" + std::string(5'000'000, 'N') + ".", "at most 2097152 bytes");
}

}  // namespace

void add_pytorch(Cases& cases) {
  add_containers(cases);
  add_tables(cases);
  add_pickles(cases);
}

}  // namespace heed::malformed
