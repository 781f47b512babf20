// Names, counts and paths of parameters.
#include <gtest/gtest.h>

#include "heed/nn.h"

namespace heed::nn {
namespace {

class Leaf : public Module {
 public:
  explicit Leaf(float value) { weight = add_parameter("weight", Tensor::full({2, 3}, value)); }
  Value weight;
};

class Tree : public Module {
 public:
  Tree() : first_(1), second_(2) {
    bias = add_parameter("bias", Tensor::zeros({4}));
    add_module("first", first_);
    add_module("second", second_);
    add_module("again", first_);  // tied: the same parameters by another way
    name_paths();
  }
  Value bias;
  Leaf first_, second_;
};

TEST(Module, NamesParametersInOrderOfConstructionAndTiedOnesOnce) {
  const Tree root;
  std::vector<std::string> names;
  for (const auto& [name, value] : root.named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"bias", "first.weight", "second.weight"}));
  EXPECT_EQ(root.parameter_count(), 4 + 6 + 6);
  EXPECT_EQ(root.parameters().size(), 3u);
}

TEST(Module, HandsOutTheParametersThemselves) {
  const Tree root;
  root.named_parameters()[1].second.set_data(Tensor::full({2, 3}, 7));
  EXPECT_EQ(root.first_.weight.data().at({1, 2}), 7);
  EXPECT_TRUE(root.parameters()[1].requires_grad());
}

TEST(Module, KnowsItsPath) {
  const Tree root;
  EXPECT_EQ(root.path(), "");
  EXPECT_EQ(root.second_.path(), "second");
}

}  // namespace
}  // namespace heed::nn
