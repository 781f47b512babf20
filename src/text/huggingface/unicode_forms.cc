// Decomposition, canonical order and composition (Unicode Standard Annex 15), over runs of characters that can change.
//
// Each character carries its change as Rewriter::put() takes it: the first of a decomposition is 0 and the others 1,
// and a composition is the sum of its two parts less 1. The changes stay with their characters where these are
// reordered.
#include "text/huggingface/unicode_forms.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/huggingface/unicode_versions.h"

namespace heed::text::huggingface {

namespace {

struct FormPart {
  int32_t code_point = 0;
  int32_t combining_class = 0;
  int64_t change = 0;
};

int32_t combining_class(int32_t c) {
  return is_young_mark(c) ? 0 : static_cast<int32_t>(utf8proc_get_property(c)->combining_class);
}

bool is_hangul(int32_t c) { return (c >= 0x1100 && c <= 0x11ff) || (c >= 0xac00 && c <= 0xd7a3); }

// It neither decomposes nor composes, and nothing moves over it.
bool is_inert(int32_t c) {
  if (c < 0x80) return c != '<' && c != '=' && c != '>' && !(c >= 'A' && c <= 'Z') && !(c >= 'a' && c <= 'z');
  const utf8proc_property_t* const property = utf8proc_get_property(c);
  return property->decomp_seqindex == UINT16_MAX && property->comb_index == UINT16_MAX &&
         property->combining_class == 0 && !is_hangul(c);
}

void decompose(int32_t c, bool compatibility, std::vector<FormPart>& parts) {
  std::array<utf8proc_int32_t, 32> made{};  // the longest decomposition has 18
  int boundary = 0;
  const bool too_young = (compatibility && is_young_compatibility(c)) || c == 0x11938;
  const int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  utf8proc_ssize_t count = 0;
  if (!too_young) {
    count = utf8proc_decompose_char(c, made.data(), made.size(), static_cast<utf8proc_option_t>(options), &boundary);
  }
  if (count <= 0) {
    made[0] = c;
    count = 1;
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const int32_t part = made[static_cast<size_t>(i)];
    parts.push_back({part, combining_class(part), i == 0 ? 0 : 1});
  }
}

// Stable: marks of the same class keep their order.
void put_in_order(std::vector<FormPart>& parts) {
  for (auto at = parts.begin(); at != parts.end();) {
    at = std::find_if(at, parts.end(), [](const FormPart& part) { return part.combining_class != 0; });
    const auto end = std::find_if(at, parts.end(), [](const FormPart& part) { return part.combining_class == 0; });
    std::stable_sort(at, end,
                     [](const FormPart& a, const FormPart& b) { return a.combining_class < b.combining_class; });
    at = end;
  }
}

// The composition of two characters, or -1.
int32_t composition(int32_t first, int32_t second) {
  utf8proc_int32_t pair[3] = {first, second, 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? pair[0] : -1;
}

void compose(std::vector<FormPart>& parts) {
  size_t kept = 0;
  size_t starter = parts.size();  // none
  int32_t last_class = -1;        // of the character before, if it stays behind the starter
  for (const FormPart& part : parts) {
    if (starter < kept && last_class < part.combining_class) {
      const int32_t composed = composition(parts[starter].code_point, part.code_point);
      if (composed >= 0) {
        parts[starter].code_point = composed;
        parts[starter].change += part.change - 1;
        continue;
      }
    }
    if (part.combining_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = part.combining_class;
    }
    parts[kept++] = part;
  }
  parts.resize(kept);
}

}  // namespace

void normalise(AlignedText& text, NormalForm form) {
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatibility = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const std::string& old = text.text();
  // Nothing below U+00A0 changes by itself, and nothing below U+0300 changes in NFC.
  const auto changes_nothing = [&](size_t at) {
    const auto byte = static_cast<uint8_t>(old[at]);
    return byte < 0x80 || (form == NormalForm::nfc && byte < 0xcc);
  };
  size_t first = 0;
  while (first < old.size() && changes_nothing(first)) first += character_size(old, first);
  if (first == old.size()) return;

  Rewriter out(text);
  std::vector<FormPart> parts;
  size_t inert_from = 0;
  // A letter of ASCII with another character of ASCII behind it stays as it is, too.
  const auto stays = [&](size_t at, const Character& c) {
    return is_inert(c.code_point) ||
           (c.code_point < 0x80 && (at + 1 == old.size() || static_cast<uint8_t>(old[at + 1]) < 0x80));
  };
  for (size_t at = 0; at < old.size();) {
    Character c = character_at(old, at);
    if (stays(at, c)) {
      at += c.size;
      continue;
    }
    out.keep(at - inert_from);
    parts.clear();
    do {
      decompose(c.code_point, compatibility, parts);
      at += c.size;
      if (at < old.size()) c = character_at(old, at);
    } while (at < old.size() && !stays(at, c));
    put_in_order(parts);
    if (composes) compose(parts);
    for (const FormPart& part : parts) out.put(part.code_point, part.change);
    inert_from = at;
  }
  out.keep_rest();
  out.finish();
}

}  // namespace heed::text::huggingface
