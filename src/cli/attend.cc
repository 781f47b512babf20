// heed attend: attention over arrays from files.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/pages.h"
#include "heed/attention.h"
#include "heed/error.h"
#include "heed/inspect.h"
#include "heed/io.h"

namespace heed::cli {
namespace {

enum class Alignment { none, top_left, bottom_right };

struct AttendCommand {
  std::string arrays;
  std::string query, key, value, mask;
  Alignment causal = Alignment::none;
  std::optional<float> scale;
  float softcap = 0;
  int64_t left = -1, right = -1;
  bool reference = false, weights = false, force = false;
  bool entropy = false, column_sums = false;
  int64_t top_keys = 0, map = 0;
  std::string output, svg, png, html;
  std::optional<int64_t> batch, head;

  [[nodiscard]] bool writes_arrays() const { return !output.empty() && output != "-"; }
  [[nodiscard]] bool picture_on_output() const { return svg == "-" || png == "-" || html == "-"; }
  [[nodiscard]] bool wants_taps() const { return entropy || column_sums || top_keys > 0 || map > 0; }
  [[nodiscard]] bool wants_picture() const { return !svg.empty() || !png.empty() || !html.empty(); }
};

std::string names_of(const io::Tensors& arrays) {
  constexpr size_t kMostShown = 8;
  std::string out;
  size_t shown = 0;
  for (const auto& [name, tensor] : arrays) {
    if (shown++ == kMostShown) return out + fmt::format(" and {} more", arrays.size() - kMostShown);
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", escaped(name), to_string(tensor.shape()));
  }
  return out.empty() ? "none" : out;
}

// The array called `given`; without a name, the first of the usual names that the file has.
Tensor find(const AttendCommand& o, const io::Tensors& arrays, const std::string& given, const char* option,
            std::initializer_list<const char*> usual) {
  if (!given.empty()) {
    const auto found = arrays.find(given);
    if (found != arrays.end()) return found->second;
    throw Error(fmt::format("{}: expected the array {} that {} names; found {}", escaped(o.arrays), escaped(given),
                            option, names_of(arrays)));
  }
  if (arrays.size() == 1) return arrays.begin()->second;  // one array attends to itself
  for (const char* name : usual)
    if (const auto found = arrays.find(name); found != arrays.end()) return found->second;
  throw Error(fmt::format("{}: expected an array named {} (or {} NAME); found {}", escaped(o.arrays), *usual.begin(),
                          option, names_of(arrays)));
}

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

// (L, D) -> (1, 1, L, D); (B, L, D) -> (B, 1, L, D).
Tensor with_four_axes(const Tensor& array) {
  const Shape s = array.shape();
  const Tensor plain = array.contiguous();
  return s.rank() == 2   ? plain.reshape({1, 1, s[0], s[1]})
         : s.rank() == 3 ? plain.reshape({s[0], 1, s[1], s[2]})
                         : array;
}

Tensor with_rank(const Tensor& array, int rank) {
  if (!array.defined() || rank == 4) return array;
  return rank == 3 ? array.select(1, 0) : array.select(1, 0).select(0, 0);
}

struct Inputs {
  Tensor query, key, value;  // (B, H, L, D), (B, Hkv, S, D), (B, Hkv, S, Dv)
  AttentionOptions options;
  int rank = 4;  // of the arrays as the file has them
};

// Checked here so that the message has the shapes of the file. The operator checks masks.
void check_sizes(const std::string& file, const Inputs& in) {
  const Tensor &q = in.query, &k = in.key, &v = in.value;
  const auto expect = [&](bool ok, const std::string& what) {
    if (!ok)
      throw Error(fmt::format("{}: expected {}; found query {}, key {} and value {}", file, what, to_string(q.shape()),
                              to_string(k.shape()), to_string(v.shape())));
  };
  expect(q.size(-1) == k.size(-1), "one head size D of query and key");
  expect(k.size(-2) == v.size(-2), "a value for each key");
  if (in.rank == 2) return;
  expect(q.size(0) == k.size(0) && k.size(0) == v.size(0), "one batch size B");
  if (in.rank == 3) return;
  expect(k.size(1) == v.size(1), "as many key heads as value heads");
  expect(k.size(1) > 0 && q.size(1) % k.size(1) == 0,
         fmt::format("the number of query heads ({}) to be a multiple of the number of key heads ({})", q.size(1),
                     k.size(1)));
}

Inputs read_inputs(const AttendCommand& o, Context& context) {
  const io::Tensors arrays = io::read_arrays(o.arrays);
  Inputs in{.query = find(o, arrays, o.query, "--query", {"query", "q", "Q"}),
            .key = find(o, arrays, o.key, "--key", {"key", "k", "K"}),
            .value = find(o, arrays, o.value, "--value", {"value", "v", "V"}),
            .options = {}};
  in.rank = in.query.rank();
  const std::string file = escaped(o.arrays);
  // The fused kernels compute in f32; the plain formula also in f64.
  const DType dtype = o.reference && in.query.dtype() == DType::f64 ? DType::f64 : DType::f32;
  for (const auto& [name, tensor] :
       {std::pair<const char*, Tensor*>{"query", &in.query}, std::pair<const char*, Tensor*>{"key", &in.key},
        std::pair<const char*, Tensor*>{"value", &in.value}}) {
    if (!is_floating(tensor->dtype()))
      throw Error(
          fmt::format("{}: expected {} of f32, f64, f16 or bf16; found {}", file, name, to_string(tensor->dtype())));
    if (tensor->rank() < 2 || tensor->rank() > 4 || tensor->rank() != in.rank)
      throw Error(
          fmt::format("{}: expected query, key and value with 2 axes (L, D), 3 (B, L, D) or 4 (B, H, L, D), all alike; "
                      "found {}, {} and {}",
                      file, to_string(in.query.shape()), to_string(in.key.shape()), to_string(in.value.shape())));
    if (tensor->dtype() != dtype)
      message(context, fmt::format("{} is {}, computed in {}", name, to_string(tensor->dtype()), to_string(dtype)));
  }
  check_sizes(file, in);
  for (Tensor* tensor : {&in.query, &in.key, &in.value}) *tensor = with_four_axes(tensor->to(dtype));

  in.options.scale = o.scale;
  in.options.softcap = o.softcap;
  in.options.window = {.left = o.left, .right = o.right};
  if (o.causal == Alignment::top_left) in.options.causal = Causal::top_left();
  if (o.causal == Alignment::bottom_right) in.options.causal = Causal::bottom_right();
  const bool draws_weights = o.wants_picture() && o.map == 0;
  in.options.want = {.logsumexp = true, .weights = o.weights || draws_weights || (context.json && !o.wants_taps())};
  AttentionTaps& taps = in.options.want.taps;
  taps.entropy = o.entropy;
  taps.column_sums = o.column_sums;
  taps.top_k = o.top_keys;
  if (o.map > 0) taps.map = {.rows = std::min(o.map, in.query.size(2)), .columns = std::min(o.map, in.key.size(2))};
  if (o.mask.empty() && arrays.contains("mask")) message(context, "the array mask is not used; --mask mask uses it");
  if (!o.mask.empty()) {
    Tensor mask = find(o, arrays, o.mask, "--mask", {""});
    if (in.rank == 3 && mask.rank() == 3) mask = with_four_axes(mask);
    if (mask.dtype() == DType::boolean) {
      in.options.mask = mask;
    } else if (mask.dtype() == DType::u8) {
      in.options.mask = mask.to(DType::boolean);
    } else if (is_floating(mask.dtype())) {
      in.options.bias = mask.to(DType::f32);
    } else {
      throw Error(
          fmt::format("{}: expected a mask of booleans (true: attends) or of floating-point numbers (added to the "
                      "scores); found {}",
                      file, to_string(mask.dtype())));
    }
  }
  return in;
}

// Numbers with 7 digits, in nested lists.
void append_numbers(std::string& out, const Tensor& tensor) {
  out += '[';
  if (tensor.rank() == 1) {
    const Tensor row = tensor.to(DType::f64).contiguous();
    for (int64_t i = 0; i < row.numel(); ++i) {
      const double value = row.data<double>()[i];
      out += i > 0 ? ", " : "";
      out += std::isfinite(value) ? fmt::format("{:.7g}", value) : "null";
    }
  } else {
    for (int64_t i = 0; i < tensor.size(0); ++i) {
      if (i > 0) out += ", ";
      append_numbers(out, tensor.select(0, i));
    }
  }
  out += ']';
}

std::string as_json(const Tensor& tensor) {
  std::string out;
  append_numbers(out, tensor);
  return out;
}

// The rows of a tensor below their place in the leading axes, "batch row 1, head 2".
void print_numbers(const Tensor& tensor, const std::string& place) {
  if (tensor.rank() > 2) {
    for (int64_t i = 0; i < tensor.size(0); ++i)
      print_numbers(tensor.select(0, i),
                    place.empty() ? fmt::format("batch row {}", i + 1) : fmt::format("{}, head {}", place, i + 1));
    return;
  }
  if (!place.empty()) print_line(place);
  const bool whole = tensor.dtype() == DType::i32;
  const Tensor plain = tensor.to(DType::f64).contiguous();
  const Tensor rows = plain.rank() == 1 ? plain.reshape({1, plain.numel()}) : plain;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    std::string line;
    for (int64_t j = 0; j < rows.size(1); ++j)
      line += fmt::format("{}{:9.{}f}", j > 0 ? " " : "", rows.data<double>()[i * rows.size(1) + j], whole ? 0 : 4);
    print_line(line);
  }
}

// The results that were asked for, with as many axes as the arrays of the file have.
std::vector<std::pair<std::string, Tensor>> named_results(const AttendCommand& o, const AttentionResult& result,
                                                          int rank, bool json) {
  std::vector<std::pair<std::string, Tensor>> all = {{"output", result.output}};
  if (o.weights || (json && !o.wants_taps())) all.emplace_back("weights", result.weights);
  for (const auto& [name, tensor] : {std::pair("entropy", result.taps.entropy),
                                     {"top_keys", result.taps.top_keys},
                                     {"top_weights", result.taps.top_weights},
                                     {"column_sums", result.taps.column_sums},
                                     {"map", result.taps.map}})
    if (tensor.defined()) all.emplace_back(name, tensor);
  for (auto& [name, tensor] : all) tensor = with_rank(tensor, rank).contiguous();
  return all;
}

void print_results(const AttendCommand& o, const AttentionResult& result, int rank, Context& context) {
  constexpr int64_t kMostPrinted = 4096;
  const auto results = named_results(o, result, rank, context.json);
  if (context.json) {
    const Shape shape = results[0].second.shape();
    JsonObject object;
    object.add("shape", std::vector<int64_t>(shape.begin(), shape.end()));
    for (const auto& [name, tensor] : results) object.add_json(name, as_json(tensor));
    print_line(object.text());
    return;
  }
  for (const auto& [name, tensor] : results) {
    print_line(fmt::format("{} {}", name, to_string(tensor.shape())));
    if (tensor.numel() <= kMostPrinted) {
      print_numbers(tensor, "");
    } else {
      message(context, fmt::format("{} numbers are too many to print; --output out.npz writes them",
                                   with_commas(tensor.numel())));
    }
  }
}

std::string ending_of(const std::string& file) { return std::filesystem::path(file).extension().string(); }

void write_arrays(const AttendCommand& o, const AttentionResult& result, int rank) {
  const auto results = named_results(o, result, rank, false);
  const io::Tensors arrays(results.begin(), results.end());
  if (ending_of(o.output) == ".npy") {
    io::write_npy(o.output, results[0].second);
  } else if (ending_of(o.output) == ".npz") {
    io::write_npz(o.output, arrays);
  } else {
    io::write_safetensors(o.output, arrays);
  }
}

// Called before anything is computed or written.
void check_options(const AttendCommand& o, const Inputs& in, const Context& context) {
  const NamedFiles results = {{"--json", context.json ? "-" : ""},
                              {"--output", context.json && o.output == "-" ? "" : std::string_view(o.output)},
                              {"--svg", o.svg},
                              {"--png", o.png},
                              {"--html", o.html}};
  require_apart(results);
  require_inputs_kept({o.arrays}, results);
  check_page_name("--html", o.html);
  const std::string ending = ending_of(o.output);
  const bool one_array = !o.weights && !o.wants_taps();
  if (o.writes_arrays() && ending != ".npz" && ending != ".safetensors" && (ending != ".npy" || !one_array))
    throw UsageError(fmt::format(
        "--output takes a name that ends in .npz or .safetensors (or .npy for the output alone), or -; found {}",
        in_quotes(o.output)));
  const auto check = [&](const char* option, const std::optional<int64_t>& found, int64_t count) {
    if (!found) return;
    if (o.svg.empty() && o.png.empty())
      throw UsageError(fmt::format("{} chooses what --svg and --png draw; found neither of them", option));
    if (*found > std::max<int64_t>(1, count))
      throw UsageError(fmt::format("{} takes a number from 1 to {}; found {}", option, count, *found));
  };
  const auto check_tap = [](const char* option, int64_t found, int64_t most, const char* what) {
    if (found > most)
      throw UsageError(fmt::format("{} takes a number from 1 to {}, {}; found {}", option, most, what, found));
  };
  check_tap("--top-keys", o.top_keys, in.key.size(2), "the number of keys");
  check_tap("--map", o.map, std::max(in.query.size(2), in.key.size(2)),
            "the larger of the numbers of queries and keys");
  check("--batch", o.batch, in.query.size(0));
  check("--head", o.head, in.query.size(1));
  if (o.wants_picture() && (in.query.numel() == 0 || in.key.size(2) == 0))
    throw Error(fmt::format("{}: expected queries and keys to draw; found query {} and key {}", escaped(o.arrays),
                            to_string(in.query.shape()), to_string(in.key.shape())));
  const auto& map = in.options.want.taps.map;
  const int64_t rows = o.map > 0 ? map.rows : in.query.size(2), columns = o.map > 0 ? map.columns : in.key.size(2);
  if (!o.html.empty() && !o.force)
    check_page_size(in.query.size(0) * in.query.size(1) * rows * columns, 0,
                    "use --map 256, which pools the weights, or --png, which draws one head");
  require_writable({o.output, o.svg, o.png, o.html});
}

// "q0", "q1", ...: counted from 0, as in the arrays. A cell that pools several queries has the name of the first.
std::vector<std::string> place_names(const char* letter, int64_t cells, int64_t length) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < cells; ++i) names.push_back(fmt::format("{}{}", letter, i * length / cells));
  return names;
}

