#include "text/huggingface/decoders.h"

#include "heed/text.h"
#include "text/huggingface/characters.h"
#include "text/huggingface/normalizers.h"
#include "text/utf8.h"

namespace heed::text::huggingface {

namespace {

constexpr std::string_view kReplacementCharacter = "\ufffd";

// A decoder that is one function.
template <class Function>
class FunctionDecoder : public Decoder {
 public:
  explicit FunctionDecoder(Function function) : function_(std::move(function)) {}
  void apply(std::vector<std::string>& tokens) const override { function_(tokens); }

 private:
  Function function_;
};

template <class Function>
DecoderPointer decoder_of(Function function) {
  return std::make_unique<FunctionDecoder<Function>>(std::move(function));
}

std::string with_replaced(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string made;
  size_t done = 0;
  for (size_t at = text.find(pattern); at != std::string_view::npos && !pattern.empty();
       at = text.find(pattern, done)) {
    made.append(text, done, at - done).append(content);
    done = at + pattern.size();
  }
  return made.append(text, done);
}

// The spaces that English does not have.
std::string cleaned_up(std::string text) {
  constexpr std::pair<const char*, const char*> kReplacements[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kReplacements) text = with_replaced(text, from, to);
  return text;
}

// The value of "<0x41>", or -1.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// Bytes of a character that is cut off or wrong: as many as could begin one.
size_t broken_size(std::string_view text) {
  for (size_t size = std::min<size_t>(3, text.size()); size > 1; --size) {
    // Would some continuation make these bytes a character?
    std::string begun(text.substr(0, size));
    for (const char last : {'\x80', '\x90', '\xa0', '\xbf'}) {
      std::string tried = begun;
      while (tried.size() < 4 && code_point_size(tried) == 0) tried += last;
      if (code_point_size(tried) > size) return size;
    }
  }
  return 1;
}

}  // namespace

std::string text_of_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const size_t valid = valid_utf8_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += kReplacementCharacter;
    bytes.remove_prefix(broken_size(bytes));
  }
  return text;
}

DecoderPointer wordpiece_decoder(std::string prefix, bool cleanup) {
  return decoder_of([prefix = std::move(prefix), cleanup](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleanup) token = cleaned_up(std::move(token));
    }
  });
}

DecoderPointer byte_level_decoder() {
  return decoder_of([](std::vector<std::string>& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) {
      const size_t before = bytes.size();
      for (size_t at = 0; at < token.size();) {
        const Character c = character_at(token, at);
        const int byte = byte_of_character(c.code_point);
        if (byte < 0) {  // a token that is not written in bytes
          bytes.resize(before);
          bytes += token;
          break;
        }
        bytes += static_cast<char>(byte);
        at += c.size;
      }
    }
    tokens = {text_of_bytes(bytes)};
  });
}

DecoderPointer metaspace_decoder(std::string replacement, Prepend prepend) {
  return decoder_of([replacement = std::move(replacement), prepend](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool was_prepended = i == 0 && prepend != Prepend::never;
      tokens[i] = with_replaced(tokens[i], replacement, was_prepended ? "" : " ");
    }
  });
}

DecoderPointer bpe_decoder(std::string suffix) {
  return decoder_of([suffix = std::move(suffix)](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = with_replaced(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    }
  });
}

DecoderPointer byte_fallback_decoder() {
  return decoder_of([](std::vector<std::string>& tokens) {
    std::vector<std::string> made;
    std::string bytes;
    const auto flush = [&] {
      if (valid_utf8_prefix(bytes) == bytes.size()) {
        if (!bytes.empty()) made.push_back(bytes);
      } else {
        made.insert(made.end(), bytes.size(), std::string(kReplacementCharacter));
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of_token(token); byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        flush();
        made.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(made);
  });
}

DecoderPointer fuse_decoder() {
  return decoder_of([](std::vector<std::string>& tokens) {
    std::string joined;
    for (const std::string& token : tokens) joined += token;
    tokens = {std::move(joined)};
  });
}

DecoderPointer strip_decoder(std::string character, int64_t start, int64_t stop) {
  return decoder_of([character = std::move(character), start, stop](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string_view kept = token;
      for (int64_t i = 0; i < start && kept.starts_with(character); ++i) kept.remove_prefix(character.size());
      for (int64_t i = 0; i < stop && kept.ends_with(character); ++i) kept.remove_suffix(character.size());
      token = std::string(kept);
    }
  });
}

DecoderPointer replace_decoder(std::string pattern, std::string content) {
  return decoder_of([pattern = std::move(pattern), content = std::move(content)](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) token = with_replaced(token, pattern, content);
  });
}

DecoderPointer replace_decoder(std::unique_ptr<const Regex> pattern, std::string content) {
  return decoder_of([pattern = std::move(pattern), content = std::move(content)](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      if (token.empty()) continue;  // PyPI's `tokenizers` does not search it, even for what matches nothing
      std::string made;
      size_t done = 0;
      pattern->find_all(token, [&](size_t begin, size_t end) {
        made.append(token, done, begin - done).append(content);
        done = end;
      });
      token = made.append(token, done);
    }
  });
}

}  // namespace heed::text::huggingface
