// Tokenizers that are a list of tokens: characters, or pieces of text that is already cut.
//
// The file, UTF-8, one token a line from id 0, after a line that says what it is:
//
//   heed-vocabulary 1 pieces padding=0 begin=1 end=2 unknown=3
//
// In tokens \n, \r and \\ stand for a line feed, a carriage return and a backslash.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/files.h"
#include "heed/error.h"
#include "text/tokenizers.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace heed::text {
namespace {

constexpr std::string_view kHeader = "heed-vocabulary 1 ";
constexpr std::string_view kJoin = "@@";  // a piece that ends so continues in the next one

std::string escaped(std::string_view token) {
  std::string text;
  for (const char c : token) {
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\r') {
      text += "\\r";
    } else if (c == '\\') {
      text += "\\\\";
    } else {
      text += c;
    }
  }
  return text;
}

std::string unescaped(std::string_view line, const std::string& name, size_t number) {
  std::string token;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      token += line[i];
      continue;
    }
    const char c = i + 1 < line.size() ? line[++i] : '\0';
    require(c == 'n' || c == 'r' || c == '\\', "load_tokenizer", name, ", line ", number,
            ": \\n, \\r or \\\\ after a backslash; found another character");
    token += c == 'n' ? '\n' : c == 'r' ? '\r' : '\\';
  }
  return token;
}

// Allows look-up by string_view.
struct Hash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

class VocabularyTokenizer : public Tokenizer {
 public:
  VocabularyTokenizer(std::vector<std::string> tokens, SpecialIds special, bool characters, Around around)
      : tokens_(std::move(tokens)), special_(special), characters_(characters), around_(around) {
    constexpr const char* kFunction = "vocabulary_tokenizer";
    require(!tokens_.empty() && tokens_.size() <= INT32_MAX, kFunction, "1 to 2^31 - 1 tokens; found ", tokens_.size());
    for (const int32_t id : {special.padding, special.begin, special.end, special.unknown}) {
      require(id >= -1 && id < vocabulary(), kFunction, "special ids from -1 (none) to ", vocabulary() - 1, "; found ",
              id);
    }
    for (int32_t id = 0; id < static_cast<int32_t>(tokens_.size()); ++id) {
      const std::string& token = tokens_[static_cast<size_t>(id)];
      require(valid_utf8_prefix(token) == token.size(), kFunction, "tokens in UTF-8; token ", id, " is not");
      if (is_special(id, special_)) continue;  // text that looks like a special token is plain text
      require(!characters_ || code_point_size(token) == token.size(), kFunction, "tokens of one character; token ", id,
              " is not one");
      require(!token.empty(), kFunction, "tokens that are not empty; token ", id, " is");
      require(ids_.emplace(token, id).second, kFunction, "every token once; ", files::quoted(token), " comes twice");
    }
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    cut(text, [&](int32_t id, size_t /*begin*/, size_t /*end*/) { ids.push_back(id); });
    return ids;
  }

  Tokens tokens(std::string_view text, const TokensOptions& options) const override {
    if (options.lowercase) return tokens_in_lower_case(*this, text, options);
    Tokens body;
    bool begins = true;  // a word; a space of a text of characters is one too
    cut(text, [&](int32_t id, size_t begin, size_t end) {
      body.ids.push_back(id);
      body.spans.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
      const std::string_view token = text.substr(begin, end - begin);
      const bool is_space = token == " ";
      body.words.push_back((body.words.empty() ? -1 : body.words.back()) + (begins || is_space ? 1 : 0));
      begins = characters_ ? is_space : !token.ends_with(kJoin);
    });
    return with_begin_and_end(std::move(body), special_, options, around_);
  }

  std::optional<int32_t> id_of(std::string_view token) const override {
    if (const auto found = ids_.find(token); found != ids_.end()) return found->second;
    for (const int32_t id : {special_.padding, special_.begin, special_.end, special_.unknown}) {
      if (id >= 0 && tokens_[static_cast<size_t>(id)] == token) return id;
    }
    return std::nullopt;
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    bool first = true, joined = false;
    for (const int32_t id : ids) {
      require_id(id, vocabulary(), "decode");
      if (is_special(id, special_)) continue;
      std::string_view token = tokens_[static_cast<size_t>(id)];
      if (!characters_) {
        if (!first && !joined) text += ' ';
        joined = token.ends_with(kJoin);
        if (joined) token.remove_suffix(kJoin.size());
        first = false;
      }
      text += token;
    }
    return text;
  }

  std::string piece(int32_t id) const override {
    require_id(id, vocabulary(), "piece");
    return tokens_[static_cast<size_t>(id)];
  }
  int64_t vocabulary() const override { return static_cast<int64_t>(tokens_.size()); }
  SpecialIds special() const override { return special_; }
  std::string kind() const override { return characters_ ? "characters" : "pieces"; }

  void save(const std::filesystem::path& folder, Side side) const override {
    std::string contents = std::string(kHeader) + kind() + " padding=" + std::to_string(special_.padding) +
                           " begin=" + std::to_string(special_.begin) + " end=" + std::to_string(special_.end) +
                           " unknown=" + std::to_string(special_.unknown) + "\n";
    for (const std::string& token : tokens_) contents += escaped(token) + "\n";
    save_tokenizer_file(folder, side, kVocabularyEnding, contents);
  }

