#include "text/huggingface/unicode_versions.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace heed::text::huggingface {

namespace {

struct Range {
  int32_t first, last;
};

// Numbers of Unicode 16 and 17, which utf8proc does not know.
constexpr Range kMoreNumbers[] = {{0x10d40, 0x10d49}, {0x116d0, 0x116e3}, {0x11bf0, 0x11bf9},
                                  {0x11de0, 0x11de9}, {0x16130, 0x16139}, {0x16d70, 0x16d79},
                                  {0x16ff4, 0x16ff6}, {0x1ccf0, 0x1ccf9}, {0x1e5f1, 0x1e5fa}};

// Letters in circles and squares, and words of Unicode 16.
constexpr Range kMoreWords[] = {{0x897, 0x897},     {0x1c89, 0x1c8a},   {0x24b6, 0x24e9},   {0xa7cb, 0xa7cd},
                                {0xa7da, 0xa7dc},   {0x105c0, 0x105f3}, {0x10d40, 0x10d65}, {0x10d69, 0x10d6d},
                                {0x10d6f, 0x10d85}, {0x10ec2, 0x10ec4}, {0x10efc, 0x10efc}, {0x11380, 0x11389},
                                {0x1138b, 0x1138b}, {0x1138e, 0x1138e}, {0x11390, 0x113b5}, {0x113b7, 0x113c0},
                                {0x113c2, 0x113c2}, {0x113c5, 0x113c5}, {0x113c7, 0x113ca}, {0x113cc, 0x113d3},
                                {0x113e1, 0x113e2}, {0x116d0, 0x116e3}, {0x11bc0, 0x11be0}, {0x11bf0, 0x11bf9},
                                {0x11f5a, 0x11f5a}, {0x13460, 0x143fa}, {0x16100, 0x16139}, {0x16d40, 0x16d6c},
                                {0x16d70, 0x16d79}, {0x18cff, 0x18cff}, {0x1ccf0, 0x1ccf9}, {0x1e5d0, 0x1e5fa},
                                {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}, {0x2ebf0, 0x2ee5d}};

// Punctuation that is younger than Unicode 8.
constexpr Range kNoPunctuation[] = {{0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
                                    {0xc84, 0xc84},     {0x1b7d, 0x1b7e},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},
                                    {0x10ead, 0x10ead}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x1144b, 0x1144f},
                                    {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
                                    {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
                                    {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11c41, 0x11c45},
                                    {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff},
                                    {0x12ff1, 0x12ff2}, {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e95e, 0x1e95f}};

// Format characters that are younger.
constexpr Range kNoControl[] = {{0x890, 0x891}, {0x8e2, 0x8e2}, {0x110cd, 0x110cd}, {0x13430, 0x1343f}};

// Marks that are younger than Unicode 9. Their combining class counts as 0 as well.
constexpr Range kNoMark[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xafa, 0xaff},
    {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},     {0xcf3, 0xcf3},     {0xd00, 0xd00},
    {0xd3b, 0xd3c},     {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},
    {0x180f, 0x180f},   {0x1abf, 0x1ace},   {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},
    {0xa8ff, 0xa8ff},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110c2, 0x110c2}, {0x11145, 0x11146},
    {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
    {0x1182c, 0x1183a}, {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193b, 0x1193e}, {0x11940, 0x11940},
    {0x11942, 0x11943}, {0x119d1, 0x119d7}, {0x119da, 0x119e0}, {0x119e4, 0x119e4}, {0x11a01, 0x11a0a},
    {0x11a33, 0x11a39}, {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47}, {0x11a51, 0x11a5b}, {0x11a8a, 0x11a99},
    {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a}, {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d45}, {0x11d47, 0x11d47},
    {0x11d8a, 0x11d8e}, {0x11d90, 0x11d91}, {0x11d93, 0x11d97}, {0x11ef3, 0x11ef6}, {0x11f00, 0x11f01},
    {0x11f03, 0x11f03}, {0x11f34, 0x11f3a}, {0x11f3e, 0x11f42}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x16f4f, 0x16f4f}, {0x16f7f, 0x16f87}, {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1}, {0x1cf00, 0x1cf2d},
    {0x1cf30, 0x1cf46}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}};

