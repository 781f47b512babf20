// Whole trainings: that they learn, that they are the same bits however they are interrupted, and how they stop.
#include <sys/resource.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/generate.h"
#include "toy.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::vector<Json> log_of(const fs::path& folder, const std::string& type = "") {
  std::vector<Json> lines;
  std::istringstream text(read_text(folder / "log.jsonl"));
  for (std::string line; std::getline(text, line);) {
    Json json = Json::parse(line);
    if (type.empty() || json.at("type") == type) lines.push_back(std::move(json));
  }
  return lines;
}

using Training = OneThread;

// What two runs must have in common: everything but times.
std::vector<Json> timeless(const fs::path& folder) {
  std::vector<Json> lines;
  for (Json line : log_of(folder)) {
    if (line["type"] == "start") continue;  // one a run
    line.erase("seconds");
    line.erase("tokens_per_second");
    lines.push_back(std::move(line));
  }
  return lines;
}

// Trains, stopping after each of the given updates and continuing.
Outcome run_in_parts(const Recipe& recipe, const fs::path& folder, std::vector<int64_t> stops) {
  std::atomic<bool> stop = false;
  Recipe talkative = recipe;
  talkative.log_every = 1;  // a report each update, to stop in
  bool resume = false;
  for (const int64_t at : stops) {
    stop = false;
    const Callbacks callbacks{.progress = [&](const Progress& p) { stop = p.update >= at; }, .stop = &stop};
    EXPECT_EQ(train(talkative, folder, resume, callbacks), Outcome::interrupted);
    resume = true;
  }
  return train(talkative, folder, true, {});
}

TEST_F(Training, LearnsToCopy) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.label_smoothing = 0;
  recipe.model.dropout = recipe.model.attention_dropout = 0;
  recipe.batch_tokens = 384;
  recipe.max_updates = 400;
  recipe.validate_every = 100;
  recipe.valid_beam = 2;
  recipe.valid_tokenize = "none";
  EXPECT_EQ(run(recipe, folder / "model"), Outcome::finished);

  const auto valid = log_of(folder / "model", "valid");
  ASSERT_EQ(valid.size(), 4u);
  EXPECT_LT(valid.back()["loss"].get<double>(), 0.1);
  EXPECT_GT(valid.back()["bleu"].get<double>(), 90.0);
  const auto end = log_of(folder / "model", "end");
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(end[0]["outcome"], "finished");

  const auto model = models::load(folder / "model");
  const auto& transformer = dynamic_cast<const models::Transformer&>(*model);
  const auto tokenizer = text::Tokenizer::load(folder / "model", text::Side::source);
  const std::string sentence = "c a f e b";
  auto ids = tokenizer->encode(sentence);
  ids.push_back(tokenizer->special().end);
  const auto found = generate::translate(transformer, std::span(&ids, 1), {.search = {.beam = 1}});
  EXPECT_EQ(tokenizer->decode(found[0][0].ids), sentence);

  // evaluate() sees what validation saw.
  const Evaluation evaluation =
      evaluate(*model, folder / "model", recipe.valid_source, recipe.valid_target, {.batch_tokens = 384});
  EXPECT_NEAR(evaluation.loss, end[0]["loss"].get<double>(), 1e-6);
  EXPECT_NEAR(evaluation.perplexity, std::exp(evaluation.loss), 1e-12);
}

TEST_F(Training, IsTheSameBitsHoweverOftenItIsInterrupted) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.ema = 0.9;
  recipe.average_last = 3;
  recipe.accumulate = 2;
  recipe.clip_norm = 0.5;
  recipe.checkpoint_every = 5;
  recipe.log_every = 1;
  EXPECT_EQ(run(recipe, folder / "whole"), Outcome::finished);
  EXPECT_EQ(run_in_parts(recipe, folder / "parts", {1, 6, 7, 13, 20, 29}), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder / "whole/model.safetensors", folder / "parts/model.safetensors"));
  const std::string newest = "checkpoints/step-00000030/optimizer.safetensors";
  EXPECT_TRUE(same_bytes(folder / "whole" / newest, folder / "parts" / newest));
  EXPECT_EQ(timeless(folder / "whole"), timeless(folder / "parts"));
}