 private:
  // use(id, begin, end) for each token of the text and the bytes it stands for.
  template <class Use>
  void cut(std::string_view text, const Use& use) const {
    require_utf8(text, "encode");
    for (size_t at = 0; at < text.size();) {
      const size_t end =
          characters_ ? at + code_point_size(text.substr(at)) : std::min(text.find(' ', at), text.size());
      if (end > at) use(id_of_text(text.substr(at, end - at)), at, end);
      at = characters_ ? end : end + 1;
    }
  }

  int32_t id_of_text(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found != ids_.end()) return found->second;
    require(special_.unknown >= 0, "encode", "tokens of the vocabulary, which has no unknown one; found ",
            files::quoted(std::string(token)));
    return special_.unknown;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;  // of tokens that are not special
  SpecialIds special_;
  bool characters_;
  Around around_;
};

std::vector<std::string> special_tokens() { return {"<pad>", "<s>", "</s>", "<unk>"}; }

int32_t take_number(std::string_view& text, std::string_view key, const std::string& name) {
  int32_t value = 0;
  const bool has_key = text.starts_with(key);
  if (has_key) text.remove_prefix(key.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(has_key && error == std::errc(), "load_tokenizer", name, ", line 1: \"", key, "<number>\"; found other text");
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

}  // namespace

std::shared_ptr<const Tokenizer> vocabulary_tokenizer(std::vector<std::string> tokens, SpecialIds special,
                                                      bool characters) {
  return std::make_shared<VocabularyTokenizer>(std::move(tokens), special, characters, Around::both);
}

void CharacterVocabulary::add(std::string_view text) {
  require_utf8(text, "train_characters");
  while (!text.empty()) {
    const size_t size = code_point_size(text);
    const std::string_view character = text.substr(0, size);
    if (!seen_.contains(character)) seen_.emplace(character);
    text.remove_prefix(size);
  }
}

std::shared_ptr<const Tokenizer> CharacterVocabulary::tokenizer() const {
  require(!seen_.empty(), "train_characters", "text to train on; found none");
  std::vector<std::string> tokens = special_tokens();
  tokens.insert(tokens.end(), seen_.begin(), seen_.end());
  return vocabulary_tokenizer(std::move(tokens), SpecialIds{}, true);
}

void PieceVocabulary::add(std::string_view text) {
  require_utf8(text, "train_pieces");
  while (!text.empty()) {
    const size_t size = std::min(text.find(' '), text.size());
    if (size > 0) ++counts_[std::string(text.substr(0, size))];
    text.remove_prefix(std::min(size + 1, text.size()));
  }
}

std::shared_ptr<const Tokenizer> PieceVocabulary::tokenizer(int64_t minimum) const {
  std::vector<std::pair<std::string, int64_t>> sorted;
  for (const auto& [piece, count] : counts_) {
    if (count >= minimum) sorted.emplace_back(piece, count);
  }
  require(!sorted.empty(), "train_pieces", "pieces that are seen at least ", minimum, " times; found none");
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::string> tokens = special_tokens();
  for (auto& [piece, count] : sorted) tokens.push_back(std::move(piece));
  return vocabulary_tokenizer(std::move(tokens), SpecialIds{}, false);
}

std::shared_ptr<const Tokenizer> train_characters(std::span<const std::string> lines) {
  CharacterVocabulary vocabulary;
  for (const std::string& line : lines) vocabulary.add(line);
  return vocabulary.tokenizer();
}

std::shared_ptr<const Tokenizer> train_pieces(std::span<const std::string> lines, int64_t minimum) {
  PieceVocabulary vocabulary;
  for (const std::string& line : lines) vocabulary.add(line);
  return vocabulary.tokenizer(minimum);
}

std::shared_ptr<const Tokenizer> load_vocabulary(const std::filesystem::path& file, Around around) {
  const std::string contents = files::read_all(file, int64_t{1} << 30, "load_tokenizer");
  const std::string name = files::quoted(file);
  std::string_view rest = contents;
  const auto line = [&] {
    const size_t end = rest.find('\n');
    require(end != std::string_view::npos, "load_tokenizer", name, ": lines that end; the last does not");
    const std::string_view taken = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return taken;
  };
  std::string_view header = line();
  require(header.starts_with(kHeader), "load_tokenizer", name, ", line 1: \"", kHeader,
          "characters\" or \"...pieces\"; found other text");
  header.remove_prefix(kHeader.size());
  const bool characters = header.starts_with("characters ");
  require(characters || header.starts_with("pieces "), "load_tokenizer", name,
          ", line 1: the kind characters or pieces; found another");
  header.remove_prefix(header.find(' '));
  SpecialIds special;
  special.padding = take_number(header, " padding=", name);
  special.begin = take_number(header, " begin=", name);
  special.end = take_number(header, " end=", name);
  special.unknown = take_number(header, " unknown=", name);
  require(header.empty(), "load_tokenizer", name, ", line 1: nothing after the special ids; found more");
  std::vector<std::string> tokens;
  while (!rest.empty()) tokens.push_back(unescaped(line(), name, tokens.size() + 2));
  try {
    return std::make_shared<VocabularyTokenizer>(std::move(tokens), special, characters, around);
  } catch (const Error& error) {
    fail("load_tokenizer", name, ": a vocabulary; ", error.what());
  }
}

}  // namespace heed::text
