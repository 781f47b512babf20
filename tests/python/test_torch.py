"""heed.torch against PyTorch's own attention. Skipped where PyTorch is missing."""

import unittest
import warnings

import numpy as np

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None

if torch is not None:
    import heed
    import heed.torch as heed_torch


def tensors(*shapes, seed=0, dtype=None):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype or torch.float32).requires_grad_() for shape in shapes]


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Torch(unittest.TestCase):
    def compare(self, arguments, options, tolerance=2e-5, inputs=None):
        """Output and gradients of both implementations."""
        results = []
        for function in (heed_torch.scaled_dot_product_attention, functional.scaled_dot_product_attention):
            copies = [x.detach().clone().requires_grad_(x.requires_grad) for x in arguments]
            given = {
                n: x.detach().clone().requires_grad_(x.requires_grad) if torch.is_tensor(x) else x
                for n, x in options.items()
            }
            output = function(*copies, **given)
            output.backward(torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(output.dtype))
            leaves = copies + [x for x in given.values() if torch.is_tensor(x) and x.requires_grad]
            results.append([output.detach()] + [x.grad for x in leaves])
        for mine, theirs in zip(*results):
            self.assertEqual(mine.dtype, theirs.dtype)
            torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)

    def test_is_a_drop_in_for_scaled_dot_product_attention(self):
        q, k, v = tensors((2, 4, 9, 16), (2, 4, 12, 16), (2, 4, 12, 8))
        self.compare([q, k, v], {})
        self.compare([q, k, v], dict(is_causal=True))
        self.compare([q, k, v], dict(scale=0.2))
        mask = torch.rand(9, 12, generator=torch.Generator().manual_seed(1)) < 0.8
        mask[:, 0] = True
        self.compare([q, k, v], dict(attn_mask=mask))
        self.compare([q, k, v], dict(attn_mask=tensors((4, 9, 12))[0]))
        self.compare([q[0], k[0], v[0]], {})
        self.compare([q[0, 0], k[0, 0], v[0, 0]], dict(is_causal=True))
        five = [x.detach()[:, None].expand(-1, 3, -1, -1, -1).clone().requires_grad_() for x in (q, k, v)]
        self.compare(five, dict(attn_mask=mask.expand(2, 1, 1, 9, 12)))
        self.compare([tensors((2, 8, 9, 16))[0], k, v], dict(enable_gqa=True))
        strided = [x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k, v)]
        self.compare(strided, {})

    def test_half_precision_within_its_own_rounding(self):
        for dtype, tolerance in ((torch.bfloat16, 2e-2), (torch.float16, 3e-3)):
            self.compare(tensors((1, 2, 9, 16), (1, 2, 12, 16), (1, 2, 12, 16), dtype=dtype), {}, tolerance)

    def test_gradients_of_sinks_slopes_and_tables_against_differences(self):
        q, k, v, sinks, slopes, table = (
            x.detach() for x in tensors((1, 2, 4, 3), (1, 2, 5, 3), (1, 2, 5, 3), (2,), (2,), (2, 5)))
        for name, values in (("sinks", sinks), ("alibi_slopes", slopes), ("relative_table", table)):
            wanted = values.clone().requires_grad_()
            heed_torch.attention(q, k, v, **{name: wanted}).square().sum().backward()
            for n in range(values.numel()):
                step = torch.zeros_like(values)
                step.view(-1)[n] = 1e-2
                up, down = (
                    heed_torch.attention(q, k, v, **{name: x}).double().square().sum() for x in (values + step, values - step))
                self.assertAlmostEqual(float(wanted.grad.view(-1)[n]), float(up - down) / 2e-2, places=3)

    def test_no_grad_and_dropout(self):
        q, k, v = tensors((1, 2, 30, 16), (1, 2, 40, 16), (1, 2, 40, 16))
        with torch.no_grad():
            self.assertFalse(heed_torch.attention(q, k, v).requires_grad)
        torch.manual_seed(3)
        first = heed_torch.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        second = heed_torch.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        torch.manual_seed(3)
        again = heed_torch.scaled_dot_product_attention(q, k, v, dropout_p=0.3)
        self.assertTrue(torch.equal(first, again))
        self.assertFalse(torch.equal(first, second))

    def test_the_operators_keep_the_rules_of_the_dispatcher(self):
        q, k, v, bias, sinks, slopes, table = tensors(
            (1, 2, 5, 4), (1, 2, 6, 4), (1, 2, 6, 4), (2, 5, 6), (2,), (2,), (2, 7))
        weight = torch.linspace(-1, 1, 4).requires_grad_()
        begins = torch.tensor([0, 2, 5], dtype=torch.int32)
        packed = [x.detach()[0].transpose(0, 1).requires_grad_() for x in (q, k[:, :, :5], v[:, :, :5])]
        for inputs, extra, scale in (
            ((q, k, v), (None,) * 9, 0.5),
            ((q, k, v), (None, bias, None, sinks, slopes, table, None, None, None), 0.5),
            ((q, k, v), (None, bias, None, sinks, slopes, table, weight, None, None), None),
            (packed, (None, None, None, sinks, slopes, table, None, begins, begins), None),
        ):
            torch.library.opcheck(
                torch.ops.heed.attention.default,
                (*inputs, *extra, "bottom_right", [-1, -1], scale, 0.0, 0.0, 0),
                test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
            )

    def test_packed_sequences_are_each_what_they_are_alone(self):
        lengths_q, lengths_k = [3, 0, 7, 1], [4, 2, 7, 5]
        begins_q, begins_k = (torch.tensor([0, *n], dtype=torch.int32).cumsum(0, dtype=torch.int32)
                              for n in (lengths_q, lengths_k))
        for dtype, tolerance in ((torch.float32, 2e-5), (torch.bfloat16, 2e-2)):
            q, k, v = tensors((11, 4, 16), (18, 2, 16), (18, 2, 8), dtype=dtype)
            q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
            sinks = torch.zeros(4).requires_grad_()
            output = heed_torch.attention_varlen(q, k, v, begins_q, begins_k, causal=True, sinks=sinks)
            weights = torch.linspace(-1, 1, output.numel()).reshape(output.shape).to(dtype)
            gradients = torch.autograd.grad(output, (q, k, v, sinks), weights)
            parts = []
            for n in range(4):
                a, b, c = (x[s[n] : s[n + 1]].transpose(0, 1)[None]
                           for x, s in ((q, begins_q), (k, begins_k), (v, begins_k)))
                parts.append(heed_torch.attention(a, b, c, causal=True, sinks=sinks)[0].transpose(0, 1))
            alone = torch.cat(parts)
            self.assertEqual(output.dtype, dtype)
            self.assertTrue(torch.equal(output, alone))
            for mine, theirs in zip(gradients, torch.autograd.grad(alone, (q, k, v, sinks), weights)):
                torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
        compiled = torch.compile(
            lambda a: heed_torch.attention_varlen(a, a, a, begins_q).square().sum(), backend="aot_eager", fullgraph=True)
        x = tensors((11, 2, 8))[0]
        torch.testing.assert_close(compiled(x), heed_torch.attention_varlen(x, x, x, begins_q).square().sum())

    def test_additive_attention_against_its_formula(self):
        q, k, v, weight, bias = tensors((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 3), (4, 8), (4, 5, 6))
        scores = (torch.tanh(q[:, :, :, None] + k[:, :, None]) * weight[:, None, None]).sum(-1) + bias
        expected = torch.softmax(scores, -1) @ v
        found = heed_torch.attention_additive(q, k, v, weight, bias=bias)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
        leaves = (q, k, v, weight, bias)
        for mine, theirs in zip(*(torch.autograd.grad(x.square().sum(), leaves) for x in (found, expected))):
            torch.testing.assert_close(mine, theirs, rtol=5e-5, atol=5e-5)

    def test_under_compile(self):
        q, k, v = tensors((1, 2, 9, 16), (1, 2, 12, 16), (1, 2, 12, 16))

        def step(a, b, c):
            return heed_torch.attention(a * 2, b, c, causal=True).square().sum()

        expected = torch.autograd.grad(step(q, k, v), (q, k, v))
        found = torch.autograd.grad(torch.compile(step, backend="aot_eager", fullgraph=True)(q, k, v), (q, k, v))
        for mine, theirs in zip(found, expected):
            torch.testing.assert_close(mine, theirs)

    def test_numbers_and_lists_as_in_heed(self):
        q = torch.randn(1, 2, 5, 8)

        def same(first, second):
            self.assertTrue(torch.equal(heed_torch.attention(q, q, q, **first), heed_torch.attention(q, q, q, **second)))

        same({"causal": np.int64(1)}, {"causal": 1})
        same({"causal": np.bool_(True)}, {"causal": True})
        same({"key_lengths": [3]}, {"key_lengths": torch.tensor([3], dtype=torch.int32)})
        seeded = heed_torch.attention(q, q, q, dropout=0.5, seed=2**63 + 5)
        self.assertTrue(torch.equal(seeded, heed.attention(q, q, q, dropout=0.5, seed=2**63 + 5)))
        self.assertRaises(ValueError, lambda: heed_torch.attention(q, q, q, dropout=0.5, seed=-1))
        negative = torch.complex(q, -q).conj().imag  # -(-q), as a view
        self.assertRaisesRegex(TypeError, "negative of its memory", lambda: heed.attention(negative, q, q))
        self.assertTrue(torch.equal(heed_torch.attention(negative, q, q), heed_torch.attention(q, q, q)))

    def test_errors(self):
        q, k, v = tensors((1, 4, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
        with self.assertRaisesRegex(ValueError, "enable_gqa=True"):
            heed_torch.scaled_dot_product_attention(q, k, v)
        with self.assertRaisesRegex(ValueError, "as many axes"):
            heed_torch.scaled_dot_product_attention(q, k[0], v)

    def test_no_argument_is_ignored(self):
        q, k, v = tensors((1, 2, 5, 8), (1, 2, 6, 8), (1, 2, 6, 8))
        learned = torch.tensor(0.5, requires_grad=True)
        rows = q[0].transpose(0, 1)
        for error, text, call in (
            (TypeError, "scale as a number without a gradient", lambda: heed_torch.attention(q, k, v, scale=learned)),
            (TypeError, "softcap as a number without a gradient", lambda: heed_torch.attention(q, k, v, softcap=learned)),
            (TypeError, "dropout as a number without a gradient", lambda: heed_torch.attention(q, k, v, dropout=learned)),
            (TypeError, "causal as None.*found 'left'", lambda: heed_torch.attention(q, k, v, causal="left")),
            (TypeError, "causal as None.*found 1.5", lambda: heed_torch.attention(q, k, v, causal=1.5)),
            (ValueError, "values to unpack", lambda: heed_torch.attention(q, k, v, window=())),
            (TypeError, "unexpected keyword", lambda: heed_torch.attention(q, k, v, attn_mask=None)),
            (TypeError, "weight .* found None", lambda: heed_torch.attention_additive(q, k, v, None)),
            (TypeError, "cu_seqlens_q .* found None", lambda: heed_torch.attention_varlen(rows, rows, rows, None)),
            (NotImplementedError, "forward-mode", lambda: torch.func.jvp(
                lambda x: heed_torch.attention(x, k.detach(), v.detach()), (q.detach(),), (q.detach(),))),
        ):
            with self.subTest(text), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.assertRaisesRegex(error, text, call)


if __name__ == "__main__":
    unittest.main()
