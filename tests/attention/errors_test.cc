// What attention says when its arguments do not fit.
#include <gtest/gtest.h>

#include "attention/attention_case.h"
#include "base/message.h"
#include "heed/attention_variants.h"
#include "heed/error.h"

namespace heed {
namespace {

using testing::message_of;

const Tensor kQuery = Tensor::zeros({2, 4, 5, 8}), kKey = Tensor::zeros({2, 2, 7, 8}),
             kValue = Tensor::zeros({2, 2, 7, 3});

std::string forward_error(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {}) {
  return message_of([&] { (void)attention(q, k, v, options); });
}
std::string option_error(const AttentionOptions& options) { return forward_error(kQuery, kKey, kValue, options); }

TEST(AttentionErrors, SayWhatWasExpectedAndWhatWasFound) {
  EXPECT_EQ(forward_error({}, kKey, kValue), "[attention] query, key and value; found an undefined tensor");
  EXPECT_EQ(
      forward_error(Tensor::zeros({4, 5, 8}), kKey, kValue),
      "[attention] query (B, H, L, D), key (B, Hkv, S, D) and value (B, Hkv, S, Dv); found (4, 5, 8), (2, 2, 7, 8) "
      "and (2, 2, 7, 3)");
  EXPECT_CONTAINS(forward_error(kQuery.to(DType::f64), kKey, kValue), "query, key and value in f32; found f64");
  EXPECT_CONTAINS(forward_error(kQuery, Tensor::zeros({3, 2, 7, 8}), kValue), "one batch size");
  EXPECT_CONTAINS(forward_error(kQuery, Tensor::zeros({2, 2, 6, 8}), kValue), "as many values as keys");
  EXPECT_CONTAINS(forward_error(kQuery, Tensor::zeros({2, 2, 7, 9}), kValue), "one head size");
  EXPECT_CONTAINS(forward_error(kQuery, Tensor::zeros({2, 3, 7, 8}), Tensor::zeros({2, 3, 7, 3})),
                  "a multiple of key/value heads; found 4 and 3");
}

TEST(AttentionErrors, OfOptions) {
  EXPECT_CONTAINS(option_error({.scale = std::nanf("")}), "a finite scale");
  EXPECT_CONTAINS(option_error({.softcap = -1}), "softcap");
  EXPECT_CONTAINS(option_error({.window = {.left = -2}}), "window");
  EXPECT_CONTAINS(option_error({.dropout = {.rate = 1}}), "[0, 1); found 1");
  EXPECT_CONTAINS(option_error({.dropout = {.rate = std::nanf("")}}), "[0, 1)");
  EXPECT_CONTAINS(option_error({.mask = Tensor::zeros({5, 7})}), "a boolean mask (true = attends); found f32");
  EXPECT_CONTAINS(option_error({.mask = Tensor::zeros({5, 6}, DType::boolean)}),
                  "broadcasts to (B, H, L, S) = (2, 4, 5, 7); found (5, 6)");
  EXPECT_CONTAINS(option_error({.bias = Tensor::zeros({1, 1, 1, 5, 7})}), "a bias");
  EXPECT_CONTAINS(option_error({.bias = Tensor::zeros({5, 7}, DType::f64)}), "a bias in f32; found f64");
  EXPECT_CONTAINS(option_error({.alibi_slopes = Tensor::zeros({2})}), "alibi_slopes of shape (H) = (4); found (2)");
  EXPECT_CONTAINS(option_error({.sinks = Tensor::zeros({4}, DType::f64)}), "sinks in f32");
  EXPECT_CONTAINS(option_error({.query_documents = Tensor::zeros({2, 5}, DType::i32)}), "or neither");
  EXPECT_CONTAINS(option_error({.want = {.output = Tensor::zeros({2, 4, 5, 8})}}),
                  "an output of shape (2, 4, 5, 3) in f32; found (2, 4, 5, 8) in f32");
  EXPECT_CONTAINS(option_error({.want = {.output = Tensor::zeros({2, 4, 5, 3}, DType::f64)}}), "in f32; found");
  EXPECT_CONTAINS(option_error({.want = {.output = Tensor::zeros({2, 4, 3, 5}).transpose(2, 3)}}),
                  "unit stride along its last axis and no element twice; found strides");
  EXPECT_CONTAINS(option_error({.want = {.output = Tensor::zeros({5, 3}).expand({2, 4, 5, 3})}}), "no element twice");
  Tensor memory = Tensor::zeros({400});
  const auto into = [&](const Shape& strides) {
    return option_error({.want = {.output = Tensor::wrap(memory.raw(), {2, 4, 5, 3}, strides, DType::f32)}});
  };
  EXPECT_CONTAINS(into({60, 15, 2, 1}), "no element twice");  // rows overlap
  EXPECT_EQ(into({60, 15, 3, 1}), "");
  EXPECT_EQ(into({200, 4, 17, 1}), "");  // heads beside each other
  const int32_t lengths[] = {7, 8};
  EXPECT_CONTAINS(option_error({.key_lengths = Tensor::from(std::span<const int32_t>(lengths), {2})}),
                  "key_lengths from 0 to S = 7; found 8 for sequence 1");
}

TEST(AttentionErrors, NoOptionIsIgnored) {
  EXPECT_CONTAINS(option_error({.want = {.taps = {.map = {.largest = true}}}}), "as taps.map.largest is set");
  EXPECT_CONTAINS(option_error({.want = {.taps = {.row_scores = true}}}), "as taps.row_scores is set");
  EXPECT_CONTAINS(option_error({.score = score::RelativePosition{Tensor::zeros({4, 8}), 3}}),
                  "a table of shape (4, 7) for this score function and 4 heads; found (4, 8)");
  EXPECT_CONTAINS(option_error({.score = score::RelativePosition{Tensor::zeros({2, 7}), 3}}), "found (2, 7)");
  EXPECT_CONTAINS(option_error({.score = score::Alibi{Tensor::zeros({5})}}), "a table of shape (4)");
  EXPECT_EQ(option_error({.score = score::RelativePosition{Tensor::zeros({4, 7}), 3}}), "");
}

TEST(AttentionErrors, OfBackward) {
  const AttentionResult r = attention(kQuery, kKey, kValue, {.want = {.logsumexp = true}});
  const Tensor d_output = Tensor::zeros({2, 4, 5, 3});
  const auto error = [&](const Tensor& d, const AttentionResult& forward, bool bias) {
    return message_of([&] { (void)attention_backward(d, kQuery, kKey, kValue, forward, {}, {.bias = bias}); });
  };
  EXPECT_EQ(error(d_output, r, false), "");
  EXPECT_CONTAINS(error(Tensor::zeros({2, 4, 5, 4}), r, false), "[attention_backward] d_output of shape (2, 4, 5, 3)");
  EXPECT_CONTAINS(error(d_output, attention(kQuery, kKey, kValue), false), "ask for it with want.logsumexp");
  EXPECT_CONTAINS(error(d_output, r, true), "a bias, as its gradient is wanted");
}

TEST(AttentionErrors, ReferenceAndPoolingCheckToo) {
  EXPECT_CONTAINS(message_of([] {
                    (void)reference::attention(kQuery, kKey, Tensor::zeros({2, 2, 6, 3}));
                  }),
                  "[reference::attention] as many values as keys");
  EXPECT_CONTAINS(message_of([] { (void)alpha::gaussian(0); }), "a width above 0; found 0");
  EXPECT_CONTAINS(message_of([] {
                    (void)attention_pooling(Tensor::zeros({1, 1}), Tensor::zeros({2, 1}), Tensor::zeros({2, 1}),
                                            [](auto, auto) { return -1.0; });
                  }),
                  "a kernel that is 0 or more; found -1");
  EXPECT_CONTAINS(message_of([] { (void)mask_from_blocked(Tensor::zeros({2})); }), "a boolean mask; found f32");
}

TEST(AttentionErrors, MaskFromBlockedInvertsTheMask) {
  const bool blocked[] = {true, false, false};
  Tensor tensor = Tensor::wrap(const_cast<bool*>(blocked), {3}, DType::boolean);
  EXPECT_EQ(testing::to_doubles(mask_from_blocked(tensor)), (std::vector<double>{0, 1, 1}));
}

}  // namespace
}  // namespace heed
