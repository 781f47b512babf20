// CTranslate2's model.bin.
#include "malformed/cases.h"

namespace heed::malformed {
namespace {

std::string text(std::string_view value) {
  return bytes_of(static_cast<uint16_t>(value.size() + 1)).append(value) + '\0';
}

std::string head(uint32_t version, uint32_t variables) {
  return bytes_of(version) + text("TransformerSpec") + bytes_of(uint32_t{7}) + bytes_of(variables);
}

// A variable of version 4 and later.
std::string variable(std::string_view name, const std::vector<uint32_t>& extents, uint8_t type, std::string_view data) {
  std::string bytes = text(name) + static_cast<char>(extents.size());
  for (const uint32_t extent : extents) bytes += bytes_of(extent);
  return bytes + static_cast<char>(type) + bytes_of(static_cast<uint32_t>(data.size())) + std::string(data);
}

std::string file(uint32_t count, std::string_view variables,
                 std::string_view aliases = std::string_view("\0\0\0\0", 4)) {
  return head(6, count).append(variables).append(aliases);
}

std::string alias(std::string_view name, std::string_view target) {
  return bytes_of(uint32_t{1}) + text(name) + text(target);
}

}  // namespace

void add_ctranslate2(Cases& cases) {
  const auto bad = [&](std::string_view kind, std::string contents, std::string_view reason) {
    cases.bad("ctranslate2", kind, std::move(contents), reason);
  };
  const std::string a = variable("a/weight", {2}, 0, "12345678");
  const std::string good = file(1, a);
  const std::string scale = variable("q/weight_scale", {2}, 0, bytes_of(2.0f) + bytes_of(4.0f));
  const std::string quantised = variable("q/weight", {2, 2}, 1, "1234");
  const std::string old = text("a") + '\1' + bytes_of(uint32_t{2}) + '\4' + bytes_of(uint32_t{2}) + "12345678";
  cases.good("ctranslate2", "version 6", good);
  cases.good("ctranslate2", "version 2", head(2, 1) + old);
  cases.good("ctranslate2", "8 bits and scales", file(2, quantised + scale));
  cases.good("ctranslate2", "an alias", file(1, a, alias("b/weight", "a/weight")));
  cases.good("ctranslate2", "settings", file(2, variable("heads", {}, 2, "\x08\x7f") + variable("on", {}, 1, "\1")));

  bad("empty", "", "4 more bytes");
  bad("3 bytes", "\6\0", "4 more bytes");
  bad("version 0", patched(good, 0, bytes_of(uint32_t{0})), "found version 0");
  bad("version 1", patched(good, 0, bytes_of(uint32_t{1})), "found version 1");
  bad("version 7", patched(good, 0, bytes_of(uint32_t{7})), "found version 7");
  bad("version of the other byte order", patched(good, 0, std::string("\0\0\0\6", 4)), "found version 100663296");
  bad("a safetensors file", bytes_of(uint64_t{2}) + "{}", "byte");
  bad("pickle", std::string("PK\3\4\0\0\0\0", 8), "found version 67324752");
  bad("no name of the kind", good.substr(0, 4), "2 more bytes");
  bad("name of the kind without bytes", bytes_of(uint32_t{6}) + bytes_of(uint16_t{0}), "found no bytes");
  bad("name without its 0", patched(good, 4 + 2 + 15, "x"), "byte 0");
  bad("name with a 0 inside", patched(good, 4 + 2 + 3, std::string(1, '\0')), "only byte 0");
  bad("name beyond the file", patched(good, 4, "\xff\xff"), "65535 more bytes");
  bad("no revision", good.substr(0, 4 + 2 + 16), "4 more bytes");
  bad("no count", good.substr(0, 4 + 2 + 16 + 4), "4 more bytes");
  bad("2^32 - 1 variables", patched(good, 4 + 2 + 16 + 4, "\xff\xff\xff\xff"), "a count of 4294967295");
  bad("one variable too many", head(6, 2) + a, "byte");
  bad("one variable too few", head(6, 1) + a + a, "byte");
  bad("a variable twice", file(2, a + a), "\"a/weight\" comes twice");
  bad("a variable without name", file(1, bytes_of(uint16_t{0}) + a), "found no bytes");
  bad("9 axes", file(1, variable("a", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, "1234")), "at most 8 axes; found 9");
  bad("255 axes", file(1, text("a") + "\xff" + std::string(1020, '\1')), "found 255");
  bad("extents cut off", file(1, text("a") + "\x08"), "4 more bytes");
  bad("product of extents overflows", file(1, variable("a", {4294967295U, 4294967295U, 4294967295U}, 0, "")),
      "fewer than 2^63 bytes");
  bad("large extents beside a 0", file(1, variable("a", {0, 4294967295U, 4294967295U, 4294967295U}, 0, "")),
      "fewer than 2^63 bytes");
  bad("product that wraps to 0", file(1, variable("a", {65536, 65536, 65536, 65536}, 0, "")), "fewer than 2^63 bytes");
  bad("more elements than bytes", file(1, variable("a", {3}, 0, "12345678")), "12 bytes, as its extents say; found 8");
  bad("fewer elements than bytes", file(1, variable("a", {1}, 0, "12345678")), "4 bytes, as its extents say; found 8");
  bad("elements beyond the file",
      file(1, text("a") + '\1' + bytes_of(uint32_t{1 << 30}) + '\1' + bytes_of(uint32_t{1 << 30})), "more bytes");
  bad("type 6", file(1, variable("a", {1}, 6, "1234")), "found type 6");
  bad("type 255", file(1, variable("a", {1}, 255, "1234")), "found type 255");
  bad("16-bit weights", file(1, variable("a/weight", {2}, 2, "1234")), "quantised weights of 16 bits");
  bad("version 2, elements of 3 bytes", patched(head(2, 1) + old, head(2, 1).size() + 9, "\3"), "found 3");
  bad("version 2, elements of 8 bytes", patched(head(2, 1) + old, head(2, 1).size() + 9, "\x08"), "found 8");
  bad("version 2 with aliases", head(2, 1) + old + bytes_of(uint32_t{0}), "4 more bytes");
  bad("8 bits without scales", file(1, quantised), "with scales beside it");
  bad("too few scales", file(2, quantised + variable("q/weight_scale", {1}, 0, bytes_of(2.0f))),
      "for each of its rows");
  bad("scales in f16", file(2, quantised + variable("q/weight_scale", {2}, 4, "1234")), "one scale in f32");
  bad("one scale for all rows", file(2, quantised + variable("q/weight_scale", {}, 0, bytes_of(2.0f))),
      "for each of its rows");
  for (const auto& [kind, value] : {std::pair{"scale 0", 0.0f},
                                    {"scale negative", -1.0f},
                                    {"scale NaN", __builtin_nanf("")},
                                    {"scale infinite", __builtin_inff()},
                                    {"scale too small", 1e-45f}}) {
    bad(kind, file(2, quantised + variable("q/weight_scale", {2}, 0, bytes_of(2.0f) + bytes_of(value))), "row 1");
  }
  bad("no count of aliases", head(6, 1) + a, "4 more bytes");
  bad("2^32 - 1 aliases", head(6, 1) + a + "\xff\xff\xff\xff", "a count of 4294967295");
  bad("alias cut off", file(1, a, bytes_of(uint32_t{1}) + text("b")), "byte");
  bad("alias of nothing", file(1, a, alias("b", "c")), "found one of \"c\"");
  bad("alias of itself", file(1, a, alias("b", "b")), "found one of \"b\"");
  bad("alias with the name of a variable", file(1, a, alias("a/weight", "a/weight")), "comes twice");
  bad("bytes after the aliases", good + "PK", "found 2 more bytes");
  bad("cut off by one byte", good.substr(0, good.size() - 1), "4 more bytes; 3 are left");
}

}  // namespace heed::malformed
