// Models for inference: packed weights have the bits of plain ones, and int8 is a file format too.
#include <gtest/gtest.h>

#include <cmath>

#include "base/message.h"
#include "heed/cpu.h"
#include "heed/error.h"
#include "heed/io.h"
#include "models/helpers.h"
#include "models/weights.h"

namespace heed::models::test {
namespace {

using testing::message_of;

Tensor logits_of(const Model& model) {
  const NoGradScope no_grad;
  const std::vector<Ids> rows = {random_ids(6, 11, 3), random_ids(4, 11, 4)};
  if (const auto* const gpt = dynamic_cast<const Gpt*>(&model)) return gpt->forward(batch({rows[0]})).data();
  if (const auto* const bert = dynamic_cast<const Bert*>(&model))
    return bert->forward(batch(rows), lengths(rows)).data();
  const auto& transformer = dynamic_cast<const Transformer&>(model);
  return transformer.forward(batch(rows), lengths(rows), batch(rows)).data();
}

int64_t packed_count(const Model& model, WeightFormat format) {
  int64_t count = 0;
  for (const auto& [path, value] : model.named_parameters()) {
    const auto packed = value.packed();
    count += packed != nullptr && packed->format() == format ? 1 : 0;
  }
  return count;
}

template <class F>
void for_all_models(F&& f) {
  for (const Architecture a : {Architecture::encoder_decoder, Architecture::decoder_only, Architecture::encoder_only}) {
    for (const auto& [name, config] : variants(a)) {
      SCOPED_TRACE(name);
      const TemporaryFolder folder;
      const auto model = create(config, 9);
      shake(*model);
      save(*model, folder / "model");
      f(*model, folder);
    }
  }
}

double cosine(const Tensor& x, const Tensor& y) {
  double dot = 0, a = 0, b = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double p = static_cast<double>(x.contiguous().data<float>()[i]);
    const double q = static_cast<double>(y.contiguous().data<float>()[i]);
    dot += p * q, a += p * p, b += q * q;
  }
  return dot / std::sqrt(a * b);
}

TEST(PackedModel, HasTheSameBits) {
  for_all_models([](const Model& model, const TemporaryFolder& folder) {
    const auto packed = load(folder / "model", {.packed = true});
    EXPECT_GT(packed_count(*packed, WeightFormat::f32), 0);
    EXPECT_TRUE(same_bits(logits_of(*packed), logits_of(model)));
    EXPECT_GT(packed_count(*packed, WeightFormat::f32), 0);
    save(*packed, folder / "again");
    EXPECT_GT(packed_count(*packed, WeightFormat::f32), 0);
    EXPECT_EQ(io::read_file(folder / "again" / "model.safetensors"),
              io::read_file(folder / "model" / "model.safetensors"));
    EXPECT_EQ(packed->parameter_count(), model.parameter_count());
  });
}

TEST(PackedModel, Int8IsCloseAndStored) {
  for_all_models([](const Model& model, const TemporaryFolder& folder) {
    const auto int8 = load(folder / "model", {.packed = true, .weights = WeightFormat::int8});
    EXPECT_GT(packed_count(*int8, WeightFormat::int8), 0);
    const Tensor exact = logits_of(model), rounded = logits_of(*int8);
    EXPECT_GT(cosine(exact, rounded), 0.99);
    save(*int8, folder / "int8");
    for (const WeightFormat wanted : {WeightFormat::f32, WeightFormat::int8}) {
      const auto stored = load(folder / "int8", {.packed = true, .weights = wanted});
      EXPECT_TRUE(same_bits(logits_of(*stored), rounded));
    }
    // Without packing it is a model in f32, with the rounded numbers.
    const auto plain = load(folder / "int8");
    EXPECT_EQ(packed_count(*plain, WeightFormat::int8), 0);
    for (const auto& [path, value] : int8->named_parameters()) {
      const auto packed = value.packed();
      const auto all = plain->named_parameters();
      const auto same = std::find_if(all.begin(), all.end(), [&path](const auto& p) { return p.first == path; });
      ASSERT_NE(same, all.end());
      EXPECT_TRUE(same_bits(same->second.data(), packed ? packed->unpack() : value.data())) << path;
    }
  });
}

TEST(PackedModel, Bf16IsCloseAndStored) {
  if (!multiplies_bf16()) GTEST_SKIP() << "this processor does not multiply bf16";
  for_all_models([](const Model& model, const TemporaryFolder& folder) {
    const auto bf16 = load(folder / "model", {.packed = true, .weights = WeightFormat::bf16});
    EXPECT_GT(packed_count(*bf16, WeightFormat::bf16), 0);
    EXPECT_TRUE(bf16->packed_as(WeightFormat::bf16));
    EXPECT_FALSE(bf16->packed_as(WeightFormat::int8));
    const Tensor exact = logits_of(model), rounded = logits_of(*bf16);
    EXPECT_FALSE(same_bits(exact, rounded));
    EXPECT_GT(cosine(exact, rounded), 0.9999);
    // The file has the rounded numbers: in bf16 the same bits come out.
    save(*bf16, folder / "bf16");
    EXPECT_LT(std::filesystem::file_size(folder / "bf16/model.safetensors"),
              std::filesystem::file_size(folder / "model/model.safetensors"));
    EXPECT_TRUE(same_bits(logits_of(*load(folder / "bf16", {.packed = true, .weights = WeightFormat::bf16})), rounded));
    EXPECT_GT(cosine(exact, logits_of(*load(folder / "bf16"))), 0.9999);
  });
}

TEST(PackedModel, Bf16NeedsAProcessorThatMultipliesIt) {
  const Isa before = active_isa();
  set_isa(Isa::portable);
  const std::string message = message_of([] { (void)ops::PackedWeight(Tensor::zeros({3, 4}), WeightFormat::bf16); });
  set_isa(before);
  EXPECT_NE(message.find("a processor that multiplies bf16 (AVX512-BF16 or AMX), for weights in bf16; found portable"),
            std::string::npos)
      << message;
}

TEST(PackedModel, WhatIsWrongWithInt8IsSaid) {
  const TemporaryFolder folder;
  const auto model = create(small(Architecture::decoder_only), 9);
  model->pack(WeightFormat::int8);
  save(*model, folder.path());
  io::Tensors tensors = io::read_safetensors(folder / "model.safetensors").tensors;
  const auto number =
      std::find_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.second.dtype() == DType::i8; });
  ASSERT_NE(number, tensors.end());
  const std::string scale = number->first + ".scale";
  const auto expect = [&](const std::string& part) {
    io::write_safetensors(folder / "model.safetensors", tensors);
    EXPECT_NE(message_of([&] { (void)load(folder.path()); }).find(part), std::string::npos)
        << message_of([&] { (void)load(folder.path()); });
  };
  const Tensor scales = tensors.at(scale);
  tensors[scale] = scales.slice(0, 1, scales.size(0)).clone();
  expect("scales in f32 for each row");
  tensors[scale] = Tensor::full(scales.shape(), std::numeric_limits<float>::quiet_NaN());
  expect("finite weights");
  tensors[scale] = scales;
  const std::string balance = number->first + ".balance";
  const Tensor balances = tensors.at(balance);
  tensors[balance] = balances.slice(0, 1, balances.size(0)).clone();
  expect("a balance in f32 for each column");
  tensors[balance] = Tensor::full(balances.shape(), std::numeric_limits<float>::infinity());
  expect("finite weights");
  tensors.erase(balance);  // as files had it before there was a balance
  io::write_safetensors(folder / "model.safetensors", tensors);
  EXPECT_NO_THROW((void)load(folder.path()));
  tensors.erase(scale);
  expect(scale);
  EXPECT_THROW((void)load(folder.path(), {.weights = WeightFormat::int8}), Error);
}

TEST(PackedModel, LoadingDrawsNoInitialWeights) {
  const nn::Initializer::Skipped skipped;
  EXPECT_TRUE(nn::Initializer::Skipped::active());
  const auto model = create(small(Architecture::decoder_only), 9);
  for (const auto& [path, value] : model->named_parameters()) EXPECT_TRUE(value.defined()) << path;
}

}  // namespace
}  // namespace heed::models::test
