// The .npy format, in memory: what an .npy file and a member of an .npz file have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "heed/tensor.h"

namespace heed::io {

// What the header of an array says.
struct NpyHeader {
  DType dtype = DType::f32;
  Shape shape;
  bool fortran = false;
  int64_t data_begin = 0;  // the byte at which the elements begin
  int64_t data_bytes = 0;
};

// `begin` is the start of the file, the whole header at least. `name` is for messages.
[[nodiscard]] NpyHeader parse_npy_header(std::string_view begin, const std::string& name, std::string_view function);
// The most bytes a header that parse_npy_header() accepts can have.
inline constexpr int64_t kMaxNpyHeader = 65536 + 12;

// The tensor for a header, contiguous in memory in the order of the file; `view` has the axes in their right order.
struct NpyTensor {
  Tensor memory;
  Tensor view;
};
[[nodiscard]] NpyTensor allocate_npy(const NpyHeader& header);

// Magic, version and header, padded so that the elements begin at a multiple of 64. The tensor must have a dtype that
// npy knows: bf16 has been converted before.
[[nodiscard]] std::string make_npy_header(const Tensor& tensor);
// Contiguous, and f32 where it was bf16, which the format does not have.
[[nodiscard]] Tensor as_npy_has_it(const Tensor& tensor, std::string_view function);

}  // namespace heed::io
