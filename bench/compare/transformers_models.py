"""Small random models of every text model type of the installed transformers, and ways to run them."""

import copy
import inspect
import math

import numpy
import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

# The first of these that has a model type gives its class.
TASKS = ["SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM", "MASKED_LM", "TEXT_ENCODING", "SEQUENCE_CLASSIFICATION",
         "QUESTION_ANSWERING"]
VOCABULARY = 99
LENGTH = 17  # of a sequence; windows and blocks are shorter, so that they cut something off
TARGET = 13  # of a decoder's sequence beside an encoder
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}

# Names of configuration fields and what they become. A field that is smaller already stays as it is.
SIZES = {
    1: "n_group num_expert_group topk_group n_shared_experts num_shared_experts",
    2: """num_key_value_heads swa_num_key_value_heads num_kv_heads kv_n_heads num_hidden_layers encoder_layers
        decoder_layers num_layers num_decoder_layers num_encoder_layers n_layer n_layers num_experts_per_tok
        num_experts_per_token moe_topk moe_top_k moe_k top_k_experts speech_encoder_layers t2u_encoder_layers
        t2u_decoder_layers depth num_blocks conf_num_hidden_layers index_topk_blocks num_random_blocks
        num_layers_per_stack max_window_layers""",
    4: """num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads
        num_encoder_attention_heads num_decoder_attention_heads attention_heads swa_num_attention_heads index_n_heads
        linear_num_key_heads linear_num_value_heads linear_num_heads speech_encoder_attention_heads
        t2u_encoder_attention_heads t2u_decoder_attention_heads conf_num_attention_heads mamba_num_heads
        num_experts n_routed_experts num_local_experts moe_num_experts zero_expert_num o_groups num_codebooks
        sliding_window sliding_window_size local_attention attention_window_size keep_window_size local_radius
        attention_chunk_size global_block_size index_topk index_block_size local_attention_window_len
        rotary_dim num_global_tokens rel_extent""",
    8: """head_dim d_kv d_head swa_head_dim index_head_dim linear_key_head_dim linear_value_head_dim linear_head_dim
        attention_head_dim kv_channels qk_rope_head_dim qk_nope_head_dim v_head_dim attention_head_size mamba_head_dim
        state_size mamba_d_state ssm_state_size o_lora_rank hidden_size_per_layer_input d_rel""",
    16: """moe_intermediate_size q_lora_rank kv_lora_rank expert_ffn_hidden_size time_step_rank laurel_rank hc_lowrank
        mamba_chunk_size chunk_size""",
    32: """hidden_size d_model n_embd emb_dim dim embedding_dim embedding_size word_embed_proj_dim
        attention_hidden_size encoder_hidden_size lru_width pooler_hidden_size hidden_dim hidden_size_global""",
    64: """intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff d_inner n_inner ffn_hidden_size dff dim_ff
        shared_intermediate_size intermediate_size_mlp dense_intermediate_size speech_encoder_intermediate_size
        t2u_encoder_ffn_dim t2u_decoder_ffn_dim mamba_d_ssm prediction_head_size mlp_dim
        shared_expert_intermediate_size moe_shared_expert_intermediate_size prompt_mid_dim""",
    VOCABULARY: """vocab_size src_vocab_size tgt_vocab_size decoder_vocab_size vocab_size_per_layer_input
        audio_vocab_size t2u_vocab_size char_vocab_size""",
    128: """max_position_embeddings n_positions max_source_positions max_seq_len n_ctx max_encoder_position_embeddings
        max_decoder_position_embeddings t2u_max_position_embeddings""",
}
SMALL = {name: size for size, names in SIZES.items() for name in names.split()}

# Model types that no small configuration can be made of here, and why.
LEFT_OUT = {
    "gemma4_assistant": "drafts for another model, whose keys and values it reads",
    "gemma4_unified_assistant": "drafts for another model, whose keys and values it reads",
    "layoutlmv2": "needs detectron2, which PyPI does not have",
}

