// Module: named parameters, and children with names.
#include <algorithm>

#include "heed/nn.h"

namespace heed::nn {

std::vector<std::pair<std::string, Value>> Module::named_parameters() const {
  std::vector<std::pair<std::string, Value>> all = parameters_;
  for (const auto& [name, child] : children_) {
    for (const auto& parameter : child->named_parameters()) {
      const Value& value = parameter.second;
      const bool tied =
          std::any_of(all.begin(), all.end(), [&value](const auto& seen) { return seen.second.same_leaf(value); });
      if (!tied) all.emplace_back(name + "." + parameter.first, value);
    }
  }
  return all;
}

std::vector<Value> Module::parameters() const {
  std::vector<Value> all;
  for (auto& [path, value] : named_parameters()) all.push_back(value);
  return all;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const auto& [path, value] : named_parameters()) count += value.shape().numel();
  return count;
}

Value Module::add_parameter(std::string name, Tensor initial) {
  Value value(std::move(initial), true);
  parameters_.emplace_back(std::move(name), value);
  return value;
}

void Module::pack(WeightFormat format) const {
  for_packed([format](const Value& weight) { weight.pack(format); });
}

void Module::for_packed(const std::function<void(const Value& weight)>& f) const {
  for (const auto& [name, child] : children_) child->for_packed(f);
}

bool Module::packed_as(WeightFormat format) const {
  const std::vector<Value> all = parameters();
  return std::any_of(all.begin(), all.end(), [&](const Value& value) {
    const auto packed = value.packed();
    return packed != nullptr && packed->format() == format;
  });
}

void Module::add_module(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }

void Module::name_paths(const std::string& prefix) {
  path_ = prefix;
  for (const auto& [name, child] : children_) child->name_paths(prefix.empty() ? name : prefix + "." + name);
}

}  // namespace heed::nn
