// The matrix product: both operands packed into the order in which the register tile reads them.
//
// On a 2.5 GHz Cascade Lake (two FMA units, 32 KB L1, 1 MB L2) the 8 x 48 tile is limited by the multiply-adds:
// 24 of them, three loads of B and eight broadcasts of A a step.
#include "kernels/gemm/gemm.h"

#include <bit>

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

// Calls f with the Step that multiplies on the instruction set in use.
template <class Function>
auto with_step(bool bf16, Function&& f) {
#if HWY_TARGET == HWY_AVX3
  if (bf16) {
    switch (active_isa()) {
      case Isa::avx512bf16: return f(Bf16Step());
      case Isa::amx: return f(AmxStep<AmxTiles>());
      default: break;
    }
  }
#endif
  (void)bf16;
  return f(F32Step());
}

void run_gemm(const Gemm& g) {
  if (g.int8 != nullptr) return run_int8_product(g, kernels::fastest_int8_unit());
  with_step(g.packed != nullptr ? g.packed->layout().bf16 : g.bf16, [&](auto step) {
    using Step = decltype(step);
    g.packed != nullptr ? run_packed_product<Step>(g) : run_product<Step>(g);
  });
}

PackedB::Layout find_packed_layout(int64_t k, int64_t n, bool bf16) {
  return with_step(bf16, [&](auto step) { return packed_layout<decltype(step)>(k, n); });
}

void run_pack(const Gemm& g, float* packed) {
  with_step(g.bf16, [&](auto step) { pack_all<decltype(step)>(g, packed); });
}

float run_quantise(const float* row, int64_t count, int8_t* out) { return quantise_row(row, count, out); }

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

PackedB::PackedB(const float* b, int64_t b_row, int64_t b_column, int64_t k, int64_t n, bool bf16) {
  dispatch_ready();
  layout_ = HWY_DYNAMIC_DISPATCH(find_packed_layout)(k, n, bf16);
  const int64_t columns = (n + layout_.lanes - 1) / layout_.lanes * layout_.lanes;
  data_ = Buffer<float>(std::max<int64_t>(1, layout_.steps * columns));
  Gemm g;
  g.bf16 = bf16;
  g.n = n, g.k = k;
  g.b = b, g.b_row = b_row, g.b_column = b_column;
  HWY_DYNAMIC_DISPATCH(run_pack)(g, data_.data());
}

void PackedB::column(int64_t j, float* out) const {
  const Layout& l = layout_;
  const int64_t vectors = (l.n + l.lanes - 1) / l.lanes, panels = (vectors + l.panel - 1) / l.panel;
  const auto first = [&](int64_t panel) { return vectors * panel / panels; };  // as Panels in pack-inl.h
  int64_t panel = std::min(panels - 1, j / l.lanes / l.panel);
  while (first(panel + 1) <= j / l.lanes) ++panel;
  while (first(panel) > j / l.lanes) --panel;
  const int64_t begin = first(panel) * l.lanes, width = first(panel + 1) * l.lanes - begin;
  for (int64_t p0 = 0; p0 < l.steps; p0 += l.depth) {
    const int64_t depth = std::min(l.depth, l.steps - p0);
    const float* const from = data_.data() + p0 * vectors * l.lanes + depth * begin + j - begin;
    if (!l.bf16) {
      for (int64_t p = 0; p < depth; ++p) out[p0 + p] = from[p * width];
      continue;
    }
    for (int64_t p = 0; p < depth; ++p) {
      const auto pair = std::bit_cast<uint32_t>(from[p * width]);
      const int64_t k = 2 * (p0 + p);
      out[k] = std::bit_cast<float>(pair << 16);
      if (k + 1 < l.k) out[k + 1] = std::bit_cast<float>(pair & 0xffff0000u);  // behind it: a zero that fills the step
    }
  }
}

void PackedB::unpack(float* out) const {
  for (int64_t j = 0; j < layout_.n; ++j) column(j, out + j * layout_.k);
}

void gemm(const Gemm& g) {
  if (g.m <= 0 || g.n <= 0) return;
  dispatch_ready();
  if (g.packed != nullptr) {
    // Tests change the instruction set of a process; bf16 products round what they pack.
    const PackedB::Layout& layout = g.packed->layout();
    const bool fits = layout == HWY_DYNAMIC_DISPATCH(find_packed_layout)(g.k, g.n, layout.bf16);
    if ((g.bf16 && !layout.bf16) || !fits) {
      const Buffer<float> unpacked(g.k * g.n);
      Gemm plain = g;
      g.packed->unpack(unpacked.data());
      plain.packed = nullptr;
      plain.bf16 = g.bf16 || layout.bf16;
      plain.b = unpacked.data(), plain.b_row = 1, plain.b_column = g.k;
      HWY_DYNAMIC_DISPATCH(run_gemm)(plain);
      return;
    }
  }
  HWY_DYNAMIC_DISPATCH(run_gemm)(g);
}

}  // namespace heed::kernels
#endif
