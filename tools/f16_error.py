#!/usr/bin/env python3
"""Why f16 is not multiplied in f16: the error of attention with products added up as AVX512-FP16 adds them.

    tools/f16_error.py

Prints root mean squares of the output's error, against double precision, of the plain formula in f16 (every tensor
rounded, products added in f32), of products added in f16 over 64 of them and in f32 from there on, and of everything in
f32 with the output rounded, as heed computes it. Standard normal operands, D = 64, 64 queries. Wants NumPy.
"""
import numpy as np

SIZE, QUERIES, BLOCK = 64, 64, 64


def chain(a, b, sums):
    """sums + a b along the last axis of a, each multiply-add rounded once to f16."""
    for n in range(a.shape[1]):
        exact = a[:, n : n + 1].astype(np.float64) * b[None, n].astype(np.float64) + sums  # a product fits a double
        sums = exact.astype(np.float16)
    return sums


def main():
    random = np.random.default_rng(0)
    print("keys   plain f16   added in f16   added in f32")
    for keys in (1024, 4096):
        q, k, v = (random.standard_normal((rows, SIZE)).astype(np.float16) for rows in (QUERIES, keys, keys))

        def softmax(scores):
            weights = np.exp(scores - scores.max(1, keepdims=True))
            return weights / weights.sum(1, keepdims=True)

        wide = [x.astype(np.float64) for x in (q, k, v)]
        exact = softmax(wide[0] @ wide[1].T / 8) @ wide[2]

        narrow = [x.astype(np.float32) for x in (q, k, v)]
        scores = narrow[0] @ narrow[1].T / 8
        f32 = (softmax(scores) @ narrow[2]).astype(np.float16)
        rounded = softmax(scores.astype(np.float16).astype(np.float32)).astype(np.float16)
        plain = (rounded.astype(np.float32) @ narrow[2]).astype(np.float16)

        scores = chain(q, k.T, np.zeros((QUERIES, keys), np.float16)).astype(np.float32) / 8
        weights = np.exp(scores - scores.max(1, keepdims=True))
        sums = np.zeros((QUERIES, SIZE), np.float32)
        for at in range(0, keys, BLOCK):
            part = weights[:, at : at + BLOCK].astype(np.float16)
            sums += chain(part, v[at : at + BLOCK], np.zeros((QUERIES, SIZE), np.float16))
        f16 = (sums / weights.sum(1, keepdims=True)).astype(np.float16)

        errors = [np.sqrt(np.mean((found - exact) ** 2)) for found in (plain, f16, f32)]
        print(f"{keys:4}   {errors[0]:9.1e}   {errors[1]:12.1e}   {errors[2]:12.1e}")


if __name__ == "__main__":
    main()