// Nonspacing marks that are younger than Unicode 8.
constexpr Range kNoNonspacingMark[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8e1},     {0x9fe, 0x9fe},     {0xafa, 0xaff},
    {0xb55, 0xb55},     {0xc04, 0xc04},     {0xc3c, 0xc3c},     {0xd00, 0xd00},     {0xd3b, 0xd3c},
    {0xd81, 0xd81},     {0xeba, 0xeba},     {0xece, 0xece},     {0x180f, 0x180f},   {0x1885, 0x1886},
    {0x1abf, 0x1ace},   {0x1df6, 0x1dfb},   {0xa82c, 0xa82c},   {0xa8c5, 0xa8c5},   {0xa8ff, 0xa8ff},
    {0xa9bd, 0xa9bd},   {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110c2, 0x110c2}, {0x111c9, 0x111c9},
    {0x111cf, 0x111cf}, {0x1123e, 0x1123e}, {0x11241, 0x11241}, {0x1133b, 0x1133b}, {0x11438, 0x1143f},
    {0x11442, 0x11444}, {0x11446, 0x11446}, {0x1145e, 0x1145e}, {0x1182f, 0x11837}, {0x11839, 0x1183a},
    {0x1193b, 0x1193c}, {0x1193e, 0x1193e}, {0x11943, 0x11943}, {0x119d4, 0x119d7}, {0x119da, 0x119db},
    {0x119e0, 0x119e0}, {0x11a01, 0x11a0a}, {0x11a33, 0x11a38}, {0x11a3b, 0x11a3e}, {0x11a47, 0x11a47},
    {0x11a51, 0x11a56}, {0x11a59, 0x11a5b}, {0x11a8a, 0x11a96}, {0x11a98, 0x11a99}, {0x11c30, 0x11c36},
    {0x11c38, 0x11c3d}, {0x11c3f, 0x11c3f}, {0x11c92, 0x11ca7}, {0x11caa, 0x11cb0}, {0x11cb2, 0x11cb3},
    {0x11cb5, 0x11cb6}, {0x11d31, 0x11d36}, {0x11d3a, 0x11d3a}, {0x11d3c, 0x11d3d}, {0x11d3f, 0x11d45},
    {0x11d47, 0x11d47}, {0x11d90, 0x11d91}, {0x11d95, 0x11d95}, {0x11d97, 0x11d97}, {0x11ef3, 0x11ef4},
    {0x11f00, 0x11f01}, {0x11f36, 0x11f3a}, {0x11f40, 0x11f40}, {0x11f42, 0x11f42}, {0x13440, 0x13440},
    {0x13447, 0x13455}, {0x16f4f, 0x16f4f}, {0x16fe4, 0x16fe4}, {0x1cf00, 0x1cf2d}, {0x1cf30, 0x1cf46},
    {0x1e000, 0x1e006}, {0x1e008, 0x1e018}, {0x1e01b, 0x1e021}, {0x1e023, 0x1e024}, {0x1e026, 0x1e02a},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
    {0x1e944, 0x1e94a}};

// Compatibility decompositions younger than Unicode 9.
constexpr Range kNoCompatibility[] = {{0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xab69, 0xab69},
                                      {0x10781, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
                                      {0x1e030, 0x1e06d}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9}};

struct Gained {
  int32_t first, last;
  const char* property;
};

