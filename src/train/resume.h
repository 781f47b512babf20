// What must not change when a run is continued.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/io.h"
#include "heed/train.h"

namespace heed::train {

// Throws Error, naming the keys, where `recipe` differs from the checkpoint's in a way that changes what the weights
// become. `config` and `saved_config` are JSON texts of the models.
void require_same_recipe(const Recipe& recipe, const std::string& saved_recipe, const std::string& config,
                         const std::string& saved_config);

using NamedParameters = std::vector<std::pair<std::string, Value>>;

// The tensors of a file become the parameters. `prefix` goes before each path.
void copy_into(const NamedParameters& parameters, const io::Tensors& tensors, const std::string& prefix,
               const std::string& where);

}  // namespace heed::train
