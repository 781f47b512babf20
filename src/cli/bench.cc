// heed bench: how fast the kernels are beside what the machine can do. A program without it has bench_absent.cc.
#include "bench/attention.h"
#include "bench/decode.h"
#include "bench/matmul.h"
#include "bench/options.h"
#include "bench/scaling.h"
#include "bench/training.h"
#include "cli/command.h"
#include "cli/float_types.h"

namespace heed::cli {
namespace {

// Runs a benchmark that returns its table, or JSON.
template <class Settings>
void run_with(Options& options, const std::shared_ptr<Settings>& o, std::string (*run)(const Settings&)) {
  options.has_json();
  options.on_run([o, run](Context& context) {
    o->json = context.json;
    print(run(*o));
    return kSuccess;
  });
}

void add_repeats(Options& options, int& repeats) {
  options.add("--repeats", repeats, "Timings of each line").range(1, 100000);
}

void add_precision(Options& options, std::string& precision) {
  options.add("--precision", precision, "f32, or bf16: operands are rounded to it").one_of({"f32", "bf16"});
}

// A benchmark of attention: shapes, repeats, a table.
std::shared_ptr<bench::AttentionBench> add_shapes(Options& options, std::string (*run)(const bench::AttentionBench&)) {
  auto o = std::make_shared<bench::AttentionBench>();
  options.add("--shape", o->shapes, "B,H,Hkv,L,S,D instead of the usual shapes; may be repeated").takes("SHAPE");
  add_repeats(options, o->repeats);
  run_with(options, o, run);
  return o;
}

void add_attention(Options& bench) {
  Options& attention = bench.subcommand("attention", "The fused attention: share of the multiply-add peak");
  const auto o = add_shapes(attention, bench::measure_attention);
  attention.choose("--dtype", o->dtype, kFloatTypes, "Type of queries, keys and values");
  std::vector<std::string> engines = bench::engine_names();
  engines.emplace_back("all");
  Option& engine =
      attention.add("--engine", o->engine, "Run this engine, or each in turn, where it can compute the shape")
          .one_of(engines)
          .takes("NAME");
  engine.allows(engine.expected()).shows("the one that heed chooses");
  attention.footer(
      "Examples:\n"
      "  heed bench attention\n"
      "  heed bench attention --shape 1,16,16,1024,1024,64 --threads 1 --json\n"
      "  heed bench attention --dtype bf16\n");
  Options& decode = bench.subcommand("decode", "Attention over a cache in memory: share of the memory bandwidth");
  add_shapes(decode, bench::measure_decode);
  decode.footer(
      "Examples:\n"
      "  heed bench decode\n"
      "  heed bench decode --shape 8,32,8,1,4096,128 --threads 1 --json\n");
  Options& cost = bench.subcommand("options", "What masks, biases, dropout and taps cost beside plain attention");
  cost.also_called("rules");
  add_shapes(cost, bench::measure_options);
  cost.footer(
      "Examples:\n"
      "  heed bench options\n"
      "  heed bench options --shape 1,8,8,4096,4096,64 --repeats 5\n");
}

void add_scaling(Options& bench) {
  Options& options = bench.subcommand("scaling", "How time and memory of attention grow with its sizes and threads");
  auto o = std::make_shared<bench::ScalingBench>();
  options.add("--longest", o->longest, "Most queries and keys; lengths double from 128 on").range(128, 1 << 20);
  run_with(options, o, bench::measure_scaling);
  options.footer("Examples:\n  heed bench scaling\n  heed bench scaling --longest 4096 --json\n");
}

void add_matmul(Options& bench) {
  Options& options = bench.subcommand("matmul", "The matrix product: share of the multiply-add peak");
  auto o = std::make_shared<bench::MatmulBench>();
  options
      .add("--shape", o->shapes,
           "M,N,K or M,N,K,XY instead of the usual shapes, where X and Y are N (as it is) or T (transposed)")
      .takes("SHAPE");
  add_repeats(options, o->repeats);
  add_precision(options, o->precision);
  run_with(options, o, bench::measure_matmul);
  options.footer(
      "Examples:\n"
      "  heed bench matmul\n"
      "  heed bench matmul --precision bf16\n"
      "  heed bench matmul --shape 3072,1536,384,NT --json\n");
}

void add_training(Options& bench) {
  Options& options = bench.subcommand("training", "Training steps of two reference models: tokens a second");
  auto o = std::make_shared<bench::TrainingBench>();
  options.add("--model", o->model, "Which model").one_of({"gpt", "transformer", "all"});
  options.add("--steps", o->steps, "Steps that are timed").range(1, 100000);
  add_precision(options, o->precision);
  run_with(options, o, bench::measure_training);
  options.footer(
      "Examples:\n"
      "  heed bench training\n"
      "  heed bench training --precision bf16\n"
      "  heed bench training --model gpt --steps 20 --json\n");
}

}  // namespace

void add_bench_command(Options& options) {
  add_attention(options);
  add_scaling(options);
  add_matmul(options);
  add_training(options);
  options.footer(
      "Examples:\n"
      "  heed bench attention\n"
      "  heed bench decode\n"
      "  heed bench options\n"
      "  heed bench scaling\n"
      "  heed bench matmul\n"
      "  heed bench training --threads 1\n");
}

}  // namespace heed::cli
