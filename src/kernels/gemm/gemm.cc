// The matrix product: both operands packed into the order in which the register tile reads them.
//
// On a 2.5 GHz Cascade Lake (two FMA units, 32 KB L1, 1 MB L2) the 8 x 48 tile is limited by the multiply-adds:
// 24 of them, three loads of B and eight broadcasts of A a step.
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/quantise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/gemm/int8-inl.h"
#include "kernels/gemm/loops-inl.h"
#include "kernels/gemm/tile_amx-inl.h"
#include "kernels/simd/amx-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void run_gemm(const Gemm& g) {
  if (g.int8 != nullptr) return run_int8_product(g, kernels::fastest_int8_unit());
#if HWY_TARGET == HWY_AVX3
  if (g.bf16) {
    switch (active_isa()) {
      case Isa::avx512bf16: return run_product<Bf16Step>(g);
      case Isa::amx: return run_product<AmxStep<AmxTiles>>(g);
      default: break;
    }
  }
#endif
  if (g.packed != nullptr) return run_packed_product(g);
  run_product<F32Step>(g);
}

PackedB::Layout find_packed_layout(int64_t k, int64_t n) { return packed_layout(k, n); }

void run_pack(const Gemm& g, float* packed) { pack_all<F32Step>(g, packed); }

float run_quantise(const float* row, int64_t count, int8_t* out) {
  return quantise_row(row, count, out);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::kernels {

HWY_EXPORT(run_gemm);
HWY_EXPORT(find_packed_layout);
HWY_EXPORT(run_pack);
HWY_EXPORT(run_quantise);

float quantise(const float* row, int64_t count, int8_t* out) {
  dispatch_ready();
  return HWY_DYNAMIC_DISPATCH(run_quantise)(row, count, out);
}

PackedB::PackedB(const float* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n) {
  dispatch_ready();
  layout_ = HWY_DYNAMIC_DISPATCH(find_packed_layout)(k, n);
  data_ = Buffer<float>(std::max<int64_t>(1, k * ((n + layout_.lanes - 1) / layout_.lanes * layout_.lanes)));
  Gemm g;
  g.n = n, g.k = k;
  g.b = b, g.b_row = b_row, g.b_column = b_column;
  HWY_DYNAMIC_DISPATCH(run_pack)(g, data_.data());
}

void PackedB::unpack(float* b, int64_t b_row, int64_t b_column) const {
  const auto& [k, n, lanes, panel, depth] = layout_;
  const int64_t vectors = (n + lanes - 1) / lanes, panels = (vectors + panel - 1) / panel;
  const float* from = data_.data();
  for (int64_t p0 = 0; p0 < k; p0 += depth) {
    const int64_t steps = std::min(depth, k - p0);
    for (int64_t i = 0; i < panels; ++i) {
      const int64_t begin = vectors * i / panels * lanes, width = vectors * (i + 1) / panels * lanes - begin;
      for (int64_t p = p0; p < p0 + steps; ++p, from += width) {
        for (int64_t j = 0; j < std::min(width, n - begin); ++j) b[p * b_row + (begin + j) * b_column] = from[j];
      }
    }
  }
}

void gemm(const Gemm& g) {
  if (g.m <= 0 || g.n <= 0) return;
  dispatch_ready();
  if (g.packed != nullptr) {
    // Tests change the instruction set of a process; bf16 products round what they pack.
    const bool fits = g.packed->layout() == HWY_DYNAMIC_DISPATCH(find_packed_layout)(g.k, g.n);
    if (g.bf16 || !fits) {
      const Buffer<float> unpacked(g.k * g.n);
      Gemm plain = g;
      g.packed->unpack(unpacked.data(), 1, g.k);
      plain.packed = nullptr;
      plain.b = unpacked.data(), plain.b_row = 1, plain.b_column = g.k;
      HWY_DYNAMIC_DISPATCH(run_gemm)(plain);
      return;
    }
  }
  HWY_DYNAMIC_DISPATCH(run_gemm)(g);
}

}  // namespace heed::kernels
#endif
