// The classes of heed/pipelines.h for Python: python/heed/pipelines.py gives their results names.
#include "python/pipelines.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "heed/io.h"
#include "heed/pipelines.h"
#include "models/ctranslate2.h"
#include "models/sentence_settings.h"
#include "pipelines/ctranslate2.h"
#include "pipelines/save.h"
#include "python/arrays.h"
#include "python/characters.h"
#include "python/interrupt.h"
#include "python/tokenizers.h"

namespace py = pybind11;

namespace heed::python {
namespace {

namespace fs = std::filesystem;

TooLong too_long_of(const std::string& name) {
  if (name == "refuse") return TooLong::refuse;
  if (name == "cut") return TooLong::cut;
  if (name == "split") return TooLong::split;
  throw py::value_error("[translate] too_long \"refuse\", \"cut\" or \"split\"; found \"" + name + "\"");
}

TextOptions text_options(const std::string& too_long, bool warns = true) {
  if (!warns) return {.too_long = too_long_of(too_long)};
  return {.too_long = too_long_of(too_long), .on_warning = [](const TextWarning& warning) {
            const py::gil_scoped_acquire acquire;
            const std::string text = "text " + std::to_string(warning.text + 1) + ": " + to_string(warning);
            // Level 2 names the line that called the package.
            if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 2) != 0) throw py::error_already_set();
          }};
}

// For the searches' stop().
bool interrupted() {
  raise_if_interrupted();
  return false;
}

// The same search, which Ctrl-C ends.
generate::BeamOptions interruptible(generate::BeamOptions search) {
  search.stop = interrupted;
  return search;
}

py::list as_list(const std::vector<Translation>& translations) {
  py::list list;
  for (const Translation& t : translations)
    list.append(py::make_tuple(t.text, t.score, t.finished, t.tokens, t.log_probs));
  return list;
}

py::list translate(const Translator& translator, const std::vector<std::string>& texts, int64_t beam, int64_t n_best,
                   std::optional<double> length_penalty, bool gnmt, double length_reward,
                   std::optional<double> length_factor, int64_t max_length, int64_t min_length, int64_t batch_tokens,
                   const std::string& cache, const std::string& too_long, const std::string& source_language,
                   const std::string& target_language, bool scores, bool parse_special) {
  const TranslatorOptions options{.search = interruptible({.beam = beam,
                                                           .n_best = n_best,
                                                           .scores = scores,
                                                           .length_penalty = length_penalty,
                                                           .gnmt = gnmt,
                                                           .length_reward = length_reward,
                                                           .max_length = max_length,
                                                           .min_length = min_length,
                                                           .length_factor = length_factor}),
                                  .batch_tokens = batch_tokens,
                                  .cache = {.dtype = cache_dtype(cache, "[translate] cache")},
                                  .source_language = source_language,
                                  .target_language = target_language,
                                  .parse_special = parse_special,
                                  .text = text_options(too_long)};
  std::vector<std::vector<Translation>> all;
  {
    const WithoutGil without_gil;
    all = translator.translate(texts, options);
  }
  py::list list;
  for (const auto& translations : all) list.append(as_list(translations));
  return list;
}

py::tuple generate_text(const Generator& generator, const std::string& prompt, int64_t max_tokens, double temperature,
                        int64_t top_k, double top_p, double min_p, uint64_t seed, bool ignore_end,
                        const std::string& cache, const py::object& on_text) {
  GeneratorOptions options{.sampling = {.temperature = temperature,
                                        .top_k = top_k,
                                        .top_p = top_p,
                                        .min_p = min_p,
                                        .seed = seed,
                                        .max_tokens = max_tokens,
                                        .cache = {.dtype = cache_dtype(cache, "[generate] cache")},
                                        .stop = interrupted},
                           .ignore_end = ignore_end,
                           .text = text_options("refuse")};
  if (!on_text.is_none()) {
    options.on_text = [&](std::string_view piece) {
      const py::gil_scoped_acquire acquire;
      return truth_of(on_text(std::string(piece))).value_or(true);  // None, which most functions return, goes on
    };
  }
  Generation made;
  {
    const WithoutGil without_gil;
    made = generator.generate(prompt, options);
  }
  return py::make_tuple(made.text, made.finished, made.tokens, made.log_probs);
}

