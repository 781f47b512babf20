// The mean of checkpoints, and the moving average of the weights.
#include <cstring>

#include "heed/error.h"
#include "toy.h"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using Averages = OneThread;

TEST_F(Averages, OfTheLastCheckpoints) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.average_last = 2;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  const auto mean = io::read_safetensors(folder / "m/model.safetensors").tensors;
  const auto a = io::read_safetensors(folder / "m/checkpoints/step-00000028/model.safetensors").tensors;
  const auto b = io::read_safetensors(folder / "m/checkpoints/step-00000030/model.safetensors").tensors;
  ASSERT_FALSE(mean.empty());
  for (const auto& [name, tensor] : mean) {
    const float* x = a.at(name).data<float>();
    const float* y = b.at(name).data<float>();
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const double expected = (static_cast<double>(x[i]) + static_cast<double>(y[i])) / 2;
      EXPECT_EQ(tensor.data<float>()[i], static_cast<float>(expected)) << name;
    }
  }
  // The same through average_models(), which takes the tokenizer from the run's folder.
  const fs::path folders[] = {folder / "m/checkpoints/step-00000028", folder / "m/checkpoints/step-00000030"};
  average_models(folders, folder / "mean");
  EXPECT_EQ(io::read_safetensors(folder / "mean/model.safetensors").tensors.size(), mean.size());
  EXPECT_TRUE(same_bytes(folder / "mean/model.safetensors", folder / "m/model.safetensors"));
  EXPECT_NO_THROW(static_cast<void>(text::Tokenizer::load(folder / "mean", text::Side::target)));

  // At half the size: the mean, rounded once.
  average_models(folders, folder / "half", {.dtype = DType::f16});
  for (const auto& [name, tensor] : io::read_safetensors(folder / "half/model.safetensors").tensors) {
    ASSERT_EQ(tensor.dtype(), DType::f16) << name;
    const Tensor widened = tensor.to(DType::f32), rounded = mean.at(name).to(DType::f16).to(DType::f32);
    EXPECT_EQ(0, std::memcmp(widened.raw(), rounded.raw(), static_cast<size_t>(widened.nbytes()))) << name;
  }
  EXPECT_NO_THROW(static_cast<void>(models::load(folder / "half")));

  // Weights of the same shapes that belong to another model, or to other tokens.
  const auto copy_with = [&](const char* name, const char* file, const char* from, const char* to) {
    std::filesystem::copy(folder / "mean", folder / name);
    std::string text = read_text(folder / name / file);
    text.replace(text.find(from), std::strlen(from), to);
    write_text(folder / name / file, text);
    const fs::path both[] = {folder / "mean", folder / name};
    return message_of([&] { average_models(both, folder / "of-two"); });
  };
  EXPECT_CONTAINS(copy_with("other-heads", "config.json", "\"heads\": 2", "\"heads\": 4"), "found another one");
  EXPECT_CONTAINS(copy_with("other-tokens", "target.vocab", "\na\n", "\nA\n"), "the tokenizer of the first model");
  EXPECT_EQ(copy_with("same", "config.json", "\"dropout\": 0.", "\"dropout\": 0.5"), "");

  // The mean may not replace one of its models.
  const std::string kept = read_text(folder / "half/model.safetensors");
  const fs::path half[] = {folder / "half"};
  EXPECT_THROW(average_models(half, folder / "m/../half", {.overwrite = true}), Error);
  EXPECT_EQ(read_text(folder / "half/model.safetensors"), kept);
}

TEST_F(Averages, AMovingAverageIsWhatItSays) {
  const TemporaryFolder folder;
  Recipe recipe = copy_recipe(folder.path());
  recipe.max_updates = 3;
  recipe.ema = 0.2;
  recipe.checkpoint_every = 1;
  EXPECT_EQ(run(recipe, folder / "m"), Outcome::finished);
  recipe.ema = 0;
  EXPECT_EQ(run(recipe, folder / "plain"), Outcome::finished);
  const auto tensors = [&](const std::string& run_name, int step, const std::string& file) {
    return io::read_safetensors(folder / run_name / ("checkpoints/step-0000000" + std::to_string(step)) / file).tensors;
  };
  const auto first = tensors("m", 1, "model.safetensors"), second = tensors("m", 2, "model.safetensors");
  const auto weights = tensors("m", 2, "optimizer.safetensors"), plain = tensors("plain", 2, "model.safetensors");
  const double decay = std::min(0.2, 3.0 / 12.0);
  for (const auto& [name, tensor] : second) {
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const double w = static_cast<double>(weights.at("weights." + name).data<float>()[i]);
      EXPECT_EQ(w, static_cast<double>(plain.at(name).data<float>()[i]));  // averaging does not change the training
      const double expected = decay * static_cast<double>(first.at(name).data<float>()[i]) + (1 - decay) * w;
      EXPECT_NEAR(static_cast<double>(tensor.data<float>()[i]), expected, 1e-6);
    }
  }
}

}  // namespace
}  // namespace heed::train