# Fields of single model types that the table above does not reach, or that their default leaves to a checkpoint.
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8}
EXTRA = {
    "bamba": {**MAMBA, "num_hidden_layers": 2, "attn_layer_indices": [1]},
    "bigbird_pegasus": {"block_size": 2, "num_random_blocks": 1, "attention_type": "block_sparse"},
    "big_bird": {"block_size": 2, "num_random_blocks": 1, "attention_type": "block_sparse"},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "blt": {"encoder_hash_byte_group_vocab": VOCABULARY},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0}},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "dots3_note": {"text_config": {"head_dim": 16}, "audio_config": {"adapter_in_dim": 32}},
    "dots3_note_text": {"head_dim": 16},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": VOCABULARY, "pad_token_id": 0, "mask_token_id": 3},
    "esmc": {"num_key_value_heads": 4},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 64},
    "gemma3n": {"vision_config": {"architecture": "test_efficientnet"}},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 4},
    "granitemoehybrid": {**MAMBA, "layer_types": ["linear_attention", "full_attention"]},
    "hrm_text": {"num_hidden_layers": 16},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "layoutlmv3": {"coordinate_size": 5, "shape_size": 6, "visual_embed": False},
    "led": {"attention_window": 4, "max_encoder_position_embeddings": 128, "max_decoder_position_embeddings": 128},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "full_attention"], "num_hidden_layers": 4},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": 4},
    "luke": {"entity_vocab_size": 9, "entity_emb_size": 16},
    "lxmert": {"num_hidden_layers": {"vision": 1, "cross_encoder": 1, "language": 2}},
    "mamba2": {"num_heads": 8},
    "mistral4": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "llama_4_scaling_beta": 0.1,
                                     "original_max_position_embeddings": 8}},
    "musicgen_decoder": {"num_codebooks": 1},
    "musicgen_melody_decoder": {"num_codebooks": 1},
    "nemo_speechlm": {"audio_config": {"diarization_config": {"head_config": {"audio_hidden_size": 32}}},
                      "word_timestamp_config": {"blank_token_id": 3}},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"mamba_num_heads": 8, "n_groups": 2,
                   "layers_block_type": ["linear_attention", "moe", "full_attention"]},
    "neomme": {"head_dim": 16},
    "perceiver": {"d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 2},
    "qwen4_exp_text": {"indexer_n_heads": 4, "indexer_kv_heads": 1, "indexer_head_dim": 8, "indexer_budget": 4,
                       "indexer_compress_ratio": 2, "ngram_vocab_size_base": 99},
    "recurrent_gemma": {"num_hidden_layers": 3},
    "reformer": {"is_decoder": True, "axial_pos_embds": False, "local_attn_chunk_length": 4,
                 "lsh_attn_chunk_length": 4, "attn_layers": ["local", "lsh"], "num_hidden_layers": 2, "hash_seed": 1,
                 "num_buckets": 4},
    "roc_bert": {"pronunciation_vocab_size": 9, "shape_vocab_size": 9},
    "vibevoice_asr": {
        f"{name}_tokenizer_encoder_config": {"num_filters": 4, "downsampling_ratios": [2], "depths": [1, 1]}
        for name in ("acoustic", "semantic")},
    "xlstm": {"hidden_size": 128, "embedding_dim": 128},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {"num_hidden_layers": 4, "layer_types": ["linear_attention", "hybrid"] * 2,
              "attention_hidden_size": 64, "attention_head_dim": 16},
    "zamba2": {"num_hidden_layers": 2, "layers_block_type": ["linear_attention", "hybrid"], "mamba_headdim": 8,
               "attention_hidden_size": 64, "attention_head_dim": 16},
}


def model_types():
    """Model type -> the name of its class."""
    found = {}
    for task in TASKS:
        for name, classes in getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES").items():
            found.setdefault(name, classes if isinstance(classes, str) else classes[0])
    return dict(sorted(found.items()))


def fixed(kind, name):
    """Whether a configuration computes this field from others."""
    name = kind.attribute_map.get(name, name)
    found = getattr(kind, name, None)
    return isinstance(found, property) and found.fset is None


def shrink(config):
    """Small values for the fields of a configuration and of those inside it."""
    fields = config.to_dict()
    values = {}
    for name, value in fields.items():
        small = TOKENS.get(name, SMALL.get(name))
        if isinstance(value, int) and not isinstance(value, bool) and small is not None:
            values[name] = small if name in TOKENS else min(value, small)
    if "head_dim" in fields and fields["head_dim"] is None:
        values["head_dim"] = 8
    if "kv_lora_rank" in fields and "num_key_value_heads" in fields:
        values["num_key_value_heads"] = values["num_attention_heads"]  # latent attention: keys of every head
    if "per_layer_config" in fields:
        values["per_layer_config"] = {}
    # One layer of every kind, and two at least.
    kinds = None if fixed(type(config), "layer_types") else getattr(config, "layer_types", None)
    if kinds:
        kinds = list(dict.fromkeys(kinds))
        values["layer_types"] = kinds if len(kinds) > 1 else kinds * 2
        values["num_hidden_layers"] = len(values["layer_types"])
    if getattr(config, "mlp_layer_types", None):
        layers = values.get("num_hidden_layers", 2)
        mlps = list(dict.fromkeys(config.mlp_layer_types))
        values["mlp_layer_types"] = (mlps + mlps[-1:] * layers)[:layers]
    for name in getattr(config, "sub_configs", None) or {}:
        inner = getattr(config, name, None)
        if inner is not None:
            values[name] = {"model_type": inner.model_type, **shrink(inner)}
    return merge(values, EXTRA.get(config.model_type, {}))


def merge(values, more):
    for name, value in more.items():
        both = isinstance(value, dict) and isinstance(values.get(name), dict)
        values[name] = merge(values[name], value) if both else value
    return values


def make(class_name):
    """A class of transformers and a small configuration for it."""
    kind = getattr(transformers, class_name)
    return kind, kind.config_class(**shrink(kind.config_class()))


