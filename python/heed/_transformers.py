"""What attn_implementation="heed" runs inside Hugging Face transformers: an attention function and its masks.

Models pass arguments of their own to the attention function. Each one is honoured, known to change nothing here, or
refused by its name. Masks come from the mask interface of transformers, so a model must declare that it uses it.
"""

from __future__ import annotations

from typing import Optional, Tuple

import torch
import transformers
from torch import Tensor
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

import heed.torch

# Arguments that models pass on and that change nothing here.
HARMLESS = frozenset({
    "cache_position", "position_ids",  # query and key have their positions already; masks keep packed sequences apart
    "deterministic",  # heed always is
    "logits_to_keep", "num_items_in_batch",  # for logits and loss
    "max_length_q", "max_length_k",  # cu_seq_lens_q and cu_seq_lens_k say the same
    "output_hidden_states", "output_router_logits",  # for the model
    "use_cache",  # the model keeps its cache itself
})


def require(condition: bool, expected: str, found: object) -> None:
    if not condition:
        raise ValueError(
            f'[heed.torch] {expected}; found {found}. Use attn_implementation="eager" for this model of transformers'
        )


def register(name: str) -> None:
    transformers.AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, make_mask)


def declares_support(config: object) -> Optional[bool]:
    """Whether a model says that other attention functions may run in it. None: no model has this configuration.

    It says so if it runs with sdpa; or if it runs with flex or flash attention, and its masks and arguments suit any
    attention function. Models are known by the class of their configuration.
    """
    found = {}
    waiting = [transformers.PreTrainedModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            others = model._supports_flex_attn or model._supports_flash_attn
            says = model._supports_sdpa or (model._supports_attention_backend and others)
            found[model.config_class] = found.get(model.config_class, False) or bool(says)
    found.pop(transformers.PretrainedConfig, None)
    return next((found[kind] for kind in type(config).__mro__ if kind in found), None)


_supported = set()  # classes of configurations


def require_support(config: object) -> None:
    if type(config) in _supported:
        return
    declared = declares_support(config)
    require(
        declared is not False, "a model that supports attention functions of others (it declares _supports_sdpa, or "
        "_supports_attention_backend with _supports_flex_attn or _supports_flash_attn)", f"that of {type(config).__name__}",
    )
    if declared:
        _supported.add(type(config))


def make_mask(*, config: object = None, allow_is_causal_skip: bool = True, **given: object) -> Optional[Tensor]:
    """A boolean mask (B, 1, L, S), True attends; None: every key, or with is_causal the keys up to the query's own.

    Where a causal mask has fewer queries than keys, None would not say which queries they are.
    """
    require_support(config)
    queries, keys = given.get("q_length"), given.get("kv_length")
    plain = queries is not None and (queries == 1 or queries == keys)
    return sdpa_mask(allow_is_causal_skip=allow_is_causal_skip and plain, **given)


def sequence_of(begins: Tensor, places: Tensor) -> Tensor:
    """Which of the sequences that begin at `begins` each place belongs to."""
    return torch.bucketize(places, begins[1:].to(places.dtype), right=True)


def visible(queries: int, keys: int, causal: bool, window: Optional[Tuple[int, int]]) -> Tensor:
    """(1, 1, L, S): what causal and window let each query see, the last query standing at the last key."""
    ahead = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
    seen = ahead <= 0 if causal else torch.ones(queries, keys, dtype=torch.bool)
    if window is not None:
        seen = seen & (ahead >= -window[0]) & (ahead <= window[1])
    return seen[None, None]


def both(mask: Optional[Tensor], other: Tensor) -> Tensor:
    """What boolean masks both allow."""
    return other if mask is None else mask & other


def attention_forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
    scaling: Optional[float] = None, dropout: float = 0.0, softcap: Optional[float] = None,
    is_causal: Optional[bool] = None, sliding_window: Optional[int] = None, position_bias: Optional[Tensor] = None,
    s_aux: Optional[Tensor] = None, sinks: Optional[Tensor] = None, cu_seq_lens_q: Optional[Tensor] = None,
    cu_seq_lens_k: Optional[Tensor] = None, seq_idx: Optional[Tensor] = None, indices: Optional[Tensor] = None,
    **others: object,
) -> Tuple[Tensor, None]:
    """Attention as a model of transformers asks for it. -> output (B, L, H, Dv), no weights.

    query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv). attention_mask: boolean (True attends) or added to the
    scores, (B, 1 or H, L, S); it holds causality and windows already, which count without a mask only. sliding_window:
    keys up to the query's own, this one included; without is_causal as many behind it. position_bias (1 or B, H, L, S):
    added to the scores. s_aux or sinks: one more score in each row's sum, (H), or for each query (B, H, L, 1).
    cu_seq_lens_q, cu_seq_lens_k: where sequences that were laid one behind the other begin; seq_idx (B, L): the number
    of each place's sequence. indices (B, L, any): the only keys that a query attends to.
    """
    config = getattr(module, "config", None)
    if config is not None:
        require_support(config)
    require(others.get("output_attentions") in (None, False), "output_attentions=False: heed keeps no weights",
            others.get("output_attentions"))
    unknown = [name for name, x in others.items()
               if x is not None and name not in HARMLESS and name != "output_attentions"]
    require(not unknown, "arguments that heed honours", f"{', '.join(unknown)} from {type(module).__name__}")

    b, h, queries, _ = query.shape
    keys = key.shape[-2]
    mask = bias = None
    if attention_mask is not None:
        require(isinstance(attention_mask, Tensor) and attention_mask.dim() == 4,
                "a mask that is a tensor (B, 1 or H, L, S)", getattr(attention_mask, "shape", type(attention_mask)))
        attention_mask = attention_mask[..., :keys]  # of a cache's whole memory
        if attention_mask.dtype == torch.bool:
            mask = attention_mask
        else:
            require(attention_mask.is_floating_point(), "a boolean mask or one to add", attention_mask.dtype)
            bias = attention_mask
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    causal = causal and attention_mask is None and queries > 1
    require(not causal or cu_seq_lens_q is not None or queries == keys,
            "a mask where queries and keys differ in number", f"none for {queries} queries and {keys} keys")
    window = None
    if sliding_window is not None and attention_mask is None:
        require(sliding_window > 0, "sliding_window above 0", sliding_window)
        window = (sliding_window - 1, sliding_window - 1)
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    require(s_aux is None or sinks is None, "s_aux or sinks", "both")
    sinks = s_aux if sinks is None else sinks
    require(sinks is None or sinks.dim() in (1, 4), "sinks (H) or (B, H, L, 1)", None if sinks is None else sinks.shape)
    options = dict(scale=scaling, softcap=softcap, dropout=dropout)
    alone = sinks is None or sinks.dim() == 1

    begins = cu_seq_lens_q, cu_seq_lens_k
    if begins != (None, None):
        require(None not in begins, "cu_seq_lens_q and cu_seq_lens_k", "one of them")
        if alone and mask is None and bias is None and seq_idx is None and indices is None:
            rows = [x.transpose(1, 2).flatten(0, 1) for x in (query, key, value)]
            output = heed.torch.attention_packed(
                *rows, *begins, causal=causal, window=window, sinks=sinks, **options)
            return output.unflatten(0, (b, queries)), None
        of_query, of_key = (
            sequence_of(begin, torch.arange(b * count)).view(b, count)
            for begin, count in ((cu_seq_lens_q, queries), (cu_seq_lens_k, keys)))
        require(b == 1 or bool((of_key[1:, 0] != of_key[:-1, -1]).all() and (of_query[1:, 0] != of_query[:-1, -1]).all()),
                "cu_seq_lens_q and cu_seq_lens_k without a sequence in two rows, beside a mask or a bias", begins)
        mask = both(mask, (of_query[:, :, None] == of_key[:, None])[:, None])
        # A row's own causality and window are those of its sequences, if they have as many queries as keys.
        require(not (causal or window) or torch.equal(*begins), "cu_seq_lens_q and cu_seq_lens_k alike", "others")
    if seq_idx is not None:
        require(queries == keys, "seq_idx for as many queries as keys", f"{queries} and {keys}")
        mask = both(mask, (seq_idx[:, :, None] == seq_idx[:, None])[:, None])
    if indices is not None:
        chosen = torch.zeros(b, queries, keys, dtype=torch.bool).scatter(-1, indices.long(), True)
        mask = both(mask, chosen[:, None])
    if not alone:
        # A key of zeros, whose score is the sink, and a value of zeros.
        if causal or window:
            mask = both(mask, visible(queries, keys, causal, window))
            causal, window = False, None
        key, value = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (key, value))
        bias = query.new_zeros(()) if bias is None else bias
        bias = torch.cat([bias.expand(b, h, queries, keys), sinks.expand(b, h, queries, 1)], -1)
        mask = None if mask is None else torch.nn.functional.pad(mask.expand(-1, -1, -1, keys), (0, 1), value=True)
        sinks = None
    output = heed.torch.attention(
        query, key, value, mask=mask, bias=bias, causal=causal, window=window, sinks=sinks, **options)
    return output.transpose(1, 2), None
