// safetensors, and the index of shards.
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

std::string with_header(std::string_view header, std::string_view data = {}) {
  return bytes_of(static_cast<uint64_t>(header.size())).append(header).append(data);
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return "\"" + std::string(name) + "\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) +
         ",\"data_offsets\":" + std::string(offsets) + "}";
}

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets, std::string_view data) {
  return with_header("{" + entry("a", dtype, shape, offsets) + "}", data);
}

std::string two(std::string_view first, std::string_view second, std::string_view data) {
  return with_header("{" + std::string(first) + "," + std::string(second) + "}", data);
}

void add_safetensors(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("safetensors", kind, std::move(contents), reason);
  };
  const std::string good = one("F32", "[1]", "[0,4]", "1234");
  cases.good("safetensors", "one float", good);
  cases.good("safetensors", "metadata", with_header("{\"__metadata__\":{\"format\":\"pt\"}}"));
  cases.good("safetensors", "unsorted",
             two(entry("a", "U8", "[1]", "[4,5]"), entry("b", "F32", "[]", "[0,4]"), "12345"));
  cases.good("safetensors", "without elements", one("F16", "[0,7]", "[0,0]", ""));

  bad("empty", "", "at least 8 bytes; found 0");
  bad("7 bytes", "1234567", "found 7");
  bad("length 0", with_header(""), "at byte");
  bad("length 2^64 - 1", patched(good, 0, std::string(8, '\xff')), "say 18446744073709551615");
  bad("length 2^63", patched(good, 0, std::string("\0\0\0\0\0\0\0\x80", 8)), "say 9223372036854775808");
  bad("length one too large", bytes_of(uint64_t{3}) + "{}", "say 3");
  bad("length 100 MB", bytes_of(uint64_t{100'000'001}) + "{}", "say 100000001");
  bad("length inside of the JSON", patched(good, 0, bytes_of(uint64_t{20})), "at byte");
  bad("a bracket", with_header("{"), "at byte");
  bad("an array", with_header("[]"), "no array here");
  bad("a number", with_header("1"), "no number here");
  bad("null", with_header("null"), "without null");
  bad("text after the object", with_header("{} {}"), "at byte");
  bad("100,000 brackets", with_header(std::string(100'000, '[')), "no array here");
  bad("100,000 braces", with_header([] {
        std::string deep;
        for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
        return deep;
      }()),
      "only dtype, shape and data_offsets");
  bad("UTF-16", with_header(std::string("{\0}\0", 4)), "at byte");
  bad("byte order mark of UTF-16", with_header("\xff\xfe{}"), "at byte");
  bad("no UTF-8", with_header("{\"\xff\":{}}"), "at byte");
  bad("overlong UTF-8", with_header("{\"\xc0\xaf\":{}}"), "at byte");
  bad("half of a surrogate pair", with_header("{\"\\ud800\":{}}"), "at byte");
  bad("NUL in a name", with_header(std::string("{\"a\0\":{}}", 9)), "at byte");
  bad("a comma too many", with_header("{" + entry("a", "F32", "[1]", "[0,4]") + ",}", "1234"), "at byte");
  bad("a comment", with_header("{/**/}"), "at byte");
  bad("hexadecimal", one("F32", "[0x1]", "[0,4]", "1234"), "at byte");
  bad("NaN", one("F32", "[NaN]", "[0,4]", "1234"), "at byte");
  bad("1e999", one("F32", "[1e999]", "[0,4]", "1234"), "at byte");
  bad("400 digits", one("F32", "[" + std::string(400, '9') + "]", "[0,4]", "1234"), "at byte");
  bad("no dtype", with_header("{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", "1234"),
      "dtype, shape and data_offsets");
  bad("no shape", with_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", "1234"), "for every tensor");
  bad("no offsets", with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "1234"), "for every tensor");
  bad("a tensor that is text", with_header("{\"a\":\"b\"}"), "no string here");
  bad("a tensor that is a list", with_header("{\"a\":[]}"), "no array here");
  bad("dtype twice", with_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), "\"dtype\" once");
  bad("shape twice", with_header("{\"a\":{\"shape\":[1],\"shape\":[1]}}"), "\"shape\" once");
  bad("offsets twice", with_header("{\"a\":{\"data_offsets\":[0,4],\"data_offsets\":[0,4]}}"),
      "once, with two numbers");
  bad("key unknown", with_header("{\"a\":{\"strides\":[1]}}"), "found another key");
  bad("dtype a number", with_header("{\"a\":{\"dtype\":1}}"), "no number here");
  bad("dtype empty", one("", "[1]", "[0,4]", "1234"), "tensor \"a\" of dtype");
  bad("dtype in lower case", one("f32", "[1]", "[0,4]", "1234"), "found \"f32\"");
  bad("dtype F8_E4M3", one("F8_E4M3", "[4]", "[0,4]", "1234"), "F8_E4M3");
  bad("dtype F8_E5M2", one("F8_E5M2", "[4]", "[0,4]", "1234"), "F8_E5M2");
  bad("dtype F4 with half a byte", one("F4", "[3]", "[0,2]", "12"), "F4");
  bad("dtype C64", one("C64", "[1]", "[0,8]", "12345678"), "C64");
  bad("shape null", with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":null}}"), "without null");
  bad("shape text", with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":\"1\"}}"), "no string here");
  bad("shape nested", with_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[[1]]}}"), "no array here");
  bad("extent negative", one("F32", "[-1]", "[0,4]", "1234"), "a negative number");
  bad("extent a fraction", one("F32", "[1.0]", "[0,4]", "1234"), "a fraction");
  bad("extent text", one("F32", "[\"1\"]", "[0,4]", "1234"), "no string here");
  bad("extent 2^63", one("F32", "[9223372036854775808]", "[0,4]", "1234"), "below 2^63");
  bad("extent 2^64", one("F32", "[18446744073709551616]", "[0,4]", "1234"), "beyond 2^64");
  bad("9 axes", one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]", "1234"), "at most 8 axes");
  bad("1,000 axes",
      one(
          "F32",
          "[1" +
              [] {
                std::string more;
                for (int i = 1; i < 1000; ++i) more += ",1";
                return more;
              }() +
              "]",
          "[0,4]", "1234"),
      "at most 8 axes");
  bad("product of extents overflows", one("F32", "[2,9223372036854775807]", "[0,4]", "1234"), "fewer than 2^63 bytes");
  bad("bytes overflow", one("F64", "[1152921504606846976]", "[0,4]", "1234"), "fewer than 2^63 bytes");
  bad("product that wraps to 0", one("F32", "[4294967296,4294967296]", "[0,0]", ""), "fewer than 2^63 bytes");
  bad("large extents beside a 0", one("F32", "[0,9223372036854775807]", "[0,0]", ""), "fewer than 2^63 bytes");
  bad("one offset", one("F32", "[1]", "[0]", "1234"), "with two numbers");
  bad("three offsets", one("F32", "[1]", "[0,4,8]", "1234"), "with two numbers");
  bad("offsets reversed", one("F32", "[1]", "[4,0]", "1234"), "data_offsets are 4 to 0");
  bad("offset negative", one("F32", "[1]", "[-4,0]", "1234"), "a negative number");
  bad("offset 2^63 - 1", one("F32", "[1]", "[9223372036854775803,9223372036854775807]", "1234"),
      "it ends at byte 9223372036854775807");
  bad("end beyond the file", one("F32", "[2]", "[0,8]", "1234"), "it ends at byte 8");
  bad("data cut off by one byte", good.substr(0, good.size() - 1), "is the file cut short?");
  bad("no data", good.substr(0, good.size() - 4), "is the file cut short?");
  bad("fewer bytes than the shape", one("F32", "[2]", "[0,4]", "1234"), "to have 8 bytes");
  bad("more bytes than the shape", one("F32", "[1]", "[0,8]", "12345678"), "to have 4 bytes");
  bad("first tensor not at 0", one("F32", "[1]", "[1,5]", "12345"), "to begin at byte 0");
  bad("a hole", two(entry("a", "U8", "[1]", "[0,1]"), entry("b", "U8", "[1]", "[2,3]"), "123"), "to begin at byte 1");
  bad("overlap by one byte", two(entry("a", "U8", "[2]", "[0,2]"), entry("b", "U8", "[2]", "[1,3]"), "123"),
      "to begin at byte 2");
  bad("two names for the same bytes", two(entry("a", "U8", "[2]", "[0,2]"), entry("b", "U8", "[2]", "[0,2]"), "12"),
      "to begin at byte 2");
  bad("the same name twice", two(entry("a", "U8", "[1]", "[0,1]"), entry("a", "U8", "[1]", "[1,2]"), "12"),
      "tensor \"a\" comes twice");
  bad("the same name, escaped", two(entry("a", "U8", "[1]", "[0,1]"), entry("\\u0061", "U8", "[1]", "[1,2]"), "12"),
      "tensor \"a\" comes twice");
  bad("a zip archive appended", good + "PK\3\4", "cover all 8 bytes");
  bad("one byte appended", good + '\0', "cover all 5 bytes");
  bad("data without a tensor", with_header("{}", "1234"), "cover all 4 bytes");
  bad("booleans 2", one("BOOL", "[1]", "[0,1]", "\2"), "bytes 0 and 1");
  bad("metadata a number", with_header("{\"__metadata__\":1}"), "no number here");
  bad("metadata of numbers", with_header("{\"__metadata__\":{\"a\":1}}"), "no number here");
  bad("metadata nested", with_header("{\"__metadata__\":{\"a\":{}}}"), "no object here");
  bad("metadata twice", with_header("{\"__metadata__\":{},\"__metadata__\":{}}"), "\"__metadata__\" once");
  bad("metadata key twice", with_header("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}"), "has one twice");
  bad("a pointer of Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
      "found a pointer of Git LFS");
  bad("a page of HTML", "<!DOCTYPE html><html><body>404</body></html>", "the first 8 bytes say");
  bad("gzip", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10), "the first 8 bytes say");
  bad("pickle", std::string("\x80\x04\x95\0\0\0\0\0\0\0\0.", 12), "the first 8 bytes say");
  const auto named = [](std::string_view name, std::string_view dtype, std::string_view shape, std::string_view data) {
    return with_header("{" + entry(name, dtype, shape, "[0," + std::to_string(data.size()) + "]") + "}", data);
  };
  bad("weights of GPTQ", named("l.qweight", "I32", "[1]", "1234"), "GPTQ or AWQ: tensor \"l.qweight\"");
  bad("weights of bitsandbytes, 8 bits", named("l.SCB", "F32", "[1]", "1234"),
      "bitsandbytes (8 bits): tensor \"l.SCB\"");
  bad("weights of bitsandbytes, 4 bits", named("l.weight.absmax", "F32", "[1]", "1234"), "bitsandbytes (4 bits)");
  bad("weights of compressed-tensors", named("l.weight_packed", "I32", "[1]", "1234"), "compressed-tensors");
  bad("scales beside weights", named("l.weight_scale_inv", "F32", "[1]", "1234"), "scales beside them");
  bad("weights in 8-bit integers", named("l.weight", "I8", "[4]", "1234"), "8-bit integers");
  bad("weights in MXFP4", named("l.experts.down_proj_blocks", "U8", "[4]", "1234"), "MXFP4");
  bad("sparse weights", named("l.weight.bitmask", "U8", "[4]", "1234"), "sparse weights");
}