// `weights`: (B, H, L, S), or their map (B, H, rows, columns).
void draw(const AttendCommand& o, const Tensor& weights, const Inputs& in, const Context& context) {
  const int64_t batch = o.batch.value_or(1), head = o.head.value_or(1);
  const Tensor one = weights.select(0, batch - 1).select(0, head - 1);
  const std::string name = std::filesystem::path(o.arrays).filename().string();
  const int64_t queries = in.query.size(2), keys = in.key.size(2);
  const auto rows = place_names("q", weights.size(2), queries), columns = place_names("k", weights.size(3), keys);
  if (!o.svg.empty())
    write_result(o.svg,
                 inspect::to_svg(one, rows, columns, fmt::format("{}: batch row {}, head {}", name, batch, head)));
  if (!o.png.empty()) {
    const int64_t pixels = pixels_of_a_weight(one.size(0), one.size(1));
    write_result(o.png, inspect::to_png(one, o.map > 0 ? std::min<int64_t>(pixels, 4) : pixels));
  }
  if (o.html.empty()) return;
  inspect::Record record;
  record.title = name;
  record.source = fmt::format("{} queries, {} keys", queries, keys);
  record.target_tokens = rows;
  record.source_tokens = columns;
  for (int64_t b = 0; b < weights.size(0); ++b) record.arrays.push_back({.path = "", .weights = weights.select(0, b)});
  write_page(o.html, inspect::to_html(record), context);
}