WeightFormat weight_format(const std::string& name) {
  if (name == "float32") return WeightFormat::f32;
  if (name == "bfloat16") return WeightFormat::bf16;
  if (name == "int8") return WeightFormat::int8;
  throw py::value_error("[load] weights \"float32\", \"bfloat16\" or \"int8\"; found \"" + name + "\"");
}

pipelines::Layout layout_of(const std::string& name) {
  if (name == "same") return pipelines::Layout::same;
  if (name == "heed") return pipelines::Layout::heed;
  if (name == "huggingface") return pipelines::Layout::huggingface;
  throw py::value_error("[save] layout \"same\", \"heed\" or \"huggingface\"; found \"" + name + "\"");
}

template <class Pipeline>
Pipeline load(const fs::path& folder, const std::string& weights) {
  const WeightFormat format = weight_format(weights);
  const WithoutGil without_gil;
  return Pipeline::load(folder, format);
}

template <class Pipeline>
void save(const Pipeline& pipeline, const fs::path& from, const fs::path& to, const std::string& layout) {
  const pipelines::Layout wanted = layout_of(layout);
  const WithoutGil without_gil;
  pipelines::save(pipeline, from, to, wanted);
}

void convert_ctranslate2(const fs::path& from, const fs::path& tokenizers, const fs::path& to,
                         const std::string& layout, const std::string& weights) {
  const pipelines::Layout wanted = layout_of(layout);
  const WeightFormat format = weight_format(weights);
  const WithoutGil without_gil;
  pipelines::convert_ctranslate2(from, tokenizers, to, wanted, format);
}

EncoderOptions encoder_options(int64_t batch_tokens, const std::string& too_long, bool parse_special,
                               bool warns = true) {
  return {.batch_tokens = batch_tokens,
          .parse_special = parse_special,
          .text = text_options(too_long, warns),
          .progress = [](int64_t) { raise_if_interrupted(); }};
}

std::function<void(int64_t)> progress_to(const std::function<void(int64_t)>& on_progress) {
  return [&on_progress](int64_t done) {
    raise_if_interrupted();
    if (on_progress) on_progress(done);
  };
}

std::vector<TextPair> pairs_of(const std::vector<std::pair<std::string, std::optional<std::string>>>& texts) {
  std::vector<TextPair> pairs;
  for (const auto& [text, pair] : texts) pairs.push_back({text, pair});
  return pairs;
}

// (label, score, scores) of each text or pair.
py::list classify(const Encoder& encoder, const std::vector<std::pair<std::string, std::optional<std::string>>>& texts,
                  int64_t batch_tokens, const std::string& too_long, const std::string& prompt, bool parse_special) {
  EncoderOptions options = encoder_options(batch_tokens, too_long, parse_special);
  options.prompt = prompt;
  std::vector<Classification> found;
  {
    const std::vector<TextPair> pairs = pairs_of(texts);
    const WithoutGil without_gil;
    found = encoder.classify(pairs, options);
  }
  py::list list;
  for (const Classification& one : found) list.append(py::make_tuple(one.label, one.score, one.scores));
  return list;
}

// As embed() below: (number of texts or pairs, classes).
py::array class_logits(const Encoder& encoder,
                       const std::vector<std::pair<std::string, std::optional<std::string>>>& texts,
                       const std::string& prompt_text, int64_t longest, const std::function<void(int64_t)>& on_progress,
                       bool parse_special) {
  EncoderOptions options = encoder_options(0, "cut", parse_special, false);
  options.prompt_text = prompt_text;
  options.longest = longest;
  options.progress = progress_to(on_progress);
  Tensor found;
  {
    const std::vector<TextPair> pairs = pairs_of(texts);
    const WithoutGil without_gil;
    found = encoder.class_logits(pairs, options);
  }
  return to_numpy(found);
}

py::array embed(const Encoder& encoder, const std::vector<std::string>& texts, int64_t batch_tokens,
                const std::string& too_long, const std::string& prompt, const std::optional<std::string>& prompt_text,
                int64_t longest, const std::function<void(int64_t)>& on_progress, bool parse_special, bool warns) {
  EncoderOptions options = encoder_options(batch_tokens, too_long, parse_special, warns);
  options.prompt = prompt;
  options.prompt_text = prompt_text;
  options.longest = longest;
  options.progress = progress_to(on_progress);
  Tensor found;
  {
    const WithoutGil without_gil;
    found = encoder.embed(texts, options);
  }
  return to_numpy(found);
}