TEST_F(Training, IsTheSameBitsWithoutAveragesToo) {
  const TemporaryFolder folder;
  const Recipe recipe = copy_recipe(folder.path());
  EXPECT_EQ(run(recipe, folder / "whole"), Outcome::finished);
  EXPECT_EQ(run_in_parts(recipe, folder / "parts", {3, 14, 15}), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder / "whole/model.safetensors", folder / "parts/model.safetensors"));
}

TEST_F(Training, DoesNotDependOnTheNumberOfThreads) {
  const TemporaryFolder folder;
  const Recipe recipe = copy_recipe(folder.path());
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    EXPECT_EQ(run(recipe, folder / std::to_string(threads)), Outcome::finished);
    EXPECT_TRUE(same_bytes(folder / "1/model.safetensors", folder / std::to_string(threads) / "model.safetensors"));
  }
}

// On every instruction set: where it does not multiply bf16 the training is that of f32, and says so.
TEST_F(Training, InBf16IsTheSameBitsToo) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  EXPECT_EQ(run(recipe, folder / "f32"), Outcome::finished);
  recipe.precision = "bf16";
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    if (isa == Isa::portable) continue;  // seconds
    set_isa(isa);
    const std::string name(to_string(isa));
    const std::string refused = (isa == available_isas().back() ? "this processor" : "the instruction set " + name) +
                                " cannot multiply bf16; training runs in f32";
    bool told = false;
    const Callbacks callbacks{.message = [&](std::string_view text) { told |= text == refused; }};
    EXPECT_EQ(train(recipe, folder / name, false, callbacks), Outcome::finished);
    EXPECT_EQ(told, !multiplies_bf16());
    EXPECT_EQ(same_bytes(folder / name / "model.safetensors", folder / "f32/model.safetensors"), !multiplies_bf16());
    EXPECT_NEAR(log_of(folder / name, "end")[0]["loss"].get<double>(),
                log_of(folder / "f32", "end")[0]["loss"].get<double>(), 0.02);

    set_num_threads(3);
    EXPECT_EQ(run_in_parts(recipe, folder / (name + "-parts"), {3, 14}), Outcome::finished);
    set_num_threads(1);
    EXPECT_TRUE(same_bytes(folder / name / "model.safetensors", folder / (name + "-parts") / "model.safetensors"));
  }
  set_isa(before);
}

// The weights of a run of thirty updates, as every heed since 0.1 makes them on every processor.
TEST_F(Training, KeepsItsBits) {
  const TemporaryFolder folder;
  EXPECT_EQ(run(copy_recipe(folder.path()), folder / "m"), Outcome::finished);
  const std::string file = "m/checkpoints/step-00000030/optimizer.safetensors";
  EXPECT_EQ(files::crc32(read_text(folder / file)), 2803385898u);
}

TEST_F(Training, DependsOnTheSeed) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 2;
  EXPECT_EQ(run(recipe, folder / "a"), Outcome::finished);
  recipe.seed = 2;
  EXPECT_EQ(run(recipe, folder / "b"), Outcome::finished);
  EXPECT_FALSE(same_bytes(folder / "a/model.safetensors", folder / "b/model.safetensors"));
}

