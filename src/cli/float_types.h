// What --dtype takes.
#pragma once

#include <initializer_list>
#include <utility>

#include "heed/tensor.h"

namespace heed::cli {

inline constexpr std::initializer_list<std::pair<const char*, DType>> kFloatTypes = {
    {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}};

}  // namespace heed::cli
