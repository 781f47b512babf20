// The weights of a family's folder, under our names and back under theirs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "models/families/family.h"
#include "models/weights.h"

namespace heed::models {

// What a model that others trained keeps of its folder, so that it is written as it came.
struct Origin {
  std::string config_json;  // as read
  Design design;
  struct Form {
    DType dtype = DType::f32;
    Shape shape;
  };
  std::map<std::string, Form> forms;  // of the file's tensors, by their names
};

// Where a parameter of ours stands in a file of theirs. Throws Error for a path that the design does not know.
struct Place {
  std::string name;
  int64_t part = 0;
};
[[nodiscard]] Place place_of(const Design& design, const std::string& path);

// Gives every parameter of `model` its tensor. Throws Error, naming the tensor, for one that is missing, has another
// shape, holds NaN or an infinity, or is left over.
void take_weights(const Model& model, const Design& design, const Weights& weights, const std::string& where,
                  const Keep& keep = {});

// What take_weights() gives the parameters, by our paths. Throws Error as it does.
[[nodiscard]] io::Tensors own_weights(const Model& model, const Design& design, const Weights& weights,
                                      const std::string& where);

// The origin of a model that is trained: files hold its weights in f32, so that no update is rounded away.
[[nodiscard]] std::shared_ptr<const Origin> with_f32_files(const Origin& origin);

// The origin of a model whose decoder begins with another token: its config.json says so.
[[nodiscard]] std::shared_ptr<const Origin> with_first_token(const Origin& origin, int64_t id);

// The parameters under their names, in the types and shapes of `origin`.
[[nodiscard]] io::Tensors weights_of(const Model& model, const Origin& origin);

}  // namespace heed::models