TEST_F(Training, FallsBackFromADamagedCheckpointAndEndsWithTheSameBits) {
  const TemporaryFolder folder;
  const Recipe recipe = copy_recipe(folder.path());
  EXPECT_EQ(run(recipe, folder / "whole"), Outcome::finished);
  std::atomic<bool> stop = false;
  const Callbacks until{.progress = [&](const Progress& p) { stop = p.update >= 20; }, .stop = &stop};
  EXPECT_EQ(train(recipe, folder / "damaged", false, until), Outcome::interrupted);
  fs::resize_file(folder / "damaged/checkpoints/step-00000020/model.safetensors", 100);
  std::string messages;
  const Callbacks hear{.message = [&](std::string_view text) { messages += std::string(text) + "\n"; }};
  EXPECT_EQ(train(recipe, folder / "damaged", true, hear), Outcome::finished);
  EXPECT_CONTAINS(messages, "damaged");
  EXPECT_CONTAINS(messages, "continuing after update 14");
  EXPECT_TRUE(same_bytes(folder / "whole/model.safetensors", folder / "damaged/model.safetensors"));
}

TEST_F(Training, StopsBeforeTheStepWhereTheLossIsNotFinite) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.schedule = {.kind = ScheduleKind::constant, .peak = 1e-3, .warmup = 0};
  recipe.max_updates = 10;
  recipe.validate_every = 5;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  const std::string good = read_text(folder / "m/checkpoints/step-00000010/model.safetensors");

  // A NaN written into a checkpoint would be found as damage. So a large learning rate makes one: weights of 1e38
  // overflow in the next forward pass.
  Recipe wild = recipe;
  wild.schedule.peak = 1e38;
  const std::string error = message_of([&] { static_cast<void>(run(wild, folder / "wild")); });
  EXPECT_CONTAINS(error, "a finite");
  EXPECT_CONTAINS(error, "in update 2");
  EXPECT_FALSE(fs::exists(folder / "wild"));  // the run leaves nothing behind
  EXPECT_EQ(read_text(folder / "m/checkpoints/step-00000010/model.safetensors"), good);
}

TEST_F(Training, AFullDiskIsAnErrorAndTheLastCheckpointStays) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  EXPECT_EQ(run(recipe, folder / "whole"), Outcome::finished);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_IGN);
  const Callbacks fill{.progress = [&](const Progress& p) {
    if (p.update < 8) return;
    rlimit tight = before;
    tight.rlim_cur = 20000;  // the log fits, the weights do not
    setrlimit(RLIMIT_FSIZE, &tight);
  }};
  const std::string error = message_of([&] { static_cast<void>(train(recipe, folder / "full", false, fill)); });
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_CONTAINS(error, "File too large");
  EXPECT_TRUE(fs::exists(folder / "full/checkpoints/step-00000007"));
  EXPECT_FALSE(fs::exists(folder / "full/checkpoints/step-00000014"));
  EXPECT_EQ(run(recipe, folder / "full", true), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder / "whole/model.safetensors", folder / "full/model.safetensors"));
}

TEST_F(Training, StopsEarlyAndKeepsTheBest) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  write_text(folder / "noise.txt", letters(24, 3));
  recipe.valid_target = (folder / "noise.txt").string();  // cannot be learnt, so the loss rises soon
  recipe.max_updates = 1000;
  recipe.validate_every = 5;
  Recipe blind = copy_recipe(folder.path());
  blind.valid_source = blind.valid_target = "";
  blind.patience = 2;
  EXPECT_CONTAINS(message_of([&] { (void)train(blind, folder / "blind", false, {}); }), "patience: 0 where no text");
  blind.patience = 0;
  blind.best_by = "bleu";
  blind.valid_beam = 2;
  EXPECT_CONTAINS(message_of([&] { (void)train(blind, folder / "blind", false, {}); }), "best_by: loss where no text");
  recipe.patience = 2;
  recipe.keep_last = 1;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::stopped_early);
  const auto valid = log_of(folder / "m", "valid");
  ASSERT_GE(valid.size(), 3u);
  EXPECT_FALSE(valid[valid.size() - 1]["best"].get<bool>());
  EXPECT_FALSE(valid[valid.size() - 2]["best"].get<bool>());
  EXPECT_TRUE(valid[valid.size() - 3]["best"].get<bool>());
  double best = 1e9;
  for (const Json& line : valid) best = std::min(best, line["loss"].get<double>());
  EXPECT_EQ(log_of(folder / "m", "end")[0]["loss"].get<double>(), best);
  EXPECT_EQ(log_of(folder / "m", "end")[0]["outcome"], "stopped_early");
  // Continuing finds nothing to do.
  EXPECT_EQ(run(recipe, folder / "m", true), Outcome::stopped_early);
}

