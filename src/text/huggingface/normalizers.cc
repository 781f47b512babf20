#include "text/huggingface/normalizers.h"

#include <array>

#include "base/fork.h"
#include "text/huggingface/unicode_versions.h"

namespace heed::text::huggingface {

namespace {

// One pass over the characters. `change(c)` gives the code point to write, or -1 to drop the character.
template <class Change>
void map_characters(AlignedText& text, const Change& change) {
  const std::string& old = text.text();
  size_t at = 0;
  while (at < old.size()) {  // up to the first change, nothing has to be written
    const Character c = character_at(old, at);
    if (change(c.code_point) != c.code_point) break;
    at += c.size;
  }
  if (at == old.size()) return;
  Rewriter out(text);
  out.keep(at);
  size_t kept_from = at;
  while (at < old.size()) {
    const Character c = character_at(old, at);
    const int32_t changed = change(c.code_point);
    if (changed != c.code_point) {
      out.keep(at - kept_from);
      if (changed < 0) {
        out.drop(c.size);
      } else {
        out.put(changed, 0);
      }
      kept_from = at + c.size;
    }
    at += c.size;
  }
  out.keep_rest();
  out.finish();
}

void lower(AlignedText& text) {
  constexpr int32_t kDottedI = 0x130;  // becomes two characters
  if (text.text().find("\u0130") == std::string::npos) return map_characters(text, lower_case);
  Rewriter out(text);
  while (out.at() < text.text().size()) {
    const Character c = character_at(text.text(), out.at());
    out.put(lower_case(c.code_point), 0);
    if (c.code_point == kDottedI) out.put(0x307, 1);
  }
  out.finish();
}

bool is_ascii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<uint8_t>(c) >= 0x80) return false;
  }
  return true;
}

class BertNormalizer : public Normalizer {
 public:
  explicit BertNormalizer(const BertNormalizerOptions& options) : o_(options) {}

  void apply(AlignedText& text) const override {
    if (is_ascii(text.text())) {
      map_characters(text, [&](int32_t c) {
        if (c >= 'A' && c <= 'Z') return o_.lowercase ? c + 32 : c;
        return o_.clean_text ? clean(c) : c;
      });
      return;
    }
    if (o_.clean_text) map_characters(text, clean);
    if (o_.handle_chinese_chars) set_ideographs_apart(text);
    if (o_.strip_accents.value_or(o_.lowercase)) {
      normalise(text, NormalForm::nfd);
      map_characters(text, [](int32_t c) { return is_nonspacing_mark(c) ? -1 : c; });
    }
    if (o_.lowercase) lower(text);
  }

 private:
  static int32_t clean(int32_t c) {
    if (c > ' ' && c < 127) return c;
    if (c == 0 || c == 0xfffd || is_control(c)) return -1;
    return is_whitespace(c) ? ' ' : c;
  }

  static void set_ideographs_apart(AlignedText& text) {
    const std::string& old = text.text();
    size_t at = 0;
    while (at < old.size()) {
      const Character c = character_at(old, at);
      if (is_chinese(c.code_point)) break;
      at += c.size;
    }
    if (at == old.size()) return;
    Rewriter out(text);
    out.keep(at);
    while (at < old.size()) {
      const Character c = character_at(old, at);
      if (is_chinese(c.code_point)) {
        out.put(' ', 0);
        out.put(c.code_point, 1);
        out.put(' ', 1);
      } else {
        out.keep(c.size);
      }
      at += c.size;
    }
    out.finish();
  }

  BertNormalizerOptions o_;
};

// A normalizer that is one function.
template <class Function>
class FunctionNormalizer : public Normalizer {
 public:
  explicit FunctionNormalizer(Function function) : function_(std::move(function)) {}
  void apply(AlignedText& text) const override { function_(text); }

 private:
  Function function_;
};

template <class Function>
NormalizerPointer normalizer_of(Function function) {
  return std::make_unique<FunctionNormalizer<Function>>(std::move(function));
}

void insert_all(Rewriter& out, std::string_view characters) {
  for (size_t at = 0; at < characters.size();) {
    const size_t size = character_size(characters, at);
    out.insert(characters.substr(at, size));
    at += size;
  }
}

int32_t without_control_of_nmt(int32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return -1;
  if (c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 ||
      c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd) {
    return ' ';
  }
  return c;
}