py::list classify_tokens(const Encoder& encoder, const std::string& text, const std::string& too_long,
                         bool parse_special) {
  std::vector<TokenClass> found;
  {
    const WithoutGil without_gil;
    found = encoder.classify_tokens(text, encoder_options(4096, too_long, parse_special));
  }
  py::list list;
  const Characters characters(text);
  for (const TokenClass& one : found) {
    const auto [begin, end] = characters.of(one.span);
    list.append(py::make_tuple(one.token, begin, end, one.label, one.score));
  }
  return list;
}

// (text, begin, end, score) of each answer.
py::list answer(const Encoder& encoder, const std::string& question, const std::string& passage, int64_t count,
                int64_t longest_answer, bool may_be_none, int64_t window, int64_t overlap) {
  TextOptions named = text_options("refuse");
  named.name = [](int64_t text) { return text == 0 ? "question" : "passage"; };
  std::vector<Answer> found;
  {
    const WithoutGil without_gil;
    found = encoder.answer(question, passage,
                           {.count = count,
                            .longest_answer = longest_answer,
                            .may_be_none = may_be_none,
                            .window = window,
                            .overlap = overlap,
                            .text = named,
                            .on_window = raise_if_interrupted});
  }
  py::list list;
  const Characters characters(passage);
  for (const Answer& one : found) {
    const auto [begin, end] = characters.of(one.span);
    list.append(py::make_tuple(one.text, begin, end, one.score));
  }
  return list;
}

py::list fill(const Encoder& encoder, const std::string& text, int64_t count, const std::string& too_long) {
  std::vector<std::vector<Filling>> found;
  {
    const WithoutGil without_gil;
    found = encoder.fill(text, {.count = count, .text = text_options(too_long)});
  }
  py::list places;
  for (const auto& fillings : found) {
    py::list place;
    for (const Filling& one : fillings) place.append(py::make_tuple(one.token, one.probability, one.id));
    places.append(place);
  }
  return places;
}

// For RecordOptions::on_size: refuses what would have more weights than a page may have, or than fit into memory.
std::function<void(int64_t weights, int64_t masked)> size_check(bool for_page) {
  if (for_page) {
    return [](int64_t weights, int64_t) {
      require(weights <= inspect::kMostWeights, "attention_page", "a text of at most ", inspect::kMostWeights,
              " weights in all heads; found ", weights);
    };
  }
  return [](int64_t weights, int64_t) {
    const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    constexpr int64_t kBytes = 5;  // of a weight: 4, and room for what computes it
    require(weights <= memory / kBytes, "attention", "a text whose weights fit into memory, at most ", memory / kBytes,
            "; found ", weights);
  };
}

// A page of thousands of tokens has groups of them in their place, as that of heed inspect.
int64_t pool_above(bool for_page) { return for_page ? inspect::kMostTokens : std::numeric_limits<int64_t>::max(); }

// Calls `record` without the GIL.
template <class F>
inspect::Record recorded(F&& record) {
  const WithoutGil without_gil;
  return record();
}

py::dict weights_of(const inspect::Record& record) {
  py::dict weights;
  for (const auto* const part : {&record.encoder, &record.decoder, &record.cross}) {
    for (const inspect::Map& map : *part) {
      const py::array array = to_numpy(map.weights);
      array.attr("setflags")(py::arg("write") = false);  // the page is made of the same numbers, later
      weights[py::str(map.path)] = array;
    }
  }
  return weights;
}

// Of an encoder-decoder, which translates where it is given no target.
inspect::Record record_translation(const Translator& translator, const std::string& text,
                                   const std::optional<std::string>& target, int64_t beam,
                                   const std::string& source_language, const std::string& target_language,
                                   bool for_page) {
  return recorded([&] {
    return translator.record(text, {.target = target,
                                    .search = interruptible({.beam = beam}),
                                    .source_language = source_language,
                                    .target_language = target_language,
                                    .text = text_options("refuse"),
                                    .pool_above = pool_above(for_page),
                                    .on_size = size_check(for_page)});
  });
}

// Of a model that reads one text.
template <class Pipeline>
inspect::Record record_text(const Pipeline& pipeline, const std::string& text, bool for_page) {
  return recorded([&] {
    return pipeline.record(
        text, {.text = text_options("refuse"), .pool_above = pool_above(for_page), .on_size = size_check(for_page)});
  });
}