TEST_F(Training, AccumulationIsOneLargerBatch) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  write_text(folder / "train.txt", "a b c d\nb c d e\nc d e f\nd e f g\n");
  recipe.model.dropout = recipe.model.attention_dropout = 0;
  recipe.max_updates = 1;
  recipe.batch_tokens = 20;
  EXPECT_EQ(run(recipe, folder / "one"), Outcome::finished);
  recipe.batch_tokens = 10;
  recipe.accumulate = 2;
  EXPECT_EQ(run(recipe, folder / "two"), Outcome::finished);
  const auto one = io::read_safetensors(folder / "one/checkpoints/step-00000001/optimizer.safetensors").tensors;
  const auto two = io::read_safetensors(folder / "two/checkpoints/step-00000001/optimizer.safetensors").tensors;
  for (const auto& [name, tensor] : one) {
    if (!name.starts_with("first.")) continue;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      EXPECT_NEAR(tensor.data<float>()[i], two.at(name).data<float>()[i], 1e-6f) << name;
    }
  }
}

TEST_F(Training, RefusesAFolderInUseAndAnotherRecipeOrText) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 2;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  EXPECT_CONTAINS(message_of([&] { static_cast<void>(run(recipe, folder / "m")); }), "without a training");
  recipe.max_updates = 4;  // may change
  EXPECT_EQ(run(recipe, folder / "m", true), Outcome::finished);
  Recipe other = recipe;
  other.label_smoothing = 0.3f;
  other.model.dropout = 0.2f;
  const std::string error = message_of([&] { static_cast<void>(run(other, folder / "m", true)); });
  EXPECT_CONTAINS(error, "label_smoothing (0.1 before, 0.3 now)");
  EXPECT_CONTAINS(error, "model.dropout");
  write_text(folder / "train.txt", letters(240, 9));
  EXPECT_CONTAINS(message_of([&] { static_cast<void>(run(recipe, folder / "m", true)); }), "found other text");
}

TEST_F(Training, SaysWhatIsWrongWithTheText) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  const auto error = [&](const Recipe& r) { return message_of([&] { static_cast<void>(run(r, folder / "m")); }); };
  Recipe r = recipe;
  r.train_target = (folder / "none.txt").string();
  EXPECT_CONTAINS(error(r), "none.txt");
  write_text(folder / "short.txt", "a b\n");
  r.train_target = (folder / "short.txt").string();
  EXPECT_CONTAINS(error(r), "as many lines as");
  write_text(folder / "bad.txt", "a b\n\xff\n");
  r.train_target = (folder / "bad.txt").string();
  EXPECT_CONTAINS(error(r), "2");
  r = recipe;
  r.max_tokens_per_sentence = 1;
  EXPECT_CONTAINS(error(r), "longer than 1");
}

TEST_F(Training, HoldsPairsBackAndWritesThemDown) {
  const TemporaryFolder folder;
  std::string tsv;
  std::istringstream sources(letters(300, 5));
  for (std::string line; std::getline(sources, line);) tsv += line + "\t" + line + "\tsomebody\n";
  write_text(folder / "pairs.tsv", tsv);
  Recipe recipe = copy_recipe(folder.path());
  recipe.train_source = recipe.train_target = recipe.valid_source = recipe.valid_target = "";
  recipe.pairs = (folder / "pairs.tsv").string();
  recipe.valid_fraction = 0.2;
  recipe.valid_beam = 1;
  recipe.valid_tokenize = "none";
  recipe.best_by = "bleu";
  recipe.max_updates = 14;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  const Pairs held = read_pairs(folder / "m/heldout.tsv");
  EXPECT_GT(held.sources.size(), 20u);
  EXPECT_LT(held.sources.size(), 100u);
  EXPECT_CONTAINS(read_text(folder / "m/heldout.tsv"), "\tsomebody");
  EXPECT_TRUE(log_of(folder / "m", "valid")[0].contains("bleu"));
}

