// What the models that heed writes in the layouts of others have in common.
#pragma once

#include <string>
#include <string_view>

#include "formats/json.h"
#include "heed/io.h"
#include "heed/models.h"

namespace heed::models {

inline constexpr const char* kExporter = "save_huggingface";

struct Exported {  // NOLINT(bugprone-exception-escape): of moving a Json, which nlohmann declares noexcept
  io::Json config, generation;
  io::Tensors tensors;
};

// Throws Error unless `condition`: a model of the family has `what`.
void need(bool condition, std::string_view family, std::string_view what);

// What all families want of a model: layer_norm, heads of width / heads, a plain feed-forward.
void check_plain(const Config& config, std::string_view family);

// transformers' name of it. Throws Error for `none`.
[[nodiscard]] const char* activation_word(Activation activation);

[[nodiscard]] io::Json common_config(const Config& config, const char* model_type, const char* class_name);

// (max_length, E): the vectors of positions for a family that learns them: those under `path`, sinusoids, or zeros.
[[nodiscard]] Tensor position_table(const Config& config, const io::Tensors& own, const std::string& path,
                                    std::string_view family);

// Puts the factor sqrt(E) into the vectors of tokens under `path`, where the model multiplies by it. An output that
// shares these vectors then has its own, `output`; empty: there is no such output.
void put_scale_into_table(Config& config, io::Tensors& own, const std::string& path, const std::string& output);

// A bias of zeros for every linear map and norm of the layers that has none: it changes nothing.
void put_zero_biases(io::Tensors& own);

// A copy of the keys' and values' heads for each query head that shares them.
void repeat_key_value_heads(Config& config, io::Tensors& own);

// A decoder-only model: a GPT-2, or, with ALiBi, an MPT.
[[nodiscard]] Exported as_decoder(Config config, io::Tensors own);

}  // namespace heed::models
