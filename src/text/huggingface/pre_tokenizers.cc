#include "text/huggingface/pre_tokenizers.h"

#include "text/huggingface/cutting.h"
#include "text/huggingface/normalizers.h"

namespace heed::text::huggingface {

namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A pre-tokenizer that is one function.
template <class Function>
class FunctionPreTokenizer : public PreTokenizer {
 public:
  explicit FunctionPreTokenizer(Function function) : function_(std::move(function)) {}
  void apply(Parts& parts) const override { function_(parts); }

 private:
  Function function_;
};

template <class Function>
PreTokenizerPointer pre_tokenizer_of(Function function) {
  return std::make_unique<FunctionPreTokenizer<Function>>(std::move(function));
}

// White space goes, and each punctuation character stands alone.
void cut_for_bert(Parts& parts) {
  std::vector<Part> made;
  made.reserve(parts.parts.size());
  PartCollector collector(parts.text, Delimiters::isolated, made);
  const std::string& text = parts.text.text();
  for (const Part& part : parts.parts) {
    size_t word = part.begin;
    for (size_t at = part.begin; at < part.end;) {
      const Character c = character_at(text, at);
      const bool space = is_whitespace(c.code_point);
      if (space || is_punctuation(c.code_point)) {
        collector.add(word, at, false);
        word = at + c.size;
        if (!space) collector.add(at, word, false);
      }
      at += c.size;
    }
    collector.add(word, part.end, false);
  }
  parts.parts = std::move(made);
}

// Words (\w+) and runs of what is neither word nor white space.
void cut_words(Parts& parts) {
  std::vector<Part> made;
  PartCollector collector(parts.text, Delimiters::isolated, made);
  const std::string& text = parts.text.text();
  enum class Kind { space, word, other };
  for (const Part& part : parts.parts) {
    Kind kind = Kind::space;
    size_t run = part.begin;
    for (size_t at = part.begin; at < part.end;) {
      const Character c = character_at(text, at);
      const Kind now = is_word(c.code_point) ? Kind::word : is_whitespace(c.code_point) ? Kind::space : Kind::other;
      if (now != kind) {
        if (kind != Kind::space) collector.add(run, at, false);
        run = at;
        kind = now;
      }
      at += c.size;
    }
    if (kind != Kind::space) collector.add(run, part.end, false);
  }
  parts.parts = std::move(made);
}

// write(part, out) writes the new text of each part, and may call next() where it is to be cut.
template <class Write>
void rewrite(Parts& parts, const Write& write) {
  std::vector<Part> made;
  made.reserve(parts.parts.size());
  Rewriter out(parts.text);
  size_t begin = 0;
  const auto next = [&](uint32_t start) {
    if (out.written() == begin) return;
    made.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(out.written()), start});
    begin = out.written();
  };
  for (const Part& part : parts.parts) {
    out.drop(part.begin - out.at());
    out.begin_part(part.start);
    write(part, out, [&] { next(part.start); });
    next(part.start);
  }
  out.drop(parts.text.text().size() - out.at());
  out.finish();
  parts.parts = std::move(made);
}