TEST_F(Training, TrainsALanguageModelOfCharacters) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "to be or not\nto be\n";
  write_text(folder / "text.txt", text);
  Recipe recipe;
  recipe.task = "language_model";
  recipe.train_source = (folder / "text.txt").string();
  recipe.valid_fraction = 0.1;
  recipe.tokenizer = "characters";
  recipe.preset = "tiny";
  recipe.model = models::preset("tiny", models::Architecture::decoder_only);
  recipe.model.decoder_layers = 1;
  recipe.model.width = 32;
  recipe.model.feed_forward = 64;
  recipe.model.heads = 2;
  recipe.model.max_length = 32;
  recipe.model.dropout = 0;
  recipe.context = 16;
  recipe.batch_sentences = 8;
  recipe.label_smoothing = 0;
  recipe.schedule = {.kind = ScheduleKind::cosine, .peak = 1e-2, .warmup = 10};
  recipe.max_updates = 150;
  recipe.validate_every = 75;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  const double loss = log_of(folder / "m", "end")[0]["loss"].get<double>();
  EXPECT_LT(loss, 0.35);  // nearly certain once a few characters are seen
  const auto model = models::load(folder / "m");
  const auto tokenizer = text::Tokenizer::load(folder / "m", text::Side::target);
  EXPECT_EQ(tokenizer->vocabulary(), 4 + 8);  // " beonrt" and the line end
  write_text(folder / "valid.txt", text.substr(0, 190));
  const Evaluation evaluation = evaluate(*model, folder / "m", folder / "valid.txt", {}, {.context = 16});
  EXPECT_EQ(evaluation.tokens, 189);
  EXPECT_LT(evaluation.loss, 0.6);
}

// The loss of the first update, before any weight has changed, and of the third.
std::pair<double, double> first_and_third_loss(const Recipe& recipe, const fs::path& folder) {
  EXPECT_EQ(run(recipe, folder), Outcome::finished);
  const auto lines = log_of(folder, "train");
  return {lines.at(0)["loss"].get<double>(), lines.at(2)["loss"].get<double>()};
}

TEST_F(Training, ConsistencyComparesTwoDrawsOfDropout) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 3;
  recipe.log_every = 1;
  // Without dropout both passes give the same: nothing to add, and the same mean gradient.
  recipe.model.dropout = recipe.model.attention_dropout = 0;
  const auto alone = first_and_third_loss(recipe, folder / "alone");
  recipe.consistency = 5;
  const auto equal = first_and_third_loss(recipe, folder / "equal");
  EXPECT_NEAR(equal.first, alone.first, 1e-6);
  EXPECT_NEAR(equal.second, alone.second, 1e-4);
  // With dropout they differ, by an amount that the weight multiplies: (b - a) / (c - a) = 3 / 6.
  recipe.model.dropout = 0.3f;
  std::vector<double> losses;
  for (const float consistency : {0.001f, 3.001f, 6.001f}) {
    recipe.consistency = consistency;
    losses.push_back(first_and_third_loss(recipe, folder / ("dropped" + std::to_string(losses.size()))).first);
  }
  EXPECT_GT(losses[1], losses[0] + 1e-3);
  EXPECT_NEAR((losses[1] - losses[0]) / (losses[2] - losses[0]), 0.5, 1e-3);
  // Before its first update nothing is added.
  recipe.consistency_from = 2;
  const auto later = first_and_third_loss(recipe, folder / "later");
  recipe.consistency_from = 3;
  const auto never = first_and_third_loss(recipe, folder / "never");
  recipe.consistency = 0;
  EXPECT_EQ(never, first_and_third_loss(recipe, folder / "without"));
  EXPECT_TRUE(same_bytes(folder / "never/model.safetensors", folder / "without/model.safetensors"));
  EXPECT_EQ(later.first, never.first);
  EXPECT_GT(later.second, never.second + 1e-3);
  recipe.consistency = 6.001f;
  recipe.consistency_from = 0;
  // An interruption changes no bit.
  EXPECT_EQ(run_in_parts(recipe, folder / "parts", {1, 2}), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder / "parts/model.safetensors", folder / "dropped2/model.safetensors"));
}