// What a `with` holds, in one thread.
struct PytorchAllowed {
  std::unique_ptr<io::PytorchAllowed> scope;
};

}  // namespace

void define_pipelines(py::module_& module) {
  module.def("attention_svg", [](const py::object& weights, const std::vector<std::string>& rows,
                                 const std::vector<std::string>& columns, const std::string& title) {
    Arguments arguments;
    return inspect::to_svg(arguments(weights, "weights"), rows, columns, title);
  });
  module.def("sentence_settings_files", [] {
    const auto names = models::sentence_settings_files();
    return std::vector<std::string>(names.begin(), names.end());
  });
  module.def("find_model_folder",
             [](const fs::path& name, const fs::path& cache) { return io::find_model_folder(name.string(), cache); });
  module.def("architecture_of",
             [](const fs::path& folder) { return std::string(models::to_string(architecture_of(folder))); });
  module.def("is_ctranslate2_folder", &models::is_ctranslate2_folder);
  module.def("convert_ctranslate2", &convert_ctranslate2);
  py::class_<PytorchAllowed>(module, "PytorchAllowed")
      .def(py::init<>())
      .def("__enter__",
           [](PytorchAllowed& allowed) {
             allowed.scope.reset();
             allowed.scope = std::make_unique<io::PytorchAllowed>();
           })
      .def("__exit__", [](PytorchAllowed& allowed, const py::object& /*kind*/, const py::object& /*error*/,
                          const py::object& /*traceback*/) { allowed.scope.reset(); });
  module.attr("most_weights") = inspect::kMostWeights;  // of a page
  py::class_<inspect::Record>(module, "Record")
      .def("page",
           [](const inspect::Record& record) {
             const WithoutGil without_gil;
             return inspect::to_html(record);
           })
      .def("source_tokens", [](const inspect::Record& record) { return record.source_tokens; })
      .def("target_tokens", [](const inspect::Record& record) { return record.target_tokens; })
      .def("output_tokens", [](const inspect::Record& record) { return record.output_tokens; })
      .def("weights", &weights_of);
  py::class_<Translator>(module, "Translator")
      .def(py::init(&load<Translator>))
      .def("save", &save<Translator>)
      .def("source_tokenizer",
           [](const Translator& t) { return tokenizer_of(t, std::mem_fn(&Translator::source_tokenizer)); })
      .def("target_tokenizer",
           [](const Translator& t) { return tokenizer_of(t, std::mem_fn(&Translator::target_tokenizer)); })
      .def("record", &record_translation)
      .def("translate", &translate);
  py::class_<Generator>(module, "Generator")
      .def(py::init(&load<Generator>))
      .def("save", &save<Generator>)
      .def("tokenizer",
           [](const Generator& pipeline) { return tokenizer_of(pipeline, std::mem_fn(&Generator::tokenizer)); })
      .def("record", &record_text<Generator>)
      .def("generate", &generate_text);
  py::class_<Encoder>(module, "Encoder")
      .def(py::init(&load<Encoder>))
      .def("save", &save<Encoder>)
      .def("tokenizer",
           [](const Encoder& pipeline) { return tokenizer_of(pipeline, std::mem_fn(&Encoder::tokenizer)); })
      .def("record", &record_text<Encoder>)
      .def("classify", &classify)
      .def("class_logits", &class_logits)
      .def("classify_tokens", &classify_tokens)
      .def("answer", &answer)
      .def("fill", &fill)
      .def("labels", &Encoder::labels)
      .def("prompts", &Encoder::prompts)
      .def("mask_token", &Encoder::mask_token)
      .def("embedding_size", &Encoder::embedding_size)
      .def("longest", &Encoder::longest)
      .def("positions", [](const Encoder& encoder) { return encoder.model().config().max_length; })
      .def("lowercases", &Encoder::lowercases)
      .def("token_types", [](const Encoder& encoder) { return encoder.model().config().token_types; })
      .def("encode",
           [](const Encoder& encoder, const std::string& text, const std::string& too_long, int64_t longest,
              bool parse_special, bool warns) {
             const EncoderOptions options{
                 .longest = longest, .parse_special = parse_special, .text = text_options(too_long, warns)};
             Encoding found;
             {
               const WithoutGil without_gil;
               found = encoder.encode(text, options);
             }
             return py::make_tuple(found.tokens, to_numpy(found.states));
           })
      .def("embed", &embed);
}

}  // namespace heed::python
