// The checksum of weights, which files of weights carry.
#include <algorithm>
#include <cstring>

#include "base/mapped_file.h"
#include "models/weights.h"

namespace heed::models {
namespace {

// Each step is a bijection of the state and of the word, so no single change can be lost on the way to the end.
uint64_t mix(uint64_t state, uint64_t word) {
  state = (state ^ word) * 0x9E3779B97F4A7C15u;
  return state ^ (state >> 32);
}

// What is read of a mapped file is given back piece by piece.
uint64_t mix_bytes(uint64_t state, const void* data, size_t size) {
  constexpr size_t kPiece = size_t{1} << 22;
  const auto* bytes = static_cast<const unsigned char*>(data);
  while (size >= sizeof(uint64_t)) {
    const size_t piece = std::min(kPiece, size) / sizeof(uint64_t) * sizeof(uint64_t);
    for (size_t at = 0; at < piece; at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, bytes + at, sizeof word);
      state = mix(state, word);
    }
    files::give_pages_back(bytes, static_cast<int64_t>(piece));
    bytes += piece, size -= piece;
  }
  uint64_t rest = 0;
  if (size > 0) std::memcpy(&rest, bytes, size);
  return mix(state, rest);
}

}  // namespace

std::string checksum(const io::Tensors& tensors) {
  uint64_t state = 0;
  for (const auto& [name, tensor] : tensors) {
    state = mix_bytes(state, name.data(), name.size());
    for (const int64_t extent : tensor.shape()) state = mix(state, static_cast<uint64_t>(extent));
    const Tensor packed = tensor.contiguous();
    if (packed.numel() > 0) state = mix_bytes(state, packed.raw(), static_cast<size_t>(packed.nbytes()));
  }
  std::string digits(16, '0');
  for (size_t i = 0; i < digits.size(); ++i) digits[15 - i] = "0123456789abcdef"[(state >> (4 * i)) & 15];
  return digits;
}

}  // namespace heed::models
