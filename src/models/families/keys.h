// Keys: a config.json of Hugging Face's transformers, read key by key. What nobody has read is refused at the end,
// unless it is known to change no result.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/json.h"
#include "heed/models.h"

namespace heed::models {

class Keys {
 public:
  // `where` is the file, for messages.
  Keys(const io::Json& object, std::string where);

  // The value, or `usual` where the key is absent or null. Throws Error for another type.
  [[nodiscard]] int64_t whole(std::string_view key, int64_t usual);
  [[nodiscard]] int64_t whole(std::string_view key);                 // one that must be there
  [[nodiscard]] int64_t token(std::string_view key, int64_t usual);  // an id, or a list of one
  [[nodiscard]] float number(std::string_view key, float usual);
  [[nodiscard]] bool flag(std::string_view key, bool usual);
  [[nodiscard]] std::string word(std::string_view key, std::string_view usual);
  [[nodiscard]] Activation activation(std::string_view key, std::string_view usual);
  // The names of the classes; `usual` numbered ones where the file does not say.
  [[nodiscard]] std::vector<std::string> labels(int64_t usual = 2);

  [[nodiscard]] bool has(std::string_view key) const;      // there, and not null
  [[nodiscard]] bool is_null(std::string_view key) const;  // there, and null
  // The value itself, counted as read; null where it is absent.
  [[nodiscard]] const io::Json& value(std::string_view key);
  // Other values would change the computation in a way that heed does not know. (An absent flag is false.)
  void expect(std::string_view key, bool value);
  void expect(std::string_view key, std::initializer_list<std::string_view> words);
  // What comes after the name of the family in the first of "architectures", "ForMaskedLM" for example; one of `known`,
  // or the Error lists them. "Model" where the file does not say, and, with `own`, "" where the name is of no family.
  [[nodiscard]] std::string class_of(std::initializer_list<std::string_view> families,
                                     std::initializer_list<std::string_view> known, bool own = false);
  void finish() const;

  [[noreturn]] void refuse(std::string_view key, std::string_view expected) const;
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  [[nodiscard]] const io::Json* find(std::string_view key);

  const io::Json& object_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace heed::models
