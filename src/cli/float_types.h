// What --dtype, --cache and --weights take.
#pragma once

#include <initializer_list>
#include <utility>

#include "heed/ops_options.h"
#include "heed/tensor.h"

namespace heed::cli {

inline constexpr std::initializer_list<std::pair<const char*, DType>> kFloatTypes = {
    {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}};
inline constexpr std::initializer_list<std::pair<const char*, DType>> kCacheTypes = {
    {"f32", DType::f32}, {"f16", DType::f16}, {"bf16", DType::bf16}, {"int8", DType::i8}};
inline constexpr const char* kCacheHelp =
    "Type in which keys and values are kept between tokens; smaller types take less memory and are less exact";
inline constexpr std::initializer_list<std::pair<const char*, WeightFormat>> kWeightFormats = {
    {"f32", WeightFormat::f32}, {"bf16", WeightFormat::bf16}, {"int8", WeightFormat::int8}};
inline constexpr const char* kWeightsHelp =
    "Format of the weights of linear layers; bf16 (on processors that multiply it) and int8 are faster, take half and "
    "a quarter of the memory, and are less exact";

}  // namespace heed::cli
