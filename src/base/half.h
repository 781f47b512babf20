// bf16 and f16 as 16-bit patterns, converted to and from f32 with round to nearest even. NaN stays NaN.
//
// Choices, no branches: so that compilers make vectors of loops over them.
#pragma once

#include <bit>
#include <cstdint>

namespace heed {

// condition ? a : b. In bits: a sum of floats behind a condition would be a branch.
[[nodiscard]] constexpr uint32_t chosen(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - uint32_t{condition};
  return (a & mask) | (b & ~mask);
}

[[nodiscard]] constexpr float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

[[nodiscard]] constexpr uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u), quiet_nan = bits | 0x400000u;
  return static_cast<uint16_t>(chosen(static_cast<int32_t>(bits & 0x7FFFFFFFu) > 0x7F800000, quiet_nan, rounded) >> 16);
}

[[nodiscard]] constexpr float f16_to_f32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1Fu;
  const uint32_t fraction = bits & 0x3FFu;
  const uint32_t normal = (chosen(exponent == 0x1Fu, 0xFFu, exponent + 112u) << 23) | (fraction << 13);
  // Zero or subnormal: fraction * 2^-24, exact in f32.
  const auto small = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(fraction)) * 0x1p-24f);
  return std::bit_cast<float>(sign | chosen(exponent == 0, small, normal));
}

[[nodiscard]] constexpr uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto size = static_cast<int32_t>(magnitude);  // baseline vectors compare signed numbers only
  const uint32_t nan = 0x7E00u | ((magnitude >> 13) & 0x3FFu), infinity = 0x7C00u;
  // Below 2^-14: a multiple of 2^-24; adding 0.5 rounds to nearest even there.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  // May carry into infinity, as it should.
  const uint32_t normal = (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const uint32_t finite = chosen(size < 0x38800000, small, normal), large = chosen(size > 0x7F800000, nan, infinity);
  return static_cast<uint16_t>(sign | chosen(size >= 0x47800000, large, finite));  // from 65536 on: large
}

}  // namespace heed
