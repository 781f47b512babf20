"""heed.KeyValueCache and heed.attention_cached against attention over the same keys."""

import threading
import unittest

import numpy as np

import heed
from test_attention import random_arrays


class Caches(unittest.TestCase):
    def test_decoding_has_the_bits_of_a_prefill(self):
        q, k, v = random_arrays((2, 4, 90, 16), (2, 2, 90, 16), (2, 2, 90, 24))
        whole = heed.attention(q, k, v, causal=True)
        for page in (0, 16):
            cache = heed.KeyValueCache(2, 2, 100, 16, 24, page=page)
            cache.append(k[:, :, :60], v[:, :, :60])
            np.testing.assert_array_equal(
                heed.attention_cached(q[:, :, :60], cache, causal=True), whole[:, :, :60])
            for at in range(60, 90):
                cache.append(k[:, :, at:at + 1], v[:, :, at:at + 1])
                np.testing.assert_array_equal(
                    heed.attention_cached(q[:, :, at:at + 1], cache, causal=True), whole[:, :, at:at + 1])
            self.assertEqual(cache.lengths.tolist(), [90, 90])

    def test_half_precision_and_int8_caches_round_and_save_memory(self):
        q, k, v = random_arrays((1, 2, 1, 32), (1, 2, 50, 32), (1, 2, 50, 32))
        exact = heed.attention(q, k, v)
        sizes = []
        for dtype, tolerance in (("float32", 0), ("float16", 2e-3), ("bfloat16", 2e-2), ("int8", 3e-2)):
            cache = heed.KeyValueCache(1, 2, 64, 32, dtype=dtype)
            cache.append(k, v)
            np.testing.assert_allclose(heed.attention_cached(q, cache), exact, rtol=0, atol=tolerance)
            sizes.append(cache.nbytes)
        self.assertEqual(sizes[0], 2 * sizes[1])
        self.assertEqual(sizes[1], sizes[2])
        self.assertLess(sizes[3], sizes[2])
        half = heed.attention(q.astype(np.float16), k.astype(np.float16), v.astype(np.float16))
        self.assertEqual(half.dtype, np.float16)
        np.testing.assert_allclose(half, exact, rtol=0, atol=3e-3)

    def test_own_memory_in_pages_with_scales(self):
        q, = random_arrays((2, 2, 3, 8))
        generator = np.random.default_rng(5)
        key, value = (generator.integers(-127, 128, (6, 1, 4, 8), dtype=np.int8) for _ in range(2))
        key_scales, value_scales = (generator.random((6, 1, 4), dtype=np.float32) / 100 for _ in range(2))
        pages = np.array([[3, 1, 5], [0, 4, 2]])
        lengths = np.array([10, 5])
        found = heed.attention_cached(
            q, heed.KeyValues(key, value, key_scales, value_scales, lengths, pages), causal=True)
        rows = lambda x, scales: (x * scales[..., None])[pages, 0].reshape(2, 1, 12, 8).astype(np.float32)
        expected = heed.attention(
            q, rows(key, key_scales), rows(value, value_scales), key_lengths=lengths, causal=True)
        np.testing.assert_array_equal(found, expected)

    def test_caches_grow_and_fork(self):
        k, v, q = random_arrays((2, 1, 30, 8), (2, 1, 30, 8), (3, 1, 1, 8))
        for page in (0, 4):
            cache = heed.KeyValueCache(2, 1, 0, 8, page=page)
            cache.append(k[:, :, :20], v[:, :, :20])
            cache.append(k[:, :, 20:], v[:, :, 20:], np.array([10, 3]))
            cache.reorder([1, 0, 1])
            self.assertEqual(cache.lengths.tolist(), [23, 30, 23])
            expected = heed.attention(q, k[[1, 0, 1]], v[[1, 0, 1]], key_lengths=np.array([23, 30, 23], np.int32))
            np.testing.assert_array_equal(heed.attention_cached(q, cache), expected)
            self.assertRaises(ValueError, lambda: cache.reorder([3]))
            self.assertRaises(TypeError, lambda: cache.reorder(3))
            cache.reorder(iter([0, 1, 2]))
            np.testing.assert_array_equal(heed.attention_cached(q, cache), expected)
            self.assertRaises(ValueError, lambda: cache.reorder([]))

    def test_threads_share_a_cache(self):
        k, v, q = random_arrays((1, 2, 64, 16), (1, 2, 64, 16), (1, 2, 1, 16))
        expected = {n: heed.attention(q, k[:, :, :n], v[:, :, :n]).tobytes() for n in range(1, 65)}
        for rounds in range(20):
            cache = heed.KeyValueCache(1, 2, 0, 16)  # grows, and so moves its memory
            cache.append(k[:, :, :1], v[:, :, :1])
            wrong = []

            def read():
                while not wrong and int(cache.lengths[0]) < 64:
                    if heed.attention_cached(q, cache).tobytes() not in set(expected.values()):
                        wrong.append("a result of no length")

            readers = [threading.Thread(target=read) for _ in range(2)]
            for thread in readers:
                thread.start()
            for n in range(1, 64):
                cache.append(k[:, :, n : n + 1], v[:, :, n : n + 1])
            for thread in readers:
                thread.join()
            self.assertEqual(wrong, [])
            self.assertEqual(heed.attention_cached(q, cache).tobytes(), expected[64])
        self.assertIn("KeyValueCache(float32, lengths [64], ", repr(cache))

    def test_lengths_truncation_and_errors(self):
        k, v, q = random_arrays((2, 1, 4, 8), (2, 1, 4, 8), (2, 1, 1, 8))
        cache = heed.KeyValueCache(2, 1, 8, 8, page=4, pages=3)
        cache.append(k, v, np.array([4, 2]))
        cache.append(np.moveaxis(k, 1, 2), np.moveaxis(v, 1, 2), np.array([1, 0]), layout="blhd")
        self.assertEqual(cache.lengths.tolist(), [5, 2])
        self.assertEqual(cache.free_pages, 0)
        for bad in (
            lambda: cache.append(k, v),  # no pages left
            lambda: cache.append(k[:1], v[:1]),
            lambda: cache.append(k, v, np.array([5, 0])),
            lambda: cache.truncate(0, 6),
            lambda: heed.KeyValueCache(1, 1, 1, 1, dtype="float64"),
            lambda: heed.attention_cached(q[:1], cache),
            lambda: heed.attention_cached(q, heed.KeyValues(k, v, pages=np.array([[0], [9]]), lengths=np.array([1, 1]))),
        ):
            self.assertRaises(ValueError, bad)
        self.assertRaises(TypeError, lambda: heed.attention_cached(q, k))
        self.assertEqual(cache.lengths.tolist(), [5, 2])
        cache.truncate(0, 3)
        self.assertEqual(cache.free_pages, 1)


if __name__ == "__main__":
    unittest.main()
