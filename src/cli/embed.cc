// heed embed: texts as vectors, and the texts that are nearest to each other.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "cli/command.h"
#include "cli/encoder_job.h"
#include "cli/float_types.h"
#include "cli/input_lines.h"
#include "cli/json.h"
#include "heed/error.h"
#include "heed/io.h"
#include "heed/pipelines.h"

namespace heed::cli {
namespace {

enum class VectorFormat { automatic, npy, json, text };

struct EmbedCommand {
  std::string model, output, similar, similar_prompt;
  TextSource source;
  EncoderOptions embed;
  VectorFormat format = VectorFormat::automatic;
  WeightFormat weights = WeightFormat::f32;
  int64_t top = 5;
};

VectorFormat format_of(const EmbedCommand& o, bool json) {
  if (json && o.format != VectorFormat::automatic && o.format != VectorFormat::json)
    throw UsageError("--json and another --format; one can be given");
  std::string ending = std::filesystem::path(o.output).extension().string();
  std::ranges::transform(ending, ending.begin(), [](char c) { return 'A' <= c && c <= 'Z' ? c - 'A' + 'a' : c; });
  if (json || o.format != VectorFormat::automatic) {
    const VectorFormat format = json ? VectorFormat::json : o.format;
    if (ending == ".npy" && format != VectorFormat::npy)
      throw UsageError(fmt::format("an --output that ends in .npy takes --format npy; found {}",
                                   json                           ? "--json"
                                   : format == VectorFormat::json ? "--format json"
                                                                  : "--format text"));
    return format;
  }
  return ending == ".npy"                          ? VectorFormat::npy
         : ending == ".json" || ending == ".jsonl" ? VectorFormat::json
                                                   : VectorFormat::text;
}

std::span<const float> row_of(const Tensor& rows, int64_t row) {
  return {rows.data<float>() + row * rows.size(1), static_cast<size_t>(rows.size(1))};
}

std::string as_text(std::span<const float> vector) {
  std::string line;
  for (const float number : vector) line += fmt::format("{}{}", line.empty() ? "" : " ", number);
  return line;
}

std::string vector_line(const std::string& text, std::span<const float> vector, VectorFormat format) {
  if (format == VectorFormat::npy) return {reinterpret_cast<const char*>(vector.data()), vector.size_bytes()};
  if (format == VectorFormat::text) return as_text(vector) + '\n';
  const std::vector<float> numbers(vector.begin(), vector.end());
  return JsonObject().add("text", text).add("vector", numbers).text() + '\n';
}

// The lines to search, and their vectors.
struct Library {
  std::vector<std::string> lines;
  Tensor vectors;  // (N, E)
};

Library read_library(const Encoder& encoder, const EmbedCommand& o) {
  Library library{.lines = text::read_lines(o.similar), .vectors = {}};
  EncoderOptions options = o.embed;
  options.prompt = o.similar_prompt;
  options.text = {.too_long = o.source.too_long, .on_warning = {}, .name = [&](int64_t line) {
                    return fmt::format("{}, line {}", o.similar, line + 1);
                  }};
  library.vectors = encoder.embed(library.lines, options);
  return library;
}

double cosine_of(std::span<const float> a, std::span<const float> b) {
  double product = 0, a_squares = 0, b_squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    product += x * y;
    a_squares += x * x;
    b_squares += y * y;
  }
  const double lengths = std::sqrt(a_squares * b_squares);
  return lengths > 0 ? product / lengths : 0;
}

std::string nearest_lines(const std::string& text, std::span<const float> vector, const Library& library, int64_t top,
                          bool json) {
  std::vector<double> cosines;
  for (int64_t i = 0; i < library.vectors.size(0); ++i)
    cosines.push_back(cosine_of(vector, row_of(library.vectors, i)));
  std::vector<size_t> order(cosines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto told = static_cast<std::ptrdiff_t>(std::min<int64_t>(top, std::ssize(order)));
  std::partial_sort(order.begin(), order.begin() + told, order.end(),
                    [&](size_t a, size_t b) { return cosines[a] != cosines[b] ? cosines[a] > cosines[b] : a < b; });
  std::string lines;
  std::vector<JsonObject> objects;
  for (std::ptrdiff_t i = 0; i < told; ++i) {
    const size_t at = order[static_cast<size_t>(i)];
    lines += fmt::format("{}\t{:.6f}\t{}\n", i + 1, cosines[at], one_line(library.lines[at]));
    objects.push_back(JsonObject().add("line", at + 1).add("text", library.lines[at]).add("cosine", cosines[at]));
  }
  return json ? JsonObject().add("text", text).add("similar", objects).text() + '\n' : lines;
}

void check_options(const EmbedCommand& o, VectorFormat format) {
  check_text_source(o.source);
  if (o.similar.empty() && !o.similar_prompt.empty()) throw UsageError("--similar-prompt goes with --similar");
  require_inputs_kept({o.source.input, o.similar}, {{"--output", o.output}});
  if (format == VectorFormat::npy) {
    if (!o.similar.empty()) throw UsageError("--similar writes lines, as text or --json; found --format npy");
    if (o.output.empty() || o.output == "-") throw UsageError("--format npy goes with --output FILE");
  }
  require_writable({o.output});  // before hours of work
}

// All lines first: a file of results is written whole or not at all.
std::vector<std::string> all_lines(const TextSource& source) {
  if (source.text) return {*source.text};
  InputLines input(source.input);
  std::vector<std::string> all;
  constexpr size_t kAtOnce = 4096;
  while (!input.ended()) {
    std::vector<std::string> some = input.next(kAtOnce);
    if (some.empty()) break;
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

void write_file(const EmbedCommand& o, const LineJob& job, VectorFormat format, int64_t size, const Context& context) {
  const std::string name =
      o.source.input.empty() || o.source.input == "-" ? std::string("standard input") : o.source.input;
  const std::vector<std::string> made = run_lines(
      job, all_lines(o.source),
      [&](int64_t line) { return o.source.text ? "TEXT" : fmt::format("{}, line {}", name, line + 1); }, {}, context);
  if (format != VectorFormat::npy) {
    std::string contents;
    for (const std::string& lines : made) contents += lines;
    return write_result(o.output, contents);
  }
  const Tensor vectors = Tensor::empty({std::ssize(made), size});
  for (size_t i = 0; i < made.size(); ++i)
    std::memcpy(vectors.data<float>() + static_cast<int64_t>(i) * size, made[i].data(), made[i].size());
  io::write_npy(o.output, vectors);
}

int run_embed(const EmbedCommand& o, Context& context) {
  const VectorFormat format = format_of(o, context.json);
  check_options(o, format);
  const Encoder encoder = Encoder::load(o.model, o.weights);
  (void)encoder.embed({}, o.embed);  // refuses a prompt that is unknown before a line comes
  Library library;
  if (!o.similar.empty()) library = read_library(encoder, o);
  const LineJob job = encoder_job(o.source, [&](std::span<const std::string> lines, const TextOptions& text) {
    EncoderOptions options = o.embed;
    options.text = text;
    const Tensor vectors = encoder.embed(lines, options);
    std::vector<std::string> made;
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::span<const float> vector = row_of(vectors, static_cast<int64_t>(i));
      made.push_back(o.similar.empty() ? vector_line(lines[i], vector, format)
                                       : nearest_lines(lines[i], vector, library, o.top, format == VectorFormat::json));
    }
    return made;
  });
  if (o.output.empty() || o.output == "-") return run_lines(job, {}, context);
  write_file(o, job, format, encoder.embedding_size(), context);
  return kSuccess;
}

}  // namespace

void add_embed_command(Options& options) {
  auto o = std::make_shared<EmbedCommand>();
  options.add("MODEL", o->model, "Folder of an encoder-only model, or its name in Hugging Face's cache")
      .takes("DIR")
      .required();
  add_text_source(options, o->source, "turn into a vector");
  options.add("--output", o->output, "Write into this file instead of standard output").takes("FILE");
  options.choose("--format", o->format,
                 {{"npy", VectorFormat::npy}, {"json", VectorFormat::json}, {"text", VectorFormat::text}},
                 "One array, an object a line, or numbers with spaces; without it, by the ending of --output");
  options.add("--similar", o->similar, "Write the lines of this file that are nearest to each text").takes("FILE");
  options.add("--top", o->top, "So many of them").range(1).needs("--similar");
  options.add("--prompt", o->embed.prompt, "Name of the model's prompt that stands in front of each text")
      .takes("NAME");
  options.add("--similar-prompt", o->similar_prompt, "The same for the lines of --similar")
      .takes("NAME")
      .needs("--similar");
  options.flag("--parse-special", o->embed.parse_special, kParseSpecialHelp);
  options
      .add("--batch-tokens", o->embed.batch_tokens,
           "Tokens in a batch at most, padding included; 0 is 384, or 256 with int8 weights")
      .range(0);
  options.choose("--weights", o->weights, kWeightFormats, kWeightsHelp);
  add_too_long(options, o->source);
  options.footer(
      "A line of output for each line of input; an empty line is a text without words.\n"
      "How a vector is made of a text stands in the model's modules.json; without one,\n"
      "it is the mean of all its tokens. No vector depends on the other lines.\n"
      "--similar writes rank, cosine and line, with tabs; the larger the cosine, the\n"
      "nearer.\n"
      "Examples:\n"
      "  heed embed models/minilm --input lines.txt --output vectors.npy\n"
      "  heed embed models/minilm 'How do I get my money back?' --similar answers.txt\n"
      "  heed embed sentence-transformers/all-MiniLM-L6-v2 --json < lines.txt\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_embed(*o, c); });
}

}  // namespace heed::cli
