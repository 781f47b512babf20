"""What heed.attention and its neighbours refuse, in which words, and what they take."""

import unittest

import numpy as np

import heed
from test_attention import random_arrays


def read_only(array):
    copy = array.copy()
    copy.setflags(write=False)
    return copy


class OnNoDevice:
    """As a tensor of PyTorch's device "meta"."""

    def __dlpack_device__(self):
        raise ValueError("Unknown device type meta for Dlpack")

    def __dlpack__(self):
        raise AssertionError("not asked for")


class Errors(unittest.TestCase):
    def setUp(self):
        self.q, self.k, self.v = random_arrays((1, 4, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))

    def refused(self, error, text, *arrays, **options):
        with self.assertRaises(error) as caught:
            heed.attention(*arrays, **options)
        self.assertIn(text, str(caught.exception))

    def test_say_what_was_expected_and_found(self):
        q, k, v = self.q, self.k, self.v
        self.refused(ValueError, "[attention] query and key of one head size; found (1, 4, 5, 8) and (1, 2, 6, 7)", q, k[..., :7], v)
        self.refused(ValueError, "as many axes", q, k[0], v)
        self.refused(ValueError, "two to four axes; found 1", q[0, 0, 0], k, v)
        self.refused(ValueError, 'layout "bhld" or "blhd"; found "lbhd"', q, k, v, layout="lbhd")
        self.refused(ValueError, '"bottom_right" or "top_left"; found "left"', q, k, v, causal="left")
        self.refused(ValueError, "a dropout rate in [0, 1); found 1", q, k, v, dropout=1.0)
        self.refused(ValueError, "key_lengths from 0 to S = 6; found 7", q, k, v, key_lengths=np.array([7]))
        self.refused(ValueError, "taps.top_k from 0 to S = 6; found 7", q, k, v, taps={"top_k": 7})
        self.refused(ValueError, 'found "entropie"', q, k, v, taps={"entropie": True})
        self.refused(ValueError, "a mask of a shape that broadcasts", q, k, v, mask=np.ones((3, 6), bool))
        self.refused(ValueError, "out of shape (1, 4, 5, 8); found (1, 4, 5, 7)", q, k, v, out=np.empty((1, 4, 5, 7), np.float32))
        self.refused(TypeError, "causal as None, a bool", q, k, v, causal=1.5)
        self.refused(TypeError, "query as an array of float32", "text", k, v)
        self.refused(TypeError, 'elements of format "Zd"', q.astype(complex), k, v)
        self.refused(TypeError, 'elements of format ">f"', q, k.astype(">f4"), v)
        self.refused(ValueError, "query, key and value in float32; found float64", q.astype(np.float64), k, v)
        self.refused(ValueError, "a boolean mask (true = attends); found float32", q, k, v, mask=np.ones((5, 6), np.float32))
        self.refused(TypeError, "key as an array of float32", q, None, v)
        self.refused(TypeError, "found None", q, None, v)
        self.refused(TypeError, 'causal="top_left" as in PyTorch; found is_causal', q, k, v, is_causal=True)
        self.refused(TypeError, "bias for numbers that are added to the scores; found attn_mask", q, k, v, attn_mask=None)
        self.refused(TypeError, "taps as a dict", q, k, v, taps=["entropy"])
        self.refused(TypeError, "taps as a dict", q, k, v, taps=True)
        self.refused(TypeError, "taps.entropy as True or False; found 'yes'", q, k, v, taps={"entropy": "yes"})
        self.refused(TypeError, "taps.rows as a list of pairs (head, query); found [1, 2]", q, k, v, taps={"rows": [1, 2]})
        self.refused(TypeError, "taps.map as two whole numbers (rows, columns); found 4", q, k, v, taps={"map": 4})
        self.refused(TypeError, "causal as an offset of 64 bits", q, k, v, causal=2**70)
        self.refused(TypeError, "key_lengths as an array or a list of whole numbers; found [1.5]", q, k, v, key_lengths=[1.5])
        self.refused(TypeError, "key_lengths as an array or a list of whole numbers", q, k, v, key_lengths=[[1], [2, 3]])
        with self.assertRaises(TypeError):
            heed.attention(q, k, v, colour=1)
        with self.assertRaises(TypeError):
            heed.reference.attention(q, k, v, colour=1)
        with self.assertRaises(ValueError):
            heed.set_num_threads(0)
        with self.assertRaises(ValueError):
            heed.set_isa("mmx")

    def test_messages_name_functions_of_python(self):
        with self.assertRaisesRegex(ValueError, r"^\[load\] a model folder at /nowhere; found nothing$"):
            heed.load("/nowhere")
        with self.assertRaisesRegex(TypeError, r"^\[set_num_threads\] count as a whole number; found str '2'$"):
            heed.set_num_threads("2")
        with self.assertRaisesRegex(ValueError, r"^\[set_num_threads\] a count between 1 and 1024; found 2147483648$"):
            heed.set_num_threads(2**31)
        before = heed.num_threads()
        heed.set_num_threads(before)
        self.assertEqual(heed.num_threads(), before)

    def test_messages_name_what_python_has(self):
        q = self.q
        for call, text in (
            (lambda: heed.attention_backward(q, q, q, q, q, np.zeros(3, np.float32)), "ask for it with return_logsumexp=True"),
            (lambda: heed.attention_varlen(q[0], q[0], q[0], [1, 2]), "cu_seqlens_q"),
            (lambda: heed.attention_backward(q, q, q, q, q, None), "logsumexp as an array of float32"),
            (lambda: heed.KeyValueCache(1, 2, 8, 8, dtype=np.float64), '[KeyValueCache] dtype "float32"'),
            (lambda: heed.KeyValueCache(1, 2.5, 8, 8), "[KeyValueCache] heads as a whole number; found float 2.5"),
            (lambda: heed.KeyValueCache(1, 2, 8, 8).reorder([0.7]), "[reorder] row as a whole number; found float 0.7"),
            (lambda: heed.set_isa(None), "[set_isa] name as a str; found None"),
            (lambda: heed.peak_gflops(3), "[peak_gflops] dtype as a str; found int 3"),
            (lambda: heed.attention(q, q, q, out=read_only(q)), "[attention] out that can be written; found one that cannot"),
            (lambda: heed.attention(OnNoDevice(), q, q), "query as an array"),
            (lambda: heed.attention_varlen(q[0], q[0], q[0], [0, 1], foo=q), "the options causal, window, scale,"),
            (lambda: heed.peak_gflops("half"), 'dtype "float32" or "bfloat16"; found "half"'),
            (lambda: heed.ops.softmax(None), "x as an array of float32"),
            (lambda: heed.ops.layer_norm(q, q[0, 0, 0], eps=1e-6), "[layer_norm] epsilon; found eps"),
            (lambda: heed.ops.layer_norm(q, q[0, 0, 0], epsilon=-1.0), "[layer_norm] an epsilon of 0 or more; found -1"),
            (lambda: heed.ops.rms_norm(q, q[0, 0, 0], float("nan")), "[rms_norm] an epsilon of 0 or more; found nan"),
            (lambda: heed.ops.layer_norm(q, q[0, 0, 0], epsilon="small"), "[layer_norm] epsilon as a number"),
        ):
            with self.subTest(text), self.assertRaises((TypeError, ValueError)) as caught:
                call()
            self.assertIn(text, str(caught.exception))
        self.assertGreater(heed.peak_gflops("bfloat16"), 0)

    def test_numbers_of_numpy_and_lists_are_taken(self):
        q, k, v = self.q, self.k, self.v
        causal = heed.attention(q, k, v, causal=True)
        np.testing.assert_array_equal(heed.attention(q, k, v, causal=np.bool_(True)), causal)
        np.testing.assert_array_equal(heed.attention(q, k, v, causal=np.int64(1)), heed.attention(q, k, v, causal=1))
        self.assertFalse(np.array_equal(heed.attention(q, k, v, causal=np.int64(0)), causal))
        np.testing.assert_array_equal(heed.attention(q, k, v, causal=np.bool_(False)), heed.attention(q, k, v))
        np.testing.assert_array_equal(heed.attention(q, k, v, key_lengths=[3]),
                                      heed.attention(q, k, v, key_lengths=np.array([3])))
        for kind in (np.int8, np.uint8, np.int16, np.uint32, np.uint64):
            np.testing.assert_array_equal(heed.attention(q, k, v, key_lengths=[kind(3)]), heed.attention(q, k, v, key_lengths=[3]))
        self.refused(TypeError, "found [1.5, 1.5, ", q, k, v, key_lengths=[1.5] * 100_000)
        with self.assertRaises(TypeError) as caught:
            heed.attention(q, k, v, taps={"rows": np.zeros((100_000, 3))})
        self.assertRegex(str(caught.exception), r"^\[attention\] taps.rows as a list of pairs \(head, query\); found .{60}$")
        np.testing.assert_array_equal(heed.attention(q, k, v, query_documents=[[0, 0, 1, 1, 1]], key_documents=((0, 0, 0, 1, 1, 1),)),
                                      heed.attention(q, k, v, query_documents=np.array([[0, 0, 1, 1, 1]]),
                                                     key_documents=np.array([[0, 0, 0, 1, 1, 1]])))
        empty = np.zeros((0, 1, 2, 8), np.float32)
        self.assertEqual(heed.attention(empty, empty, empty, key_lengths=[]).shape, (0, 1, 2, 8))

    def test_no_argument_is_ignored(self):
        q, k, v = self.q, self.k, self.v
        self.refused(ValueError, "taps map beside map_largest", q, k, v, taps={"map_largest": True})
        self.refused(ValueError, "taps rows beside row_scores", q, k, v, taps={"row_scores": True})
        self.refused(TypeError, "return_scores as True or False; found 'all'", q, k, v, return_scores="all")
        self.refused(ValueError, "key_lengths of 32 bits; found 4294967299", q, k, v, key_lengths=np.array([2**32 + 3]))
        self.refused(TypeError, "found a masked array", np.ma.masked_array(q, mask=q > 0), k, v)
        self.refused(TypeError, "window as two whole numbers (left, right); found ()", q, k, v, window=())
        self.refused(TypeError, "scale as a number; found 'half'", q, k, v, scale="half")
        rows, begins = q[0].swapaxes(0, 1), np.array([0, 2, 5])
        cache = heed.KeyValueCache(1, 2, 8, 8)
        table = np.zeros((1, 7), np.float32)
        lse = np.zeros((1, 4, 5), np.float32)
        weight = np.zeros(8, np.float32)
        for error, text, call in (
            (TypeError, "found layout", lambda: heed.attention_varlen(rows, rows, rows, begins, layout="blhd")),
            (TypeError, "found layout", lambda: heed.attention_varlen_backward(
                rows, rows, rows, rows, rows, lse[0], begins, layout="blhd")),
            (TypeError, "found taps", lambda: heed.attention_varlen(rows, rows, rows, begins, taps={"entropy": True})),
            (TypeError, "found return_scores", lambda: heed.attention_varlen(rows, rows, rows, begins, return_scores=True)),
            (TypeError, "found dropout_p", lambda: heed.attention_additive(q, k, v, weight, dropout_p=0.1)),
            (TypeError, "found out", lambda: heed.explain(q, k, v, out=q)),
            (TypeError, "weight (D) or (H, D); found None", lambda: heed.attention_additive(q, k, v, None)),
            (TypeError, "weight (D) or (H, D); found None",
             lambda: heed.attention_additive_backward(q, q, k, v, None, q, lse)),
            (TypeError, "dropout", lambda: heed.attention_cached(q, cache, dropout=0.1)),
            (ValueError, '"bhld" or "blhd"; found "hbld"', lambda: cache.append(k, v, layout="hbld")),
            (ValueError, "relative_table of shape",
             lambda: heed.attention_cached(q, heed.KeyValues(k, v), relative_table=table)),
            (ValueError, "relative_table of shape",
             lambda: heed.attention_backward(q, q, k, v, q, lse, relative_table=table)),
            (ValueError, "relative_table of shape", lambda: heed.explain(q, k, v, relative_table=table)),
        ):
            with self.subTest(text), self.assertRaises(error) as caught:
                call()
            self.assertIn(text, str(caught.exception))

    def test_out_must_be_writable_memory_of_its_own(self):
        out = np.empty((1, 4, 5, 8), np.float32)
        out.flags.writeable = False
        with self.assertRaises((ValueError, BufferError)):
            heed.attention(self.q, self.k, self.v, out=out)
        shared = np.lib.stride_tricks.as_strided(np.empty(8, np.float32), (1, 4, 5, 8), (0, 0, 0, 4))
        self.refused(ValueError, "out without strides of 0", self.q, self.k, self.v, out=shared)

    def test_ten_thousand_bad_calls_do_no_harm(self):
        generator = np.random.default_rng(11)
        choices = [
            lambda: generator.standard_normal(generator.integers(0, 4, generator.integers(0, 6))),
            lambda: generator.standard_normal((1, 2, 3, 4)).astype(np.float32),
            lambda: generator.standard_normal((1, 2, 0, 4)).astype(np.float32),
            lambda: generator.integers(-5, 9, generator.integers(0, 4, 2)),
            lambda: None,
            lambda: "text",
            lambda: float("nan"),
            lambda: int(generator.integers(-3, 5)),
            lambda: (-1, 2),
            lambda: generator.random((3, 3)) < 0.5,
        ]
        names = ["mask", "bias", "causal", "window", "key_lengths", "scale", "softcap", "dropout", "seed", "sinks",
                 "alibi_slopes", "query_documents", "key_documents", "layout", "out"]
        refused = 0
        for _ in range(10_000):
            arrays = [choices[1]() if generator.random() < 0.7 else choices[generator.integers(len(choices))]() for _ in range(3)]
            options = {str(n): choices[generator.integers(len(choices))]() for n in generator.choice(names, generator.integers(1, 4))}
            try:
                heed.attention(*arrays, **options)
            except (ValueError, TypeError, BufferError, RuntimeError):
                refused += 1
        self.assertGreater(refused, 5_000)


if __name__ == "__main__":
    unittest.main()