TEST_F(Training, ConsistencyEndsAfterItsLastUpdate) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 3;
  recipe.log_every = 1;
  recipe.model.dropout = 0.3f;
  const auto log_until = [&](int64_t until, const char* name) {
    recipe.consistency_until = until;
    recipe.consistency = 6;
    EXPECT_EQ(run(recipe, folder / name), Outcome::finished);
    return log_of(folder / name, "train");
  };
  const auto all = log_until(0, "all"), two = log_until(2, "two"), one = log_until(1, "one");
  recipe.consistency_until = 0;
  recipe.consistency = 0;
  EXPECT_EQ(run(recipe, folder / "none"), Outcome::finished);
  const auto none = log_of(folder / "none", "train");
  const auto loss = [](const auto& log, size_t update) { return log.at(update)["loss"].template get<double>(); };
  EXPECT_EQ(loss(two, 1), loss(all, 1));
  EXPECT_LT(loss(two, 2), loss(all, 2) - 1e-3);
  EXPECT_EQ(loss(one, 0), loss(all, 0));
  EXPECT_LT(loss(one, 1), loss(all, 1) - 1e-3);
  EXPECT_GT(loss(one, 0), loss(none, 0) + 1e-3);
  // An interruption at the last such update changes no bit.
  recipe.consistency = 6;
  recipe.consistency_until = 2;
  EXPECT_EQ(run_in_parts(recipe, folder / "parts", {2}), Outcome::finished);
  EXPECT_TRUE(same_bytes(folder / "parts/model.safetensors", folder / "two/model.safetensors"));
}

TEST_F(Training, TrainsAMaskedLanguageModel) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 120; ++i) text += i % 2 ? "a b c d e f\n" : "f e d c b a\n";
  write_text(folder / "text.txt", text);
  Recipe recipe;
  recipe.task = "masked_language_model";
  recipe.train_source = (folder / "text.txt").string();
  recipe.valid_fraction = 0.2;
  recipe.tokenizer = "pieces";
  recipe.preset = "tiny";
  recipe.model = models::preset("tiny", models::Architecture::encoder_only);
  recipe.model.encoder_layers = 1;
  recipe.model.width = 32;
  recipe.model.feed_forward = 64;
  recipe.model.heads = 2;
  recipe.model.max_length = 32;
  recipe.model.dropout = recipe.model.attention_dropout = 0;
  recipe.label_smoothing = 0;
  recipe.batch_tokens = 128;
  recipe.schedule = {.kind = ScheduleKind::constant, .peak = 5e-3, .warmup = 10};
  recipe.max_updates = 200;
  recipe.validate_every = 100;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  const auto model = models::load(folder / "m");
  EXPECT_EQ(model->config().mask_id, 10);  // behind 4 special ids and 6 letters
  EXPECT_EQ(model->config().source_vocabulary, 11);
  const auto valid = log_of(folder / "m", "valid");
  EXPECT_LT(valid.back()["loss"].get<double>(), 0.3);
  const Evaluation evaluation = evaluate(*model, folder / "m", folder / "text.txt", {});
  EXPECT_EQ(evaluation.sentences, 120);
  EXPECT_LT(evaluation.loss, 0.4);

  recipe.model.dropout = 0.1f;
  recipe.consistency = 1;
  recipe.max_updates = 100;
  EXPECT_EQ(run(recipe, folder / "twice"), Outcome::finished);
  EXPECT_LT(log_of(folder / "twice", "valid").back()["loss"].get<double>(), 1.0);
}

}  // namespace
}  // namespace heed::train