int run_attend(const AttendCommand& o, Context& context) {
  const Inputs in = read_inputs(o, context);
  check_options(o, in, context);
  const AttentionResult result = o.reference ? reference::attention(in.query, in.key, in.value, in.options)
                                             : attention(in.query, in.key, in.value, in.options);
  if (o.writes_arrays()) write_arrays(o, result, in.rank);
  if (o.wants_picture()) draw(o, o.map > 0 ? result.taps.map : result.weights, in, context);
  if ((!o.writes_arrays() && !o.picture_on_output()) || context.json) print_results(o, result, in.rank, context);
  for (const std::string* file : {&o.output, &o.svg, &o.png, &o.html})
    if (!file->empty() && *file != "-") message(context, "written: " + escaped(*file));
  return kSuccess;
}

}  // namespace

void add_attend_command(Options& options) {
  auto o = std::make_shared<AttendCommand>();
  options.add("ARRAYS", o->arrays, "Query, key and value: .npz, .safetensors; one array (.npy) attends to itself")
      .required();
  options.add("--query", o->query, "Name of the queries").takes("NAME").shows("query, q or Q");
  options.add("--key", o->key, "Name of the keys").takes("NAME").shows("key, k or K");
  options.add("--value", o->value, "Name of the values").takes("NAME").shows("value, v or V");
  options.add("--mask", o->mask, "Name of a mask: booleans, where true attends; or numbers added to the scores")
      .takes("NAME");
  options.choose(
      "--causal", o->causal,
      {{"none", Alignment::none}, {"top-left", Alignment::top_left}, {"bottom-right", Alignment::bottom_right}},
      "Queries see no later keys. The diagonal begins at the first query and the first key (top-left), or "
      "ends at the last query and the last key (bottom-right)");
  options.add("--scale", o->scale, "Scores are multiplied by this").shows("1/sqrt(D)");
  options.add("--softcap", o->softcap, "Scores s become c tanh(s/c) with this c; 0 is off");
  options.add("--left", o->left, "Keys seen before a query's own position; -1 is all").range(-1);
  options.add("--right", o->right, "Keys seen after it; -1 is all").range(-1);
  options.flag("--reference", o->reference, "The plain formula instead of the fused kernels; f64 stays f64");
  options
      .add("--output", o->output,
           "Write the output here (.npz, .safetensors, .npy); - prints it, as without this option")
      .takes("FILE");
  options.flag("--weights", o->weights, "Write the weights too");
  options.group("Taps: statistics of the weights, in memory linear in the lengths");
  options.flag("--entropy", o->entropy, "The entropy of each query's weights, in nats");
  options.add("--top-keys", o->top_keys, "Each query's N keys with the largest weights; keys are counted from 0")
      .range(1)
      .shows("");
  options.flag("--column-sums", o->column_sums, "How much weight each key gets in all");
  options
      .add("--map", o->map,
           "Pool the weights of each head to N x N means; pictures draw these. Fewer queries or keys than N are not "
           "pooled")
      .range(1)
      .shows("");
  options.group("Pictures of the weights");
  options.add("--svg", o->svg, "Draw one head").takes("FILE");
  options.add("--png", o->png, "Draw one head's cells").takes("FILE");
  options.add("--html", o->html, "A page with all heads").takes("FILE");
  options.flag("--force", o->force, "Write a page of more than 20 MB too").needs("--html");
  options.add("--batch", o->batch, "Which batch row to draw, counted from 1").range(1).shows("1");
  options.add("--head", o->head, "Which head to draw, counted from 1").range(1).shows("1");
  options.footer(
      "Arrays are (L, D), (B, L, D) or (B, H, L, D).\n"
      "With --json, output and weights go to standard output.\n"
      "Examples:\n"
      "  heed attend arrays.npz\n"
      "  heed attend arrays.npz --causal top-left --weights --output out.npz --svg weights.svg\n"
      "  heed attend long.npz --map 256 --png map.png\n"
      "  heed attend layer.safetensors --query q_proj --key k_proj --value v_proj --html page.html\n");
  options.has_json();
  options.on_run([o](Context& c) { return run_attend(*o, c); });
}

}  // namespace heed::cli
