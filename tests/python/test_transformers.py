"""attn_implementation="heed" inside Hugging Face transformers. Skipped where it or PyTorch is missing."""

import copy
import unittest
from unittest import mock

try:
    import torch
    import transformers
except ImportError:
    torch = transformers = None

if torch is not None:
    import heed.torch as heed_torch

    from test_torch import tensors


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


@unittest.skipIf(transformers is None, "Hugging Face transformers is not installed")
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


@unittest.skipIf(transformers is None, "Hugging Face transformers is not installed")
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