def inputs_of(kind, config):
    """Random tokens, and what a model needs beside them."""
    vocabulary = min(VOCABULARY, getattr(config.get_text_config(), "vocab_size", VOCABULARY))
    inputs = {"input_ids": torch.randint(3, vocabulary, (2, LENGTH))}
    if "decoder_input_ids" in inspect.signature(kind.forward).parameters:
        inputs["decoder_input_ids"] = torch.randint(3, vocabulary, (2, TARGET))
    if config.model_type == "lxmert":
        inputs.update(visual_feats=torch.randn(2, 5, config.visual_feat_dim), visual_pos=torch.rand(2, 5, 4))
    if config.model_type == "voxtral_realtime":
        inputs["encoder_inputs_embeds"] = torch.randn(2, 4 * LENGTH, 32)
    if config.model_type == "blt":
        inputs["use_cache"] = False
    return inputs


def randomise(model):
    """Weights that make attention matter: those of a fresh model are so small that it averages over all keys."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() >= 2:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)
            else:
                parameter.add_(0.1 * noise)


class Trials:
    """Ways to run a model, each a function of it that returns logits and the gradients of its parameters.

    whole: without a mask. padded: the second sequence ends early. packed: two sequences in a row. cached: in four steps
    with a cache, the second sequence padded at its left. tail: the last two logits only.
    """

    def __init__(self, kind, inputs):
        accepted = inspect.signature(kind.forward).parameters
        self.inputs, self.ids = inputs, inputs["input_ids"]
        self.decoder = "decoder_input_ids" in inputs
        self.backward = True
        self.names = ["whole"]
        self.names += ["padded"] * ("attention_mask" in accepted)
        self.names += ["packed"] * ("position_ids" in accepted and not self.decoder)
        self.names += ["cached"] * ("past_key_values" in accepted)
        self.names += ["tail"] * ("logits_to_keep" in accepted and not self.decoder)

    def run(self, name, model):
        torch.manual_seed(5)
        numpy.random.seed(5)  # of block-sparse attention
        return getattr(self, name)(copy.deepcopy(model))  # some change themselves when they run

    def whole(self, model):
        return self._differentiate(model)

    def padded(self, model):
        mask = torch.ones_like(self.ids)
        mask[1, 11:] = 0
        return self._differentiate(model, counts=mask, attention_mask=mask)

    def packed(self, model):
        positions = torch.cat([torch.arange(9), torch.arange(LENGTH - 9)]).expand(2, -1)
        return self._differentiate(model, position_ids=positions, use_cache=False)

    def cached(self, model):
        mask = torch.ones_like(self.ids)
        mask[1, :3] = 0
        name = "decoder_input_ids" if self.decoder else "input_ids"
        past, found, begin = None, [], 0
        with torch.no_grad():
            for end in (8, 11, 12, TARGET):
                step = {**self.inputs, name: self.inputs[name][:, begin:end], "past_key_values": past, "use_cache": True}
                if not self.decoder:
                    step["attention_mask"] = mask[:, :end]
                outputs = model(**step)
                past = outputs.past_key_values
                if past is None:
                    raise ValueError("the model has no cache")
                logits = first(outputs)
                found.append(logits if self.decoder else logits * mask[:, begin:end, None])
                begin = end
        return torch.cat(found, 1), {}

    def tail(self, model):
        with torch.no_grad():
            return first(model(**self.inputs, logits_to_keep=2)), {}

    def _differentiate(self, model, counts=None, **more):
        with torch.set_grad_enabled(self.backward):
            logits = first(model(**self.inputs, **more))
        if counts is not None and logits.shape[:2] == counts.shape and not self.decoder:
            logits = logits * counts[..., None]
        if not self.backward:
            return logits, {}
        (logits * torch.randn(logits.shape, generator=torch.Generator().manual_seed(4))).sum().backward()
        return logits.detach(), {n: None if p.grad is None else p.grad.clone() for n, p in model.named_parameters()}


def first(outputs):
    """The logits of what a model returned, or what stands for them."""
    return next(x for x in outputs.to_tuple() if torch.is_tensor(x) and x.is_floating_point())


def differences(expected, found):
    """The largest differences of the logits and of the gradients, relative to the largest number.

    Every parameter's gradient is measured by its own largest number. Where that is below a hundredth of the largest of
    all, the gradient is a sum that cancels, and it is measured by this hundredth.
    """
    logits = float((found[0] - expected[0]).abs().max() / expected[0].abs().max())
    largest = {n: 0.0 if g is None or g.numel() == 0 else float(g.abs().max()) for n, g in expected[1].items()}
    floor = 0.01 * max(largest.values(), default=0.0)
    worst = 0.0
    for name, g in expected[1].items():
        g, h = (torch.zeros(1) if x is None else x for x in (g, found[1][name]))
        if g.numel() > 0 and h.numel() > 0 and max(largest[name], floor) > 0:
            difference = float((g - h).abs().max()) / max(largest[name], floor)
            worst = max(worst, difference if math.isfinite(difference) else math.inf)
    return logits, worst
