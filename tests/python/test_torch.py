"""heed.torch against PyTorch's own attention, and inside Hugging Face transformers. Skipped where they are missing."""

import copy
import unittest
import warnings
from unittest import mock

import numpy as np

try:
    import torch
    from torch.nn import functional
except ImportError:
    torch = None
try:
    import transformers
except ImportError:
    transformers = None

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


class Module:
    """What the attention function asks of a model's module."""

    training, is_causal = False, False


def formula(query, key, value, bias=0.0, allowed=None, scale=None, softcap=None, sinks=None):
    """(B, L, H, Dv) in float64, step by step. sinks: (B, H, L, 1) or what broadcasts to it."""
    query, key, value = (x.double() for x in (query, key, value))
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double().expand(*scores.shape[:-1], 1)], -1)
    return (scores.softmax(-1)[..., : key.shape[-2]] @ value).transpose(1, 2)


@unittest.skipIf(torch is None or transformers is None, "Hugging Face transformers is not installed")
class AttentionFunction(unittest.TestCase):
    """What models of transformers pass, against the formula: output and every gradient."""

    def setUp(self):
        heed_torch.register_with_transformers()
        self.run_heed = transformers.AttentionInterface()["heed"]

    def compare(self, mask=None, causal=False, allowed=None, learned=(), module=Module, queries=7, **given):
        """`learned`: names of arguments that get a gradient. `allowed`: what the formula lets each query see."""
        q, k, v = tensors((2, 4, queries, 8), (2, 2, 7, 8), (2, 2, 7, 6))
        leaves = [q, k, v, *(given[name].requires_grad_() for name in learned)]
        ours, _ = self.run_heed(module, q, k, v, mask, is_causal=causal, **given)
        bias = given.get("position_bias", 0.0)
        if mask is not None:
            bias, allowed = (bias, mask) if mask.dtype == torch.bool else (bias + mask, allowed)
        sinks = given.get("sinks", given.get("s_aux"))
        sinks = sinks[:, None, None] if sinks is not None and sinks.dim() == 1 else sinks
        theirs = formula(q, k, v, bias, allowed, given.get("scaling"), given.get("softcap"), sinks)
        self.assertEqual(ours.shape, theirs.shape)
        torch.testing.assert_close(ours.double(), theirs, rtol=2e-5, atol=2e-5)
        weights = torch.linspace(-1, 1, ours.numel()).reshape(ours.shape)
        pairs = zip(torch.autograd.grad(ours, leaves, weights), torch.autograd.grad(theirs, leaves, weights.double()))
        for mine, expected in pairs:
            torch.testing.assert_close(mine, expected.float(), rtol=5e-5, atol=5e-5)

    def refused(self, text, mask=None, queries=7, error=ValueError, **given):
        q, k, v = tensors((2, 4, queries, 8), (2, 2, 7, 8), (2, 2, 7, 6))
        with self.assertRaisesRegex(error, text):
            self.run_heed(given.pop("module", Module), q, k, v, mask, **{"is_causal": False, **given})

    lower = torch.ones(7, 7, dtype=torch.bool).tril() if torch is not None else None

    def random_mask(self):
        mask = torch.rand(2, 1, 7, 7, generator=torch.Generator().manual_seed(1)) < 0.7
        mask[..., 0] = True
        return mask

    def test_position_bias_with_its_gradient(self):
        for shape in ((1, 4, 7, 7), (2, 4, 7, 7)):
            def bias():
                return tensors(shape, seed=2)[0].detach()

            self.compare(position_bias=bias(), learned=["position_bias"])
            self.compare(position_bias=bias(), learned=["position_bias"], causal=True, allowed=self.lower)
            self.compare(position_bias=bias(), learned=["position_bias"], mask=self.random_mask())
            added = torch.zeros(2, 1, 7, 7).masked_fill(~self.random_mask(), torch.finfo(torch.float32).min)
            self.compare(position_bias=bias(), learned=["position_bias"], mask=added)

    def test_sliding_window(self):
        far = torch.ones(7, 7, dtype=torch.bool).tril(-3)
        self.compare(sliding_window=3, causal=True, allowed=self.lower & ~far)
        self.compare(sliding_window=3, allowed=~far & ~far.T)
        self.compare(sliding_window=3, queries=1, causal=True, allowed=torch.arange(7) > 3)
        self.compare(sliding_window=3, mask=self.random_mask())  # which holds the window already

    def test_sinks_and_softcap(self):
        for name in ("s_aux", "sinks"):
            self.compare(**{name: torch.linspace(-1, 1, 4)}, learned=[name], causal=True, allowed=self.lower)
        self.compare(softcap=1.5, scaling=0.7)
        self.compare(softcap=1.5, sinks=torch.linspace(-1, 1, 4), position_bias=tensors((1, 4, 7, 7))[0].detach())

    def test_sinks_of_every_query(self):
        def rows():
            return {"sinks": tensors((2, 4, 7, 1), seed=3)[0].detach(), "learned": ["sinks"]}

        self.compare(**rows())
        self.compare(**rows(), causal=True, allowed=self.lower)
        self.compare(**rows(), mask=self.random_mask(), softcap=2.0)
        far = torch.ones(7, 7, dtype=torch.bool).tril(-3)
        self.compare(**rows(), causal=True, sliding_window=3, allowed=self.lower & ~far)
        bias = tensors((1, 4, 7, 7), seed=2)[0].detach()
        self.compare(sinks=rows()["sinks"], position_bias=bias, learned=["sinks", "position_bias"])

    def test_packed_sequences(self):
        begins = torch.tensor([0, 4, 7, 12, 14])  # of both rows of 7, one behind the other
        number = torch.tensor([0] * 4 + [1] * 3 + [2] * 5 + [3] * 2).view(2, 7)
        same = (number[:, :, None] == number[:, None])[:, None]
        given = {"cu_seq_lens_q": begins, "cu_seq_lens_k": begins, "max_length_q": 5, "max_length_k": 5}
        self.compare(**given, allowed=same)
        self.compare(**given, causal=True, allowed=same & self.lower)
        self.compare(**given, causal=True, s_aux=torch.linspace(-1, 1, 4), learned=["s_aux"], allowed=same & self.lower)
        near = ~torch.ones(7, 7, dtype=torch.bool).tril(-2)
        self.compare(**given, causal=True, sliding_window=2, allowed=same & self.lower & near)
        bias = tensors((1, 4, 7, 7), seed=2)[0].detach()
        self.compare(**given, causal=True, position_bias=bias, learned=["position_bias"], allowed=same & self.lower)
        q, k, v = tensors((2, 4, 7, 8), (2, 2, 7, 8), (2, 2, 7, 6))
        masked, _ = self.run_heed(Module, q, k, v, self.lower.expand(2, 1, 7, 7), **given)
        torch.testing.assert_close(masked, formula(q, k, v, allowed=same & self.lower).float(), rtol=2e-5, atol=2e-5)
        over = torch.tensor([0, 4, 9, 14])  # the second sequence begins in the first row and ends in the second
        flat = [x.transpose(1, 2).reshape(1, 14, *x.shape[1:2], -1).transpose(1, 2) for x in (q, k, v)]
        place = torch.tensor([0] * 4 + [1] * 5 + [2] * 5)
        found, _ = self.run_heed(Module, q, k, v, None, is_causal=False, cu_seq_lens_q=over, cu_seq_lens_k=over)
        expected = formula(*flat, allowed=place[:, None] == place).float().view(2, 7, 4, 6)
        torch.testing.assert_close(found, expected, rtol=2e-5, atol=2e-5)
        self.refused("sequences that end with their row", cu_seq_lens_q=over, cu_seq_lens_k=over, position_bias=bias)
        self.compare(seq_idx=number, allowed=same)
        self.compare(seq_idx=number, causal=True, allowed=same & self.lower)

    def test_chosen_keys(self):
        indices = torch.tensor([[0, 1], [1, 0], [2, 0], [3, 1], [4, 2], [0, 5], [6, 3]]).expand(2, 7, 2)
        chosen = torch.zeros(2, 7, 7, dtype=torch.bool).scatter(-1, indices, True)[:, None]
        self.compare(indices=indices.int(), allowed=chosen)
        self.compare(indices=indices.int(), causal=True, allowed=chosen & self.lower)

    def test_what_is_harmless_changes_nothing(self):
        self.compare(use_cache=True, position_ids=torch.arange(7)[None], output_attentions=False, num_items_in_batch=3,
                     something_else=None)

    def test_what_is_not_honoured_is_refused_by_name(self):
        begins, both = torch.tensor([0, 14]), torch.zeros(4)
        self.refused("found block_indices from type", block_indices=begins)
        self.refused("found alpha, beta from type", alpha=False, beta=0.0, gamma=None)
        self.refused("output_attentions=False: heed keeps no weights", output_attentions=True)
        self.refused("s_aux or sinks; found both", s_aux=both, sinks=both)
        self.refused("sinks \\(H\\) or", sinks=torch.zeros(2, 4))
        self.refused("cu_seq_lens_q and cu_seq_lens_k; found one", cu_seq_lens_q=begins)
        self.refused("sliding_window above 0; found 0", sliding_window=0)
        self.refused("a mask that is a tensor", mask=torch.ones(2, 7, dtype=torch.bool))
        self.refused("a mask that is a tensor", mask="causal")
        self.refused("a boolean mask or one to add; found torch.int64", mask=torch.ones(2, 1, 7, 7, dtype=torch.int64))
        self.refused("a mask where queries and keys differ in number; found none for 5", queries=5, is_causal=True)
        self.refused("scale as a number without a gradient", error=TypeError,
                     scaling=torch.tensor(0.5, requires_grad=True))

        class Undeclared(Module):
            config = transformers.BloomForCausalLM.config_class()  # the model must be known

        self.refused("a model that declares support for sdpa, or for any .*; found that of BloomConfig",
                     module=Undeclared)