struct ByteCharacters {
  std::array<std::string, 256> character;
  std::array<int16_t, 324> byte{};  // [code point]
  ByteCharacters() {
    byte.fill(-1);
    int32_t next = 256;
    for (int32_t b = 0; b < 256; ++b) {
      const bool shown = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      const int32_t c = shown ? b : next++;
      character[static_cast<size_t>(b)] = utf8_of(c);
      byte[static_cast<size_t>(c)] = static_cast<int16_t>(b);
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters table;
  return table;
}
const MadeBeforeFork kByteCharacters([] { (void)byte_characters(); });

}  // namespace

std::string_view byte_character(uint8_t byte) { return byte_characters().character[byte]; }

int byte_of_character(int32_t code_point) {
  const auto& table = byte_characters().byte;
  return code_point < static_cast<int32_t>(table.size()) ? table[static_cast<size_t>(code_point)] : -1;
}

void replace_all(AlignedText& text, std::string_view pattern, std::string_view content) {
  if (pattern.empty()) return;
  const std::string& old = text.text();
  size_t found = old.find(pattern);
  if (found == std::string::npos) return;
  Rewriter out(text);
  for (; found != std::string::npos; found = old.find(pattern, out.at())) {
    out.keep(found - out.at());
    out.drop(pattern.size());
    insert_all(out, content);
  }
  out.keep_rest();
  out.finish();
}

NormalizerPointer bert_normalizer(const BertNormalizerOptions& options) {
  return std::make_unique<BertNormalizer>(options);
}

NormalizerPointer form_normalizer(NormalForm form) {
  return normalizer_of([form](AlignedText& text) { normalise(text, form); });
}

NormalizerPointer lowercase_normalizer() { return normalizer_of(lower); }

NormalizerPointer strip_normalizer(bool left, bool right) {
  return normalizer_of([left, right](AlignedText& text) {
    const std::string& old = text.text();
    size_t begin = 0, end = old.size();
    while (left && begin < end && is_whitespace(character_at(old, begin).code_point)) {
      begin += character_size(old, begin);
    }
    while (right && begin < end) {
      size_t last = end - 1;
      while (last > begin && (static_cast<uint8_t>(old[last]) & 0xc0) == 0x80) --last;
      if (!is_whitespace(character_at(old, last).code_point)) break;
      end = last;
    }
    if (begin == 0 && end == old.size()) return;
    Rewriter out(text);
    out.drop(begin);
    out.keep(end - begin);
    out.finish();
  });
}

NormalizerPointer strip_accents_normalizer() {
  return normalizer_of([](AlignedText& text) { map_characters(text, [](int32_t c) { return is_mark(c) ? -1 : c; }); });
}

NormalizerPointer replace_normalizer(std::string pattern, std::string content) {
  return normalizer_of([pattern = std::move(pattern), content = std::move(content)](AlignedText& text) {
    replace_all(text, pattern, content);
  });
}

NormalizerPointer replace_normalizer(std::unique_ptr<const Regex> pattern, std::string content) {
  return normalizer_of([pattern = std::move(pattern), content = std::move(content)](AlignedText& text) {
    if (text.text().empty()) return;
    Rewriter out(text);
    pattern->find_all(text.text(), [&](size_t begin, size_t end) {
      out.keep(begin - out.at());
      out.drop(end - begin);
      insert_all(out, content);
    });
    out.keep_rest();
    out.finish();
  });
}

NormalizerPointer prepend_normalizer(std::string prefix) {
  return normalizer_of([prefix = std::move(prefix)](AlignedText& text) {
    if (text.text().empty() || prefix.empty()) return;
    const size_t first = character_size(prefix, 0);
    const std::string next = text.text().substr(0, character_size(text.text(), 0));
    Rewriter out(text);
    out.replace(std::string_view(prefix).substr(0, first));
    insert_all(out, std::string_view(prefix).substr(first));
    out.insert(next);
    out.keep_rest();
    out.finish();
  });
}

NormalizerPointer nmt_normalizer() {
  return normalizer_of([](AlignedText& text) { map_characters(text, without_control_of_nmt); });
}

NormalizerPointer byte_level_normalizer() {
  return normalizer_of([](AlignedText& text) {
    Rewriter out(text);
    while (out.at() < text.text().size()) {
      const std::string character = text.text().substr(out.at(), character_size(text.text(), out.at()));
      for (size_t i = 0; i < character.size(); ++i) {
        const std::string_view byte = byte_character(static_cast<uint8_t>(character[i]));
        if (i == 0) {
          out.replace(byte);
        } else {
          out.insert(byte);
        }
      }
    }
    out.finish();
  });
}

NormalizerPointer sequence_normalizer(std::vector<NormalizerPointer> parts) {
  return normalizer_of([parts = std::move(parts)](AlignedText& text) {
    for (const NormalizerPointer& part : parts) part->apply(text);
  });
}

}  // namespace heed::text::huggingface
