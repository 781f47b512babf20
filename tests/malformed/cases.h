// Files that must be refused, each of a kind of its own, and the good files that they are made from.
//
// reliability is a promise about every file; these are the ways in which files have been wrong elsewhere. `make fuzz`
// begins with them too.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace heed::malformed {

struct Case {
  std::string target;  // of tests/fuzz/
  std::string kind;
  std::string contents;
  std::string reason;  // a part of the message; none: the file is good
};

class Cases {
 public:
  void good(std::string_view target, std::string_view kind, std::string contents) {
    all_.push_back({std::string(target), std::string(kind), std::move(contents), {}});
  }
  void bad(std::string_view target, std::string_view kind, std::string contents, std::string_view reason) {
    all_.push_back({std::string(target), std::string(kind), std::move(contents), std::string(reason)});
  }
  [[nodiscard]] const std::vector<Case>& all() const { return all_; }

 private:
  std::vector<Case> all_;
};

void add_arrays(Cases& cases);       // npy, npz
void add_weights(Cases& cases);      // safetensors, shard_index
void add_ctranslate2(Cases& cases);  // ctranslate2
void add_pytorch(Cases& cases);      // pytorch
void add_text(Cases& cases);         // sentencepiece, vocabulary, lines
void add_tokenizers(Cases& cases);   // tokenizer_json, tokenizer_config, encode
void add_json(Cases& cases);         // config, recipe_toml, recipe_json
void add_training(Cases& cases);     // checkpoint, cache_plan, token_file

[[nodiscard]] inline std::vector<Case> all_cases() {
  Cases cases;
  add_arrays(cases);
  add_weights(cases);
  add_ctranslate2(cases);
  add_pytorch(cases);
  add_text(cases);
  add_tokenizers(cases);
  add_json(cases);
  add_training(cases);
  return cases.all();
}

// Little-endian bytes of a number.
template <class T>
[[nodiscard]] std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// `text` with `bytes` in place of those from `at` on.
[[nodiscard]] inline std::string patched(std::string text, size_t at, std::string_view bytes) {
  return text.replace(at, bytes.size(), bytes);
}

// `text` with `to` in place of its first `from`.
[[nodiscard]] inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace heed::malformed
