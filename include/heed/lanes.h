// The numbers that score functions (score.h) are written in.
//
// A score function is a template over its number type Real. heed calls it with
//   Lanes         16 numbers side by side (or 8, or 4: as wide as the vectors of the processor), in the fused passes;
//   Dual<Lanes>   the same with their derivatives, in the backward pass;
//   Exact         one double, in the reference.
// Positions are Ints (or Whole, one number, in the reference). For all of them there are
//   + - * / and unary -         arithmetic, also with a plain float
//   < > ==                      comparisons, which give a mask
//   select(mask, a, b)          a where the mask is true, b elsewhere
//   abs min max exp log tanh sqrt
//   to_real(position)           a position as a number
// Write HEED_INLINE before each function of a score function.
//
// Arithmetic is that of IEEE 754, and each operation is rounded on its own. So the bits are the same on every
// instruction set, as long as the compiler does not fuse multiplications with additions (linking heed::heed passes
// -ffp-contract=off). exp, log and tanh are within 2 units in the last place.
#pragma once

#include "heed/detail/dual.h"
#include "heed/detail/exact.h"
#include "heed/detail/inline.h"
#include "heed/detail/score_block.h"
#include "heed/detail/vector_math.h"
#include "heed/detail/vectors.h"