void add_index(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("shard_index", kind, std::move(contents), reason);
  };
  const std::string good =
      "{\"metadata\":{\"total_size\":36},\"weight_map\":{\"a\":\"model-00001-of-00002.safetensors\","
      "\"b\":\"model-00001-of-00002.safetensors\",\"c\":\"model-00002-of-00002.safetensors\"}}";
  cases.good("shard_index", "two shards", good);
  const auto shard = [&](std::string_view name) { return replaced(good, "model-00002-of-00002.safetensors", name); };
  bad("empty", "", " at line 1");
  bad("cut off", good.substr(0, good.size() - 1), " at line 1");
  bad("no UTF-8", replaced(good, "\"a\"", "\"\xff\""), " at line 1");
  bad("an array", "[]", "\"weight_map\"");
  bad("9 levels", "[[[[[[[[[]]]]]]]]]", "8 levels");
  bad("100,000 levels", std::string(100'000, '['), "8 levels");
  bad("no weight_map", "{}", "\"weight_map\"");
  bad("weight_map a list", "{\"weight_map\":[]}", "\"weight_map\"");
  bad("weight_map without tensors", "{\"weight_map\":{}}", "at least one tensor");
  bad("a tensor twice", replaced(good, "\"b\"", "\"a\""), "found \"a\" twice");
  bad("a shard that is a number", replaced(good, "\"model-00002-of-00002.safetensors\"", "2"), "tensor \"c\"");
  bad("a shard that is null", replaced(good, "\"model-00002-of-00002.safetensors\"", "null"), "tensor \"c\"");
  for (const std::string_view name :
       {"../model.safetensors", "/etc/passwd", "a/../../b.safetensors", "C:\\\\x.safetensors", "\\\\\\\\srv\\\\x",
        "~/x.safetensors", "", ".", "..", "sub/model.safetensors", "model..safetensors", ".hidden.safetensors",
        "a\\u0000.safetensors", "caf\xc3\xa9.safetensors"}) {
    bad("shard named " + std::string(name), shard(name), "tensor \"c\"");
  }
  bad("the index as a shard", shard("model.safetensors.index.json"), "tensor \"c\"");
  bad("pickle as a shard", shard("pytorch_model-00002-of-00002.bin"), "tensor \"c\"");
  bad("a missing shard", shard("model-00003-of-00003.safetensors"), "is the download complete?");
  bad("a tensor that is in another shard", shard("model-00001-of-00002.safetensors"), "tensor \"c\"");
  bad("a tensor that no shard has", replaced(good, "\"c\"", "\"d\""), "only tensors that");
  bad("a shard whose second tensor is not listed", replaced(good, "\"b\":\"model-00001-of-00002.safetensors\",", ""),
      "found \"b\"");
  bad("metadata a list", replaced(good, "{\"total_size\":36}", "[]"), "\"metadata\"");
  bad("total_size text", replaced(good, "36", "\"36\""), "\"total_size\"");
  bad("total_size negative", replaced(good, "36", "-1"), "\"total_size\"");
  bad("total_size 1e999", replaced(good, "36", "1e999"), "1e999");
}

}  // namespace

void add_weights(Cases& cases) {
  add_safetensors(cases);
  add_index(cases);
}

}  // namespace heed::malformed