@unittest.skipIf(torch is None or transformers is None, "Hugging Face transformers is not installed")
class Transformers(unittest.TestCase):
    def compare(self, model_class, config, padded):
        torch.manual_seed(0)
        heed_torch.register_with_transformers()
        plain = model_class._from_config(copy.deepcopy(config), attn_implementation="eager").eval()
        ours = model_class._from_config(copy.deepcopy(config), attn_implementation="heed").eval()
        ours.load_state_dict(plain.state_dict())
        ids = torch.randint(3, 90, (2, 17))
        mask = torch.ones_like(ids)
        if padded:
            mask[1, 11:] = 0
        outputs = []
        for model in (plain, ours):
            with mock.patch.object(heed_torch, "_forward", wraps=heed_torch._forward) as calls:
                hidden = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1]
            self.assertEqual(calls.call_count, 2 if model is ours else 0)  # one a layer
            (hidden * mask[..., None]).square().mean().backward()
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            outputs.append([hidden.detach() * mask[..., None]] + gradients)
        for mine, theirs in zip(outputs[1], outputs[0]):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=2e-5)

    def test_llama(self):
        config = transformers.LlamaConfig(
            vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64,
        )
        self.compare(transformers.LlamaForCausalLM, config, False)
        self.compare(transformers.LlamaForCausalLM, config, True)

    def test_gpt2(self):
        config = transformers.GPT2Config(
            vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0
        )
        self.compare(transformers.GPT2LMHeadModel, config, False)

    def test_bert(self):
        config = transformers.BertConfig(
            vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        )
        self.compare(transformers.BertForMaskedLM, config, True)

    def small(self, name, **more):
        return getattr(transformers, name)(
            vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            **more)

    def both(self, model_class, config):
        """The same weights with eager's attention and with ours; larger than new ones, for attention to matter."""
        heed_torch.register_with_transformers()
        torch.manual_seed(2)
        plain, ours = (model_class._from_config(copy.deepcopy(config), attn_implementation=name).eval()
                       for name in ("eager", "heed"))
        with torch.no_grad():
            for parameter in plain.parameters():
                if parameter.dim() > 1:
                    parameter.copy_(torch.randn(parameter.shape) / parameter.shape[-1] ** 0.5)
        ours.load_state_dict(plain.state_dict())
        return plain, ours

    def compare_logits(self, model_class, config, **inputs):
        ids = torch.randint(3, 90, (2, 17), generator=torch.Generator().manual_seed(4))
        results = []
        models = self.both(model_class, config)
        for model in models:
            logits = model(input_ids=ids, **inputs).logits
            logits.square().mean().backward()
            results.append((logits.detach(), {n: p.grad for n, p in model.named_parameters()}))
        (logits, gradients), (our_logits, our_gradients) = results
        # 1e-4 of the largest number: what another order of additions does in float32 over two layers, with room.
        torch.testing.assert_close(our_logits, logits, rtol=0, atol=1e-4 * float(logits.abs().max()))
        for name, gradient in gradients.items():
            self.assertEqual(gradient is None, our_gradients[name] is None, name)
            if gradient is not None:
                torch.testing.assert_close(
                    our_gradients[name], gradient, rtol=0, atol=max(1e-4 * float(gradient.abs().max()), 1e-7),
                    msg=lambda text: f"{name}: {text}")
        return gradients

    def test_t5_and_its_relative_positions(self):
        ids = torch.randint(3, 90, (2, 13), generator=torch.Generator().manual_seed(5))
        for name in ("T5", "MT5"):
            config = getattr(transformers, name + "Config")(
                vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
                dropout_rate=0, decoder_start_token_id=0)
            mask = torch.ones(2, 17, dtype=torch.long)
            for padded in (False, True):
                mask[1, 11:] = not padded
                gradients = self.compare_logits(
                    getattr(transformers, name + "ForConditionalGeneration"), config, decoder_input_ids=ids,
                    attention_mask=mask)
                tables = [n for n in gradients if "relative_attention_bias" in n]
                self.assertEqual(len(tables), 2)
                self.assertTrue(all(gradients[n].abs().max() > 0 for n in tables))

    def test_generating_with_t5(self):
        config = transformers.T5Config(
            vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0)
        ids = torch.randint(3, 90, (2, 9), generator=torch.Generator().manual_seed(6))
        models = self.both(transformers.T5ForConditionalGeneration, config)
        texts = [m.generate(ids, max_new_tokens=12, do_sample=False) for m in models]
        self.assertTrue(torch.equal(*texts))

    def test_windows_sinks_and_softcaps_of_models(self):
        self.compare_logits(transformers.MistralForCausalLM, self.small("MistralConfig", sliding_window=4))
        self.compare_logits(transformers.Gemma2ForCausalLM, self.small("Gemma2Config", sliding_window=4))
        self.compare_logits(transformers.GptOssForCausalLM, self.small(
            "GptOssConfig", sliding_window=4, num_local_experts=4, num_experts_per_tok=2))
        positions = torch.cat([torch.arange(9), torch.arange(8)]).expand(2, -1)
        self.compare_logits(
            transformers.LlamaForCausalLM, self.small("LlamaConfig"), position_ids=positions, use_cache=False)

    def test_packed_sequences_of_a_model(self):
        """cu_seq_lens without position_ids that say the same: what flash attention does, and eager does not."""
        plain, ours = self.both(transformers.LlamaForCausalLM, self.small("LlamaConfig"))
        ids = torch.randint(3, 90, (1, 17))
        positions = torch.cat([torch.arange(9), torch.arange(8)])[None]
        begins = torch.tensor([0, 9, 17])
        packed = ours(input_ids=ids, use_cache=False, position_ids=torch.arange(17)[None], cu_seq_lens_q=begins,
                      cu_seq_lens_k=begins, max_length_q=9, max_length_k=9).logits
        alone = [plain(input_ids=part, position_ids=p).logits for part, p in (
            (ids[:, :9], positions[:, :9]), (ids[:, 9:], torch.arange(9, 17)[None]))]
        torch.testing.assert_close(packed, torch.cat(alone, 1), rtol=1e-4, atol=1e-4)

    def test_models_that_declare_no_support_are_refused(self):
        ids = torch.randint(3, 90, (2, 17))
        for model_class, config in (
            (transformers.BloomForCausalLM, transformers.BloomConfig(
                vocab_size=99, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)),
            (transformers.NllbMoeForConditionalGeneration, transformers.NllbMoeConfig(
                vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_experts=4)),
            (transformers.PegasusXForConditionalGeneration, transformers.PegasusXConfig(
                vocab_size=99, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, block_size=4, num_global_tokens=4)),
        ):
            _, ours = self.both(model_class, config)
            more = {"decoder_input_ids": ids} if config.is_encoder_decoder else {}
            with self.assertRaisesRegex(ValueError, f'{type(config).__name__}. Use attn_implementation="eager"'):
                ours(input_ids=ids, **more)

    def test_weights_are_not_promised(self):
        _, ours = self.both(transformers.LlamaForCausalLM, self.small("LlamaConfig"))
        with self.assertRaisesRegex(ValueError, "heed keeps no weights"):
            ours(input_ids=torch.randint(3, 90, (1, 5)), output_attentions=True)

    def test_generating_with_a_cache(self):
        heed_torch.register_with_transformers()
        torch.manual_seed(1)
        config = transformers.LlamaConfig(
            vocab_size=99, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64,
        )
        plain = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
        ours = transformers.LlamaForCausalLM._from_config(config, attn_implementation="heed").eval()
        ours.load_state_dict(plain.state_dict())
        ids = torch.randint(3, 90, (1, 5))
        texts = [m.generate(ids, max_new_tokens=12, do_sample=False, pad_token_id=0) for m in (plain, ours)]
        self.assertTrue(torch.equal(*texts))


if __name__ == "__main__":
    unittest.main()
