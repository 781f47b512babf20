// Tokenizers for Python: texts to ids and back, many at once. python/heed/tokenizers.py gives the results names.
#include "python/tokenizers.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/threads.h"
#include "heed/error.h"
#include "python/characters.h"
#include "python/interrupt.h"

namespace py = pybind11;

namespace heed::python {
namespace {

using TextAndPair = std::pair<std::string, std::optional<std::string>>;

struct Encoded {
  text::Tokens tokens;
  std::vector<std::string> pieces;
  std::vector<std::pair<int64_t, int64_t>> offsets;
};

Encoded encode_one(const text::Tokenizer& tokenizer, const TextAndPair& text, const text::TokensOptions& shared) {
  text::TokensOptions options = shared;
  if (text.second) options.pair = *text.second;
  Encoded found{.tokens = tokenizer.tokens(text.first, options), .pieces = {}, .offsets = {}};
  const Characters first(text.first), pair(text.second.value_or(""));
  for (size_t i = 0; i < found.tokens.ids.size(); ++i) {
    found.pieces.push_back(tokenizer.piece(found.tokens.ids[i]));
    const bool of_pair = !found.tokens.of_pair.empty() && found.tokens.of_pair[i] != 0;
    found.offsets.push_back(found.tokens.special[i] != 0 ? std::pair<int64_t, int64_t>()
                                                         : (of_pair ? pair : first).of(found.tokens.spans[i]));
  }
  return found;
}

// (ids, tokens, offsets, type ids, special tokens mask, tokens that were left out) of each text.
py::list encode_batch(const SharedTokenizer& self, const std::vector<TextAndPair>& texts, bool add_special,
                      int64_t limit, bool parse_special, bool lowercase) {
  constexpr int64_t kGroup = 1024;  // texts between two looks for Ctrl-C
  const text::TokensOptions options{
      .add_special = add_special, .limit = limit, .parse_special = parse_special, .lowercase = lowercase};
  std::vector<Encoded> all(texts.size());
  {
    const WithoutGil without_gil;
    const auto count = static_cast<int64_t>(texts.size());
    for (int64_t from = 0; from < count; from += kGroup) {
      raise_if_interrupted();
      parallel_for(std::min(kGroup, count - from), 16, [&](int64_t begin, int64_t end) {
        for (auto i = static_cast<size_t>(from + begin); i < static_cast<size_t>(from + end); ++i) {
          all[i] = encode_one(*self.tokenizer, texts[i], options);
        }
      });
    }
  }
  py::list list;
  for (Encoded& one : all) {
    list.append(py::make_tuple(one.tokens.ids, one.pieces, one.offsets,
                               one.tokens.segments.empty() ? text::Ids(one.tokens.ids.size()) : one.tokens.segments,
                               std::vector<int>(one.tokens.special.begin(), one.tokens.special.end()),
                               one.tokens.left_out));
    one = {};
  }
  return list;
}

std::vector<std::string> decode_batch(const SharedTokenizer& self, const std::vector<text::Ids>& rows) {
  std::vector<std::string> texts;
  const WithoutGil without_gil;
  for (const text::Ids& ids : rows) {
    if (texts.size() % 1024 == 0) raise_if_interrupted();
    texts.push_back(self.tokenizer->decode(ids));
  }
  return texts;
}

std::vector<std::string> vocabulary(const SharedTokenizer& self) {
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < self.tokenizer->vocabulary(); ++id) pieces.push_back(self.tokenizer->piece(id));
  return pieces;
}

}  // namespace

void define_tokenizers(py::module_& module) {
  py::class_<SharedTokenizer>(module, "Tokenizer")
      .def(py::init([](const std::filesystem::path& folder, bool target) {
        const WithoutGil without_gil;
        return SharedTokenizer{text::Tokenizer::load(folder, target ? text::Side::target : text::Side::source)};
      }))
      .def("encode_batch", &encode_batch)
      .def("decode_batch", &decode_batch)
      .def("vocabulary", &vocabulary)
      .def("size", [](const SharedTokenizer& self) { return self.tokenizer->vocabulary(); })
      .def("piece", [](const SharedTokenizer& self, int32_t id) { return self.tokenizer->piece(id); })
      .def("id_of", [](const SharedTokenizer& self, const std::string& token) { return self.tokenizer->id_of(token); })
      .def("kind", [](const SharedTokenizer& self) { return self.tokenizer->kind(); })
      .def("special", [](const SharedTokenizer& self) {
        const text::SpecialIds special = self.tokenizer->special();
        return py::make_tuple(special.padding, special.begin, special.end, special.unknown);
      });
}

}  // namespace heed::python