// What came with Unicode 15 and 16.
constexpr Gained kGained[] = {{0x897, 0x897, "Mn"},
                              {0xcf3, 0xcf3, "Mc"},
                              {0xece, 0xece, "Mn"},
                              {0x1b4e, 0x1b4f, "Po"},
                              {0x1b7f, 0x1b7f, "Po"},
                              {0x1c89, 0x1c89, "Lu"},
                              {0x1c8a, 0x1c8a, "Ll"},
                              {0x2427, 0x2429, "So"},
                              {0x2ffc, 0x2fff, "So"},
                              {0x31e4, 0x31e5, "So"},
                              {0x31ef, 0x31ef, "So"},
                              {0xa7cb, 0xa7cc, "Lu"},
                              {0xa7cd, 0xa7cd, "Ll"},
                              {0xa7da, 0xa7da, "Lu"},
                              {0xa7db, 0xa7db, "Ll"},
                              {0xa7dc, 0xa7dc, "Lu"},
                              {0x105c0, 0x105f3, "Lo"},
                              {0x10d40, 0x10d49, "Nd"},
                              {0x10d4a, 0x10d4d, "Lo"},
                              {0x10d4e, 0x10d4e, "Lm"},
                              {0x10d4f, 0x10d4f, "Lo"},
                              {0x10d50, 0x10d65, "Lu"},
                              {0x10d69, 0x10d6d, "Mn"},
                              {0x10d6e, 0x10d6e, "Pd"},
                              {0x10d6f, 0x10d6f, "Lm"},
                              {0x10d70, 0x10d85, "Ll"},
                              {0x10d8e, 0x10d8f, "Sm"},
                              {0x10ec2, 0x10ec4, "Lo"},
                              {0x10efc, 0x10eff, "Mn"},
                              {0x1123f, 0x11240, "Lo"},
                              {0x11241, 0x11241, "Mn"},
                              {0x11380, 0x11389, "Lo"},
                              {0x1138b, 0x1138b, "Lo"},
                              {0x1138e, 0x1138e, "Lo"},
                              {0x11390, 0x113b5, "Lo"},
                              {0x113b7, 0x113b7, "Lo"},
                              {0x113b8, 0x113ba, "Mc"},
                              {0x113bb, 0x113c0, "Mn"},
                              {0x113c2, 0x113c2, "Mc"},
                              {0x113c5, 0x113c5, "Mc"},
                              {0x113c7, 0x113ca, "Mc"},
                              {0x113cc, 0x113cd, "Mc"},
                              {0x113ce, 0x113ce, "Mn"},
                              {0x113cf, 0x113cf, "Mc"},
                              {0x113d0, 0x113d0, "Mn"},
                              {0x113d1, 0x113d1, "Lo"},
                              {0x113d2, 0x113d2, "Mn"},
                              {0x113d3, 0x113d3, "Lo"},
                              {0x113d4, 0x113d5, "Po"},
                              {0x113d7, 0x113d8, "Po"},
                              {0x113e1, 0x113e2, "Mn"},
                              {0x116d0, 0x116e3, "Nd"},
                              {0x11b00, 0x11b09, "Po"},
                              {0x11bc0, 0x11be0, "Lo"},
                              {0x11be1, 0x11be1, "Po"},
                              {0x11bf0, 0x11bf9, "Nd"},
                              {0x11f00, 0x11f01, "Mn"},
                              {0x11f02, 0x11f02, "Lo"},
                              {0x11f03, 0x11f03, "Mc"},
                              {0x11f04, 0x11f10, "Lo"},
                              {0x11f12, 0x11f33, "Lo"},
                              {0x11f34, 0x11f35, "Mc"},
                              {0x11f36, 0x11f3a, "Mn"},
                              {0x11f3e, 0x11f3f, "Mc"},
                              {0x11f40, 0x11f40, "Mn"},
                              {0x11f41, 0x11f41, "Mc"},
                              {0x11f42, 0x11f42, "Mn"},
                              {0x11f43, 0x11f4f, "Po"},
                              {0x11f50, 0x11f59, "Nd"},
                              {0x11f5a, 0x11f5a, "Mn"},
                              {0x1342f, 0x1342f, "Lo"},
                              {0x13440, 0x13440, "Mn"},
                              {0x13441, 0x13446, "Lo"},
                              {0x13447, 0x13455, "Mn"},
                              {0x13460, 0x143fa, "Lo"},
                              {0x16100, 0x1611d, "Lo"},
                              {0x1611e, 0x16129, "Mn"},
                              {0x1612a, 0x1612c, "Mc"},
                              {0x1612d, 0x1612f, "Mn"},
                              {0x16130, 0x16139, "Nd"},
                              {0x16d40, 0x16d42, "Lm"},
                              {0x16d43, 0x16d6a, "Lo"},
                              {0x16d6b, 0x16d6c, "Lm"},
                              {0x16d6d, 0x16d6f, "Po"},
                              {0x16d70, 0x16d79, "Nd"},
                              {0x18cff, 0x18cff, "Lo"},
                              {0x1b132, 0x1b132, "Lo"},
                              {0x1b155, 0x1b155, "Lo"},
                              {0x1cc00, 0x1ccef, "So"},
                              {0x1ccf0, 0x1ccf9, "Nd"},
                              {0x1cd00, 0x1ceb3, "So"},
                              {0x1d2c0, 0x1d2d3, "No"},
                              {0x1df25, 0x1df2a, "Ll"},
                              {0x1e030, 0x1e06d, "Lm"},
                              {0x1e08f, 0x1e08f, "Mn"},
                              {0x1e4d0, 0x1e4ea, "Lo"},
                              {0x1e4eb, 0x1e4eb, "Lm"},
                              {0x1e4ec, 0x1e4ef, "Mn"},
                              {0x1e4f0, 0x1e4f9, "Nd"},
                              {0x1e5d0, 0x1e5ed, "Lo"},
                              {0x1e5ee, 0x1e5ef, "Mn"},
                              {0x1e5f0, 0x1e5f0, "Lo"},
                              {0x1e5f1, 0x1e5fa, "Nd"},
                              {0x1e5ff, 0x1e5ff, "Po"},
                              {0x1f6dc, 0x1f6dc, "So"},
                              {0x1f774, 0x1f776, "So"},
                              {0x1f77b, 0x1f77f, "So"},
                              {0x1f7d9, 0x1f7d9, "So"},
                              {0x1f8b2, 0x1f8bb, "So"},
                              {0x1f8c0, 0x1f8c1, "So"},
                              {0x1fa75, 0x1fa77, "So"},
                              {0x1fa87, 0x1fa89, "So"},
                              {0x1fa8f, 0x1fa8f, "So"},
                              {0x1faad, 0x1faaf, "So"},
                              {0x1fabb, 0x1fabf, "So"},
                              {0x1fac6, 0x1fac6, "So"},
                              {0x1face, 0x1facf, "So"},
                              {0x1fada, 0x1fadc, "So"},
                              {0x1fadf, 0x1fadf, "So"},
                              {0x1fae8, 0x1fae9, "So"},
                              {0x1faf7, 0x1faf8, "So"},
                              {0x1fbcb, 0x1fbef, "So"},
                              {0x2b739, 0x2b739, "Lo"},
                              {0x2ebf0, 0x2ee5d, "Lo"},
                              {0x31350, 0x323af, "Lo"},
                              {0x13439, 0x1343f, "Cf"},
                              // Of scripts that expressions name; others have gained characters too.
                              {0x2b739, 0x2b739, "sc:Han"},
                              {0x2ebf0, 0x2ee5d, "sc:Han"},
                              {0x31350, 0x323af, "sc:Han"},
                              {0x1b132, 0x1b132, "sc:Hiragana"},
                              {0x1b155, 0x1b155, "sc:Katakana"},
                              {0x897, 0x897, "sc:Arabic"},
                              {0x10ec2, 0x10ec4, "sc:Arabic"},
                              {0x10efc, 0x10eff, "sc:Arabic"},
                              {0xa7cb, 0xa7cd, "sc:Latin"},
                              {0xa7da, 0xa7dc, "sc:Latin"},
                              {0x1df25, 0x1df2a, "sc:Latin"},
                              {0x1c89, 0x1c8a, "sc:Cyrillic"},
                              {0x1e030, 0x1e06d, "sc:Cyrillic"},
                              {0x1e08f, 0x1e08f, "sc:Cyrillic"},
                              {0x11b00, 0x11b09, "sc:Devanagari"},
                              {0xcf3, 0xcf3, "sc:Kannada"},
                              {0xece, 0xece, "sc:Lao"},
                              {0x116d0, 0x116e3, "sc:Myanmar"}};