// The first character of `prefix` takes the place of the part's first, which comes again behind the prefix.
void prepend(Rewriter& out, std::string_view text, std::string_view prefix) {
  const std::string first(text.substr(out.at(), character_size(text, out.at())));
  out.replace(prefix);
  out.insert(first);
}

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const ByteLevelOptions& options)
      : o_(options), expression_(kGpt2, "the expression of GPT-2") {}

  void apply(Parts& parts) const override {
    if (o_.add_prefix_space) add_prefix_spaces(parts);
    if (o_.use_regex) {
      cut(parts, Delimiters::isolated, false,
          [&](std::string_view text, const auto& use) { expression_.find_all(text, use); });
    }
    if (!o_.as_bytes) write_characters(parts);
  }

 private:
  static void add_prefix_spaces(Parts& parts) {
    const std::string& text = parts.text.text();
    bool any = false;
    for (const Part& part : parts.parts) any = any || text[part.begin] != ' ';
    if (!any) return;
    rewrite(parts, [&](const Part& part, Rewriter& out, const auto& /*next*/) {
      if (text[part.begin] != ' ') prepend(out, text, " ");
      out.keep(part.end - out.at());
    });
  }

  static void write_characters(Parts& parts) {
    const std::string& text = parts.text.text();
    rewrite(parts, [&](const Part& part, Rewriter& out, const auto& /*next*/) {
      while (out.at() < part.end) {
        const size_t begin = out.at();
        const size_t size = character_size(text, begin);
        for (size_t i = 0; i < size; ++i) {
          const std::string_view byte = byte_character(static_cast<uint8_t>(text[begin + i]));
          if (i == 0) {
            out.replace(byte);
          } else {
            out.insert(byte);
          }
        }
      }
    });
  }

  ByteLevelOptions o_;
  Regex expression_;
};

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(MetaspaceOptions options) : o_(std::move(options)) {}

  bool needs_origins() const override { return o_.prepend == Prepend::first; }

  void apply(Parts& parts) const override {
    const std::string& text = parts.text.text();
    rewrite(parts, [&](const Part& part, Rewriter& out, const auto& next) {
      const std::string_view words = std::string_view(text).substr(0, part.end);
      const bool begins_so = words[part.begin] == ' ' || words.substr(part.begin).starts_with(o_.replacement);
      if (!begins_so && (o_.prepend == Prepend::always || (o_.prepend == Prepend::first && part.start == 0))) {
        prepend(out, text, o_.replacement);
      }
      while (out.at() < part.end) {
        const char c = text[out.at()];
        if (c == ' ') {
          if (o_.split) next();
          out.replace(o_.replacement);
        } else if (words.substr(out.at()).starts_with(o_.replacement)) {
          if (o_.split) next();
          out.keep(o_.replacement.size());
        } else {
          size_t end = out.at() + 1;
          while (end < part.end && text[end] != ' ' && text[end] != o_.replacement[0]) ++end;
          out.keep(end - out.at());
        }
      }
    });
    if (!o_.split || !parts.text.tracked()) return;
    for (Part& part : parts.parts) part.start = parts.text.origin(part.begin).begin;
  }

 private:
  MetaspaceOptions o_;
};

}  // namespace

PreTokenizerPointer bert_pre_tokenizer() { return pre_tokenizer_of(cut_for_bert); }

PreTokenizerPointer byte_level_pre_tokenizer(const ByteLevelOptions& options) {
  return std::make_unique<ByteLevelPreTokenizer>(options);
}

PreTokenizerPointer metaspace_pre_tokenizer(MetaspaceOptions options) {
  return std::make_unique<MetaspacePreTokenizer>(std::move(options));
}

PreTokenizerPointer digits_pre_tokenizer(Delimiters delimiters) {
  return pre_tokenizer_of([delimiters](Parts& parts) { cut_at_characters(parts, delimiters, is_numeric); });
}

PreTokenizerPointer punctuation_pre_tokenizer(Delimiters delimiters) {
  return pre_tokenizer_of([delimiters](Parts& parts) { cut_at_characters(parts, delimiters, is_punctuation); });
}

PreTokenizerPointer whitespace_pre_tokenizer() { return pre_tokenizer_of(cut_words); }

PreTokenizerPointer whitespace_split_pre_tokenizer() {
  return pre_tokenizer_of([](Parts& parts) { cut_at_characters(parts, Delimiters::removed, is_whitespace); });
}

PreTokenizerPointer character_pre_tokenizer(int32_t delimiter) {
  return pre_tokenizer_of([delimiter](Parts& parts) {
    cut_at_characters(parts, Delimiters::removed, [&](int32_t c) { return c == delimiter; });
  });
}

PreTokenizerPointer split_pre_tokenizer(SplitOptions options) {
  return pre_tokenizer_of([o = std::move(options)](Parts& parts) {
    cut(parts, o.delimiters, o.invert, [&](std::string_view text, const auto& use) {
      if (o.expression) return o.expression->find_all(text, use);
      for (size_t at = text.find(o.text); at != std::string_view::npos && !o.text.empty();) {
        use(at, at + o.text.size());
        at = text.find(o.text, at + o.text.size());
      }
    });
  });
}

}  // namespace heed::text::huggingface
