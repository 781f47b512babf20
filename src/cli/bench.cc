// heed bench: what the machine can do and what the kernels make of it.
#include "cli/bench_attention.h"
#include "cli/bench_decode.h"
#include "cli/bench_matmul.h"
#include "cli/bench_rules.h"
#include "cli/bench_scaling.h"
#include "cli/bench_training.h"
#include "cli/command.h"

namespace heed::cli {
namespace {

// The benchmarks of attention: shapes, repeats, a table.
CLI::App* add_shapes(CLI::App& bench, Context& context, const char* name, const char* what, const char* examples,
                     const std::shared_ptr<BenchOptions>& o, std::string (*run)(const BenchOptions&)) {
  CLI::App* command = bench.add_subcommand(name, what);
  command->add_option("--shape", o->shapes, "B,H,Hkv,L,S,D instead of the usual shapes; may be repeated")
      ->type_name("SHAPE")
      ->expected(1)
      ->take_all();
  command->add_option("--repeats", o->repeats, "Timings of each line")
      ->check(between(1, 100000))
      ->capture_default_str();
  command->footer(examples);
  context.on_run(*command, [o, run](Context& c) {
    o->json = c.json;
    print(run(*o));
    return kSuccess;
  });
  return command;
}

void add_attention(CLI::App& bench, Context& context) {
  const auto options = [] { return std::make_shared<BenchOptions>(); };
  const auto o = options();
  CLI::App* const command =
      add_shapes(bench, context, "attention", "The fused attention, share of the multiply-add peak",
                 "Examples:\n  heed bench attention\n"
                 "  heed bench attention --shape 1,16,16,1024,1024,64 --threads 1 --json\n"
                 "  heed bench attention --dtype bf16\n",
                 o, bench_attention);
  command->add_option("--dtype", o->dtype, "Type of queries, keys and values: f32, bf16 or f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  add_shapes(bench, context, "decode", "Attention over a cold cache, share of the memory bandwidth",
             "Examples:\n  heed bench decode\n  heed bench decode --shape 8,32,8,1,4096,128 --threads 1 --json\n",
             options(), bench_decode);
  add_shapes(bench, context, "rules", "What masks, biases, dropout and taps cost beside plain attention",
             "Examples:\n  heed bench rules\n  heed bench rules --shape 1,8,8,4096,4096,64 --repeats 5\n", options(),
             bench_rules);
}

void add_scaling(CLI::App& bench, Context& context) {
  auto o = std::make_shared<ScalingBenchOptions>();
  CLI::App* command =
      bench.add_subcommand("scaling", "How time and memory of attention grow with lengths, batch and threads");
  command->add_option("--longest", o->longest, "Most queries and keys, from 128 on doubled")
      ->check(between(128, 1 << 20))
      ->capture_default_str();
  command->footer("Examples:\n  heed bench scaling\n  heed bench scaling --longest 4096 --json\n");
  context.on_run(*command, [o](Context& c) {
    o->json = c.json;
    print(bench_scaling(*o));
    return kSuccess;
  });
}

void add_precision(CLI::App& command, std::string& precision) {
  command.add_option("--precision", precision, "f32, or bf16: operands are rounded to it")
      ->check(CLI::IsMember({"f32", "bf16"}).description(""))
      ->capture_default_str();
}

void add_matmul(CLI::App& bench, Context& context) {
  auto o = std::make_shared<MatmulBenchOptions>();
  CLI::App* command = bench.add_subcommand("matmul", "The matrix product, share of the multiply-add peak");
  command
      ->add_option("--shape", o->shapes,
                   "M,N,K or M,N,K,XY instead of the usual shapes; X and Y: N as is, T transposed")
      ->type_name("SHAPE")
      ->expected(1)
      ->take_all();
  command->add_option("--repeats", o->repeats, "Timings of each line")
      ->check(between(1, 100000))
      ->capture_default_str();
  add_precision(*command, o->precision);
  command->footer(
      "Examples:\n  heed bench matmul\n  heed bench matmul --precision bf16\n  heed bench matmul --shape "
      "3072,1536,384,NT --json\n");
  context.on_run(*command, [o](Context& c) {
    o->json = c.json;
    print(bench_matmul(*o));
    return kSuccess;
  });
}

void add_training(CLI::App& bench, Context& context) {
  auto o = std::make_shared<TrainingBenchOptions>();
  CLI::App* command = bench.add_subcommand("training", "Training steps of two reference models, tokens a second");
  command->add_option("--model", o->model, "gpt, transformer or all")
      ->check(CLI::IsMember({"gpt", "transformer", "all"}).description(""))
      ->capture_default_str();
  command->add_option("--steps", o->steps, "Steps that are timed")->check(between(1, 100000))->capture_default_str();
  add_precision(*command, o->precision);
  command->footer(
      "Examples:\n  heed bench training\n  heed bench training --precision bf16\n  heed bench training --model gpt "
      "--steps 20 --json\n");
  context.on_run(*command, [o](Context& c) {
    o->json = c.json;
    print(bench_training(*o));
    return kSuccess;
  });
}

}  // namespace

void add_bench_command(CLI::App& command, Context& context) {
  command.require_subcommand(1);
  command.fallthrough();
  add_attention(command, context);
  add_scaling(command, context);
  add_matmul(command, context);
  add_training(command, context);
  command.footer(
      "Examples:\n"
      "  heed bench attention\n"
      "  heed bench decode\n"
      "  heed bench rules\n"
      "  heed bench scaling\n"
      "  heed bench matmul\n"
      "  heed bench training --threads 1\n");
}

}  // namespace heed::cli
