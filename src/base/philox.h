// Philox4x32-10: random numbers as a pure function of (key, counter).
// Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
//
// No state: the number for element i is philox(seed, stream, i), for every caller and in every order.
#pragma once

#include <array>
#include <cstdint>

namespace heed {

// Four independent 32-bit words for (key, counter = high * 2^64 + low).
[[nodiscard]] constexpr std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                               static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Uniform in [0, 1): the top 24 bits, every value exact in f32.
[[nodiscard]] constexpr float uniform_float(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Uniform in [0, 1) with 53 bits.
[[nodiscard]] constexpr double uniform_double(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// What a random word must be at least for an element to survive dropout at `rate` in [0, 1): kept iff bits >=
// threshold.
[[nodiscard]] constexpr uint32_t dropout_threshold(float rate) {
  return static_cast<uint32_t>(static_cast<double>(rate) * 4294967296.0);
}

}  // namespace heed
