"""heed.attention from Python against the formula in NumPy, float64."""

import gc
import threading
import time
import unittest

import numpy as np

import heed

try:
    import jax
except ImportError:
    jax = None


def random_arrays(*shapes, seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def formula(query, key, value, *, scale=None, allowed=None, bias=0.0, softcap=None, sinks=None):
    """softmax(Q K^T scale + bias) V in float64, and the weights and logsumexp."""
    q, k, v = (x.astype(np.float64) for x in (query, key, value))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = np.einsum("bhid,bhjd->bhij", q, k) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    scores = scores + bias
    if allowed is not None:
        scores = np.where(allowed, scores, -np.inf)
    top = scores if sinks is None else np.maximum(scores, np.reshape(sinks, (-1, 1, 1)))
    largest = np.max(top, axis=-1, keepdims=True)
    shift = np.where(np.isfinite(largest), largest, 0)
    weights = np.exp(scores - shift)
    total = weights.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(np.reshape(sinks, (-1, 1, 1)) - shift)
    with np.errstate(divide="ignore"):
        logsumexp = (shift + np.log(total))[..., 0]
    weights = weights / np.where(total == 0, 1, total)
    return weights @ v, weights, logsumexp


class Forward(unittest.TestCase):
    def close(self, found, expected, tolerance=4e-6):
        self.assertEqual(np.shape(found), np.shape(expected))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)

    def test_is_the_formula(self):
        q, k, v = random_arrays((2, 4, 30, 16), (2, 2, 41, 16), (2, 2, 41, 8))
        out, weights, logsumexp = formula(q, k, v)
        self.close(heed.attention(q, k, v), out)
        r = heed.attention(q, k, v, return_logsumexp=True, return_weights=True)
        self.close(r.output, out)
        self.close(r.weights, weights)
        self.close(r.logsumexp, logsumexp)
        self.assertIsNone(r.taps)
        self.close(heed.reference.attention(q, k, v), out)
        q64, k64, v64 = (x.astype(np.float64) for x in (q, k, v))
        self.close(heed.reference.attention(q64, k64, v64), out, 1e-13)

    def test_masks_biases_and_the_rest(self):
        q, k, v, bias, sinks, slopes = random_arrays(
            (2, 4, 9, 8), (2, 4, 12, 8), (2, 4, 12, 8), (4, 9, 12), (4,), (4,), seed=1
        )
        i, j = np.arange(9)[:, None], np.arange(12)[None, :]
        mask = np.random.default_rng(2).random((2, 1, 9, 12)) < 0.7
        cases = [
            (dict(causal=True), dict(allowed=j <= i + 3)),
            (dict(causal="bottom_right"), dict(allowed=j <= i + 3)),
            (dict(causal="top_left"), dict(allowed=j <= i)),
            (dict(causal=1), dict(allowed=j <= i + 1)),
            (dict(causal=False), {}),
            (dict(window=(2, 1)), dict(allowed=(j >= i + 3 - 2) & (j <= i + 3 + 1))),
            (dict(mask=mask), dict(allowed=mask)),
            (dict(mask=mask[0, 0]), dict(allowed=mask[0, 0])),
            (dict(bias=bias), dict(bias=bias.astype(np.float64))),
            (dict(scale=0.3), dict(scale=0.3)),
            (dict(softcap=1.5), dict(softcap=1.5)),
            (dict(sinks=sinks), dict(sinks=sinks.astype(np.float64))),
            (dict(alibi_slopes=slopes), dict(bias=-slopes[:, None, None].astype(np.float64) * abs(i + 3 - j))),
            (dict(key_lengths=np.array([12, 5])), dict(allowed=j < np.array([12, 5])[:, None, None, None])),
            (dict(key_lengths=np.array([0, 5], np.int32)), dict(allowed=j < np.array([0, 5])[:, None, None, None])),
            (
                dict(query_documents=np.tile(np.arange(9) // 3, (2, 1)), key_documents=np.tile(np.arange(12) // 4, (2, 1))),
                dict(allowed=i // 3 == j // 4),
            ),
        ]
        for options, meaning in cases:
            with self.subTest(**{name: str(value) for name, value in options.items()}):
                self.close(heed.attention(q, k, v, **options), formula(q, k, v, **meaning)[0])

    def test_layouts_and_strides(self):
        q, k, v = random_arrays((2, 3, 10, 4), (2, 3, 12, 4), (2, 3, 12, 6), seed=3)
        out = heed.attention(q, k, v)
        transposed = heed.attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), layout="blhd")
        np.testing.assert_array_equal(transposed.transpose(0, 2, 1, 3), out)
        np.testing.assert_array_equal(heed.attention(q[0], k[0], v[0]), out[0])
        np.testing.assert_array_equal(heed.attention(q[0, 1], k[0, 1], v[0, 1]), out[0, 1])
        rows = heed.attention(q[0, 1], k[0, 1], v[0, 1], return_logsumexp=True, taps={"rows": [(0, 2)], "top_k": 1})
        self.assertEqual(rows.logsumexp.shape, (10,))
        self.assertEqual(rows.taps.rows.shape, (1, 12))
        self.assertEqual(rows.taps.top_keys.shape, (10, 1))
        np.testing.assert_array_equal(heed.attention(q[:, :, ::-1], k, v), out[:, :, ::-1])
        wide = np.zeros((2, 3, 12, 8), np.float32)
        wide[..., ::2] = k
        np.testing.assert_array_equal(heed.attention(q, wide[..., ::2], v), out)
        fortran = np.asfortranarray(v)
        np.testing.assert_array_equal(heed.attention(q, k, fortran), out)
        fixed = k.copy()
        fixed.flags.writeable = False
        np.testing.assert_array_equal(heed.attention(q, fixed, v), out)

    def test_empty_extents(self):
        q, k, v = random_arrays((1, 2, 0, 4), (1, 2, 5, 4), (1, 2, 5, 3))
        self.assertEqual(heed.attention(q, k, v).shape, (1, 2, 0, 3))
        np.testing.assert_array_equal(heed.attention(k, q, q), np.zeros((1, 2, 5, 4)))

    def test_half_precision_is_computed_in_float32(self):
        q, k, v = random_arrays((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
        halves = [x.astype(np.float16) for x in (q, k, v)]
        found = heed.attention(*halves)
        self.assertEqual(found.dtype, np.float16)
        expected = heed.attention(*(x.astype(np.float32) for x in halves)).astype(np.float16)
        np.testing.assert_array_equal(found, expected)

    def test_out_gets_the_output(self):
        q, k, v = random_arrays((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
        out = np.empty((1, 2, 5, 8), np.float32)
        self.assertIs(heed.attention(q, k, v, out=out), out)
        for dtype in (np.int8, np.int32, np.uint8, np.bool_):  # numbers would be cut off
            with self.assertRaisesRegex(ValueError, "out in float32, float64, float16 or bfloat16; found"):
                heed.attention(q, k, v, out=np.empty(out.shape, dtype))
        np.testing.assert_array_equal(out, heed.attention(q, k, v))

    def test_out_takes_any_form(self):
        q, k, v = random_arrays((2, 2, 100, 8), (2, 2, 100, 8), (2, 2, 100, 8))
        expected = heed.attention(q, k, v)
        wide = np.full((2, 2, 100, 16), 7, np.float32)
        for out in (wide[..., :8], wide[..., ::2], np.empty((2, 100, 2, 8), np.float32).transpose(0, 2, 1, 3),
                    np.empty_like(q, order="F"), np.empty(q.shape, np.float64)):
            self.assertIs(heed.attention(q, k, v, out=out), out)
            np.testing.assert_array_equal(out, expected.astype(out.dtype))
        np.testing.assert_array_equal(wide[..., 9::2], 7)  # nothing else is written
        transposed = np.empty((2, 100, 2, 8), np.float32)
        heed.attention(*(x.transpose(0, 2, 1, 3) for x in (q, k, v)), layout="blhd", out=transposed)
        np.testing.assert_array_equal(transposed, expected.transpose(0, 2, 1, 3))
        for one, rank in ((q[0], 3), (q[0, 0], 2)):
            out = np.empty(one.shape, np.float32)
            heed.attention(one, k[0] if rank == 3 else k[0, 0], v[0] if rank == 3 else v[0, 0], out=out)
            np.testing.assert_array_equal(out, expected[0] if rank == 3 else expected[0, 0])
        halves = [x.astype(np.float16) for x in (q, k, v)]
        half = np.empty(q.shape, np.float16)
        heed.attention(*halves, out=half)
        np.testing.assert_array_equal(half, heed.attention(*halves))
        cached = np.empty_like(q)
        heed.attention_cached(q, heed.KeyValues(k, v), out=cached)
        np.testing.assert_array_equal(cached, expected)

    def test_out_may_be_the_memory_of_an_operand(self):
        arrays = random_arrays((1, 2, 200, 8), (1, 2, 200, 8), (1, 2, 200, 8))
        expected = heed.attention(*arrays)
        for which in range(3):
            own = [x.copy() for x in arrays]
            heed.attention(*own, out=own[which])
            np.testing.assert_array_equal(own[which], expected)
        memory = np.zeros((1, 2, 400, 8), np.float32)  # the output begins in the middle of the values
        value, out = memory[:, :, :200], memory[:, :, 100:300]
        value[...] = arrays[2]
        heed.attention(arrays[0], arrays[1], value, out=out)
        np.testing.assert_array_equal(out, expected)

    def test_dlpack_alone_is_enough(self):
        class Exported:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **_):
                return self.array.__dlpack__()

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        q, k, v = random_arrays((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
        found = heed.attention(Exported(q), Exported(k[:, :, ::2]), Exported(v[:, :, ::2]))
        np.testing.assert_array_equal(found, heed.attention(q, k[:, :, ::2], v[:, :, ::2]))

    def test_results_live_as_long_as_they_are_held(self):
        q, k, v = random_arrays((1, 2, 50, 8), (1, 2, 60, 8), (1, 2, 60, 8))
        part = heed.attention(q, k, v)[0, 1]
        copy = part.copy()
        gc.collect()
        heed.attention(q + 1, k, v)
        np.testing.assert_array_equal(part, copy)

    def test_taps(self):
        q, k, v = random_arrays((1, 2, 20, 8), (1, 2, 30, 8), (1, 2, 30, 8), seed=5)
        weights = formula(q, k, v)[1]
        taps = heed.attention(
            q, k, v,
            taps={"entropy": True, "top_k": 2, "column_sums": True, "map": (4, 5), "rows": [(1, 3), (0, 0)]},
        ).taps
        self.close(taps.entropy, -(weights * np.log(weights)).sum(-1))
        np.testing.assert_array_equal(taps.top_keys, np.argsort(-weights, axis=-1, kind="stable")[..., :2])
        self.close(taps.top_weights, np.sort(weights, axis=-1)[..., :-3:-1])
        self.close(taps.column_sums, weights.sum(2))
        self.close(taps.map, weights.reshape(1, 2, 4, 5, 5, 6).mean((3, 5)))
        self.close(taps.rows, weights[:, [1, 0], [3, 0]])
        largest = heed.attention(q, k, v, taps={"map": (4, 5), "map_largest": True}).taps
        self.close(largest.map, weights.reshape(1, 2, 4, 5, 5, 6).max((3, 5)))
        self.assertIsNone(largest.entropy)

    def test_scores(self):
        q, k, v = random_arrays((2, 4, 20, 8), (2, 2, 30, 8), (2, 2, 30, 8), seed=6)
        bias, = random_arrays((20, 30), seed=7)
        q[0, 0, 0] *= 300  # some scores of this row are 1,000 below its largest: their weights are 0
        seen = np.arange(30) <= np.arange(20)[:, None] + 10
        q4, k4 = q.astype(np.float64), np.repeat(k, 2, axis=1).astype(np.float64)
        capped = 50 * np.tanh(np.einsum("bhid,bhjd->bhij", q4, k4) / (50 * 8**0.5))
        expected = np.where(seen, capped + bias, -np.inf)
        options = {"softcap": 50.0, "bias": bias, "causal": True}
        for function in (heed.attention, heed.reference.attention):
            self.close(function(q, k, v, return_scores=True, **options).scores, expected, 2e-5)
            rows = function(q, k, v, taps={"rows": [(3, 2), (0, 0)], "row_scores": True}, **options).taps
            self.close(rows.row_scores, expected[:, [3, 0], [2, 0]], 2e-5)
        plain = heed.attention(q, k, v, return_scores=True)
        self.close(plain.scores[0, 0, 0], k4[0, 0] @ q4[0, 0, 0] / 8**0.5, 1e-4)
        self.assertIsNone(plain.weights)
        self.assertEqual(heed.attention(q[0, 0], k[0, 0], v[0, 0], return_scores=True).scores.shape, (20, 30))
        cached = heed.attention_cached(q, heed.KeyValues(k, v), return_scores=True).scores
        np.testing.assert_array_equal(cached, plain.scores)

    def test_the_same_bits_with_any_threads_on_every_instruction_set(self):
        q, k, v = random_arrays((1, 4, 100, 32), (1, 2, 150, 32), (1, 2, 150, 32))
        threads, isa = heed.num_threads(), heed.active_isa()
        expected = heed.attention(q, k, v, dropout=0.2, seed=4)
        try:
            for name in heed.available_isas():
                for count in (1, 2, 3):
                    heed.set_isa(name)
                    heed.set_num_threads(count)
                    np.testing.assert_array_equal(heed.attention(q, k, v, dropout=0.2, seed=4), expected)
        finally:
            heed.set_num_threads(threads)
            heed.set_isa(isa)

    def test_the_interpreter_lock_is_released(self):
        q, k, v = random_arrays((1, 8, 1500, 64), (1, 8, 1500, 64), (1, 8, 1500, 64))
        worker = threading.Thread(target=heed.attention, args=(q, k, v))
        steps = 0
        worker.start()
        while worker.is_alive():
            time.sleep(0.0005)
            steps += 1
        self.assertGreater(steps, 3)


@unittest.skipIf(jax is None, "JAX is not installed")
class Jax(unittest.TestCase):
    def test_arrays_of_jax_in_float32_and_bfloat16(self):
        query, key, value = random_arrays((1, 4, 5, 16), (1, 2, 7, 16), (1, 2, 7, 8))
        expected = heed.attention(query, key, value)
        for dtype, tolerance in (("float32", 0), ("bfloat16", 2e-2)):
            arrays = [jax.numpy.asarray(x).astype(dtype) for x in (query, key, value)]
            found = heed.attention(*arrays)
            self.assertEqual(found.dtype, np.float32)
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


class Backward(unittest.TestCase):
    def check(self, options, **meaning):
        q, k, v, d, bias, sinks = random_arrays(
            (1, 4, 5, 6), (1, 2, 7, 6), (1, 2, 7, 3), (1, 4, 5, 3), (4, 5, 7), (4,), seed=7
        )
        inputs = dict(query=q, key=k, value=v)
        if "bias" in meaning:
            inputs["bias"] = bias
            options = dict(options, bias=bias)
        if "sinks" in meaning:
            inputs["sinks"] = sinks
            options = dict(options, sinks=sinks)
        r = heed.attention(q, k, v, return_logsumexp=True, **options)
        found = heed.attention_backward(
            d, q, k, v, r.output, r.logsumexp, want_bias="bias" in meaning, **options
        )
        meaning = {name: value for name, value in meaning.items() if name not in ("bias", "sinks")}
        for name, array in inputs.items():
            gradient = np.zeros(array.shape)
            for index in np.ndindex(array.shape):
                values = []
                for step in (1e-4, -1e-4):
                    moved = {n: a.astype(np.float64) for n, a in inputs.items()}
                    moved[name][index] += step
                    values.append((formula(**moved, **meaning)[0] * d).sum())
                gradient[index] = (values[0] - values[1]) / 2e-4
            np.testing.assert_allclose(getattr(found, name), gradient, rtol=1e-4, atol=1e-5, err_msg=name)

    def test_is_the_gradient(self):
        self.check({})
        self.check(dict(causal=True, softcap=2.0), allowed=np.arange(7) <= np.arange(5)[:, None] + 2, softcap=2.0)
        self.check({}, bias=True, sinks=True)

    def test_takes_the_layouts_of_the_forward_pass(self):
        q, k, v, d = random_arrays((2, 3, 10, 4), (2, 3, 12, 4), (2, 3, 12, 6), (2, 3, 10, 6), seed=3)
        r = heed.attention(q, k, v, return_logsumexp=True)
        g = heed.attention_backward(d, q, k, v, r.output, r.logsumexp)
        transposed = [x.transpose(0, 2, 1, 3) for x in (d, q, k, v, r.output)]
        h = heed.attention_backward(*transposed, r.logsumexp, layout="blhd")
        for one, other in ((g.query, h.query), (g.key, h.key), (g.value, h.value)):
            np.testing.assert_array_equal(one, other.transpose(0, 2, 1, 3))
        one = heed.attention_backward(d[1, 2], q[1, 2], k[1, 2], v[1, 2], r.output[1, 2], r.logsumexp[1, 2])
        np.testing.assert_array_equal(one.key, g.key[1, 2])


class Tables(unittest.TestCase):
    def test_relative_positions_and_slopes_with_gradients(self):
        q, k, v, d, table, slopes = random_arrays(
            (1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4), (1, 2, 9, 4), (2, 7), (2,))
        distance = np.arange(9)[:, None] - np.arange(9)

        def out(t, s):
            bias = t[:, np.clip(distance, -3, 3) + 3] - s[:, None, None] * np.abs(distance)
            return formula(q, k, v, bias=bias)[0]

        r = heed.attention(q, k, v, relative_table=table, alibi_slopes=slopes, return_logsumexp=True)
        np.testing.assert_allclose(r.output, out(table, slopes), rtol=2e-5, atol=2e-5)
        g = heed.attention_backward(d, q, k, v, r.output, r.logsumexp, relative_table=table, alibi_slopes=slopes,
                                    want_alibi_slopes=True, want_relative_table=True)
        for found, array in ((g.relative_table, table), (g.alibi_slopes, slopes)):
            for place in np.ndindex(array.shape):
                moved = [x.astype(np.float64) for x in (table, slopes)]
                one = moved[0] if array is table else moved[1]
                one[place] += 1e-5
                above = np.sum(out(*moved) * d)
                one[place] -= 2e-5
                self.assertAlmostEqual(found[place], (above - np.sum(out(*moved) * d)) / 2e-5, delta=1e-3)
        for bad in (table[:, :4], table[:1], table[0]):
            self.assertRaises(ValueError, lambda: heed.attention(q, k, v, relative_table=bad))

    def test_each_gradient_has_the_type_of_its_input(self):
        for rows, kind in ((2048, np.float32), (64, np.float16)):
            q = np.zeros((rows, 8), np.float16)
            v = np.linspace(-1, 1, rows)[:, None].astype(np.float16) * np.ones(8, np.float16)
            slopes = np.zeros(1, kind)
            r = heed.attention(q, q, v, alibi_slopes=slopes, causal=True, return_logsumexp=True)
            g = heed.attention_backward(np.ones((rows, 8), np.float16), q, q, v, r.output, r.logsumexp,
                                        alibi_slopes=slopes, causal=True, want_alibi_slopes=True)
            self.assertEqual((g.query.dtype, g.key.dtype, g.alibi_slopes.dtype), (q.dtype, q.dtype, slopes.dtype))
            if rows == 2048:  # too large for float16
                self.assertAlmostEqual(g.alibi_slopes[0] / 1866632.5, 1, places=2)

    def test_additive_scores_with_gradients(self):
        q, k, v, d, w = random_arrays((1, 2, 5, 3), (1, 2, 7, 3), (1, 2, 7, 4), (1, 2, 5, 4), (2, 3))

        def out(q_, k_, w_):
            scores = np.einsum("hd,bhijd->bhij", w_, np.tanh(q_[:, :, :, None] + k_[:, :, None]))
            weights = np.exp(scores)
            return weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)

        r = heed.attention_additive(q, k, v, w, return_logsumexp=True)
        np.testing.assert_allclose(r.output, out(q, k, w), rtol=2e-5, atol=2e-5)
        g = heed.attention_additive_backward(d, q, k, v, w, r.output, r.logsumexp)
        arrays = [q, k, w]
        for n, found in enumerate((g.query, g.key, g.additive_weight)):
            for place in np.ndindex(arrays[n].shape):
                moved = [x.astype(np.float64) for x in arrays]
                moved[n][place] += 1e-5
                above = np.sum(out(*moved) * d)
                moved[n][place] -= 2e-5
                self.assertAlmostEqual(found[place], (above - np.sum(out(*moved) * d)) / 2e-5, delta=1e-3)
        self.assertRaises(ValueError, lambda: heed.attention_additive(q, k, v, w[:, :2]))
        self.assertRaises(ValueError, lambda: heed.attention_additive(q, k, v, w, scale=1.0))
        self.assertRaises(TypeError, lambda: heed.attention_additive(q, k, v, w, no_such_option=1))

    def test_packed_sequences_attend_to_themselves_alone(self):
        begins, key_begins = np.array([0, 5, 5, 17]), np.array([0, 9, 12, 30])
        q, k, v, d = random_arrays((17, 4, 8), (30, 2, 8), (30, 2, 6), (17, 4, 6))
        slopes, table = random_arrays((4,), (4, 7))
        options = {"causal": True, "alibi_slopes": slopes, "relative_table": table}
        for dtype in ("float32", "float16"):
            q, k, v, d = (x.astype(dtype) for x in (q, k, v, d))
            r = heed.attention_varlen(q, k, v, begins, key_begins, return_logsumexp=True, **options)
            self.assertEqual((r.output.shape, r.output.dtype.name, r.logsumexp.shape), ((17, 4, 6), dtype, (4, 17)))
            g = heed.attention_varlen_backward(d, q, k, v, r.output, r.logsumexp, begins, key_begins,
                                               want_alibi_slopes=True, want_relative_table=True, **options)
            shared = [0, 0]
            for i in range(3):
                rows, keys = slice(*begins[i:i + 2]), slice(*key_begins[i:i + 2])
                one = [x.swapaxes(0, 1) for x in (q[rows], k[keys], v[keys])]
                alone = heed.attention(*one, return_logsumexp=True, **options)
                np.testing.assert_array_equal(r.output[rows].swapaxes(0, 1), alone.output)
                np.testing.assert_array_equal(r.logsumexp[:, rows], alone.logsumexp)
                own = heed.attention_backward(d[rows].swapaxes(0, 1), *one, alone.output, alone.logsumexp,
                                              want_alibi_slopes=True, want_relative_table=True, **options)
                np.testing.assert_array_equal(g.query[rows].swapaxes(0, 1), own.query)
                np.testing.assert_array_equal(g.key[keys].swapaxes(0, 1), own.key)
                np.testing.assert_array_equal(g.value[keys].swapaxes(0, 1), own.value)
                shared[0] += own.alibi_slopes.astype(np.float64)
                shared[1] += own.relative_table.astype(np.float64)
            limit = 1e-5 if dtype == "float32" else 1e-2
            np.testing.assert_allclose(g.alibi_slopes, shared[0], rtol=limit, atol=limit)
            np.testing.assert_allclose(g.relative_table, shared[1], rtol=limit, atol=limit)
        same = heed.attention_varlen(q, q, q, begins)
        np.testing.assert_array_equal(same, heed.attention_varlen(q, q, q, begins, begins))
        for bad in ([0, 5, 4, 17], [0, 5], [1, 17], [0, 5, 18], [0, -1, 17], []):
            self.assertRaises(ValueError, lambda: heed.attention_varlen(q, q, q, np.array(bad, np.int32)))
        self.assertRaises(TypeError, lambda: heed.attention_varlen(q, q, q, "begins"))
        self.assertRaises(ValueError, lambda: heed.attention_varlen(q, q, q, None))
        self.assertRaises(ValueError, lambda: heed.attention_varlen(q[None], q, q, begins))
        self.assertRaises(ValueError, lambda: heed.attention_varlen(q, q, q, begins, mask=np.ones((17, 17), bool)))
        self.assertRaises(TypeError, lambda: heed.attention_varlen(q, q, q, begins, taps={"entropy": True}))

    def test_explain_names_what_runs(self):
        q, k = random_arrays((1, 4, 100, 8), (1, 2, 200, 8))
        line = heed.explain(q, k, k, causal=True)
        self.assertIn("B 1 H 4/2 L 100 S 200 D 8; " + heed.active_isa(), line)
        self.assertRegex(line, "[0-9]+ of [0-9]+ blocks .*skipped")
        self.assertRaises(TypeError, lambda: heed.explain(q, k, k, nonsense=1))


if __name__ == "__main__":
    unittest.main()
