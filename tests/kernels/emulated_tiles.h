// Tiles of AMX in memory, so that a machine without them tests all but the instructions themselves.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace heed::testing {

// tdpbf16ps as Intel's manual has it, but for numbers below 2^-126, which the instruction takes for 0. Only between a
// Scope's beginning and end are there any tiles.
struct EmulatedTiles {
  struct Registers {
    alignas(64) unsigned char tile[8][16][64];
  };
  static Registers*& registers() {
    static thread_local Registers* r = nullptr;
    return r;
  }
  struct Scope {
    Registers own;
    Scope() {
      std::memset(&own, 0xFF, sizeof own);  // NaN
      registers() = &own;
    }
    ~Scope() { registers() = nullptr; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
  };
  template <int kTile>
  static void load(const void* from, int64_t row_bytes) {
    for (int64_t r = 0; r < 16; ++r) {
      std::memcpy(registers()->tile[kTile][r], static_cast<const char*>(from) + r * row_bytes, 64);
    }
  }
  template <int kTile>
  static void store(void* to, int64_t row_bytes) {
    for (int64_t r = 0; r < 16; ++r) {
      std::memcpy(static_cast<char*>(to) + r * row_bytes, registers()->tile[kTile][r], 64);
    }
  }
  template <int kTile>
  static void clear() {
    std::memset(registers()->tile[kTile], 0, 16 * 64);
  }
  template <int kC, int kA, int kB>
  static void dot() {
    for (size_t m = 0; m < 16; ++m) {
      float c[16], even[16] = {}, odd[16] = {};
      uint16_t a[32], b[32];
      std::memcpy(c, registers()->tile[kC][m], 64);
      std::memcpy(a, registers()->tile[kA][m], 64);
      for (size_t k = 0; k < 16; ++k) {
        std::memcpy(b, registers()->tile[kB][k], 64);
        for (size_t n = 0; n < 16; ++n) {
          even[n] += bf16_to_f32(a[2 * k]) * bf16_to_f32(b[2 * n]);
          odd[n] += bf16_to_f32(a[2 * k + 1]) * bf16_to_f32(b[2 * n + 1]);
        }
      }
      for (size_t n = 0; n < 16; ++n) c[n] += even[n] + odd[n];
      std::memcpy(registers()->tile[kC][m], c, 64);
    }
  }
  // tdpbssd.
  template <int kC, int kA, int kB>
  static void dot_int8() {
    for (size_t m = 0; m < 16; ++m) {
      int32_t c[16];
      std::memcpy(c, registers()->tile[kC][m], 64);
      for (size_t n = 0; n < 16; ++n) {
        for (size_t k = 0; k < 64; ++k) {
          c[n] += static_cast<int8_t>(registers()->tile[kA][m][k]) *
                  static_cast<int8_t>(registers()->tile[kB][k / 4][4 * n + k % 4]);
        }
      }
      std::memcpy(registers()->tile[kC][m], c, 64);
    }
  }
};

}  // namespace heed::testing
