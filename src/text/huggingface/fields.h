// Members of JSON objects, with messages that say which file and which key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json_document.h"
#include "heed/error.h"

namespace heed::text::huggingface {

class Fields {
 public:
  // `file` is a quoted name, `place` the keys that lead to `value`: "model", "normalizer.normalizers[0]", or nothing.
  // Throws Error unless `value` is an object. It has to outlive this.
  Fields(const io::JsonValue& value, std::string file, std::string place);

  [[nodiscard]] std::string name(std::string_view key = {}) const;  // "tokenizer.json", model.vocab
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] const std::string& place() const { return place_; }

  [[nodiscard]] const io::JsonValue* find(std::string_view key) const;  // nullptr where it is missing or null
  [[nodiscard]] const io::JsonValue& get(std::string_view key, io::JsonValue::Kind kind) const;
  [[nodiscard]] const std::string& text(std::string_view key) const { return get(key, io::JsonValue::Kind::text).text; }
  [[nodiscard]] std::string text_or(std::string_view key, const std::string& otherwise) const;
  [[nodiscard]] bool flag(std::string_view key) const { return get(key, io::JsonValue::Kind::boolean).boolean; }
  [[nodiscard]] bool flag_or(std::string_view key, bool otherwise) const;
  [[nodiscard]] int64_t whole(std::string_view key, int64_t least, int64_t most) const;
  [[nodiscard]] int64_t whole_or(std::string_view key, int64_t least, int64_t most, int64_t otherwise) const;
  // One character of text.
  [[nodiscard]] std::string character(std::string_view key) const;
  [[nodiscard]] Fields object(std::string_view key) const;
  [[nodiscard]] std::optional<Fields> object_if_any(std::string_view key) const;
  [[nodiscard]] std::vector<Fields> objects(std::string_view key) const;  // of an array
  // The place of the text among `words`; an Error names them all.
  [[nodiscard]] size_t one_of(std::string_view key, const std::vector<std::string_view>& words) const;

  template <class... Parts>
  [[noreturn]] void refuse(std::string_view key, const Parts&... parts) const {
    fail("load_tokenizer", name(key), ": ", parts...);
  }

 private:
  const io::JsonValue& value_;
  std::string file_, place_;
};

// "a text", "an object", ...
[[nodiscard]] std::string_view name_of(io::JsonValue::Kind kind);

}  // namespace heed::text::huggingface