template <size_t N>
bool is_in(const Range (&ranges)[N], int32_t c) {
  const Range* const found =
      std::lower_bound(std::begin(ranges), std::end(ranges), c, [](const Range& r, int32_t x) { return r.last < x; });
  return found != std::end(ranges) && found->first <= c;
}

}  // namespace

bool is_young_number(int32_t c) { return is_in(kMoreNumbers, c); }
bool is_young_word(int32_t c) { return is_in(kMoreWords, c); }
bool is_young_punctuation(int32_t c) { return is_in(kNoPunctuation, c); }
bool is_young_control(int32_t c) { return is_in(kNoControl, c); }
bool is_young_mark(int32_t c) { return is_in(kNoMark, c); }
bool is_young_nonspacing_mark(int32_t c) { return is_in(kNoNonspacingMark, c); }
bool is_young_compatibility(int32_t c) { return is_in(kNoCompatibility, c); }

int32_t lower_case(int32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (c == 0x130) return 'i';
  if (c == 0x1c89 || c == 0xa7cc || c == 0xa7ce || c == 0xa7d2 || c == 0xa7d4 || c == 0xa7da) return c + 1;
  if (c == 0xa7cb) return 0x264;
  if (c == 0xa7dc) return 0x19b;
  if (c >= 0x10d50 && c <= 0x10d65) return c + 0x20;
  if (c >= 0x16ea0 && c <= 0x16eb8) return c + 0x1b;
  return utf8proc_tolower(c);
}

std::string range_in_class(int32_t first, int32_t last) {
  const auto hexadecimal = [](int32_t value) {
    std::string digits;
    do digits.insert(digits.begin(), "0123456789abcdef"[value % 16]);
    while ((value /= 16) > 0);
    return "\\x{" + digits + "}";
  };
  return hexadecimal(first) + "-" + hexadecimal(last);
}

std::string gained_by_property(std::string_view property) {
  std::string inside;
  for (const Gained& gained : kGained) {
    const std::string_view theirs = gained.property;
    if (theirs != property && (property.size() != 1 || theirs[0] != property[0])) continue;
    inside += range_in_class(gained.first, gained.last);
  }
  return inside;
}

}  // namespace heed::text::huggingface
