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
    require(declared is not False, "a model that declares support for sdpa, or for any attention backend",
            f"that of {type(config).__name__}")
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


def both(mask: Optional[Tensor], other: Tensor) -> Tensor:
    """What two boolean masks allow."""
    return other if mask is None else mask & other


def split_mask(given: Optional[Tensor], keys: int) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    """A model's mask as a boolean one, or as one to add to the scores."""
    if given is None:
        return None, None
    require(isinstance(given, Tensor) and given.dim() == 4, "a mask that is a tensor (B, 1 or H, L, S)",
            getattr(given, "shape", type(given)))
    require(given.dtype == torch.bool or given.is_floating_point(), "a boolean mask or one to add", given.dtype)
    given = given[..., :keys]  # it may be as long as the memory of a cache
    return (given, None) if given.dtype == torch.bool else (None, given)


def same_sequence(begins_q: Tensor, begins_k: Tensor, batch: int, queries: int, keys: int) -> Tensor:
    """(B, 1, L, S): whether query and key are of one sequence. The sequences lie one behind the other in all rows."""
    def numbers(begins: Tensor, count: int) -> Tensor:
        places = torch.arange(batch * count, dtype=begins.dtype)
        return torch.bucketize(places, begins[1:], right=True).view(batch, count)

    of_query, of_key = numbers(begins_q, queries), numbers(begins_k, keys)
    for rows in (of_query, of_key):
        require(batch == 1 or bool((rows[1:, 0] != rows[:-1, -1]).all()),
                "beside a mask or a bias, sequences that end with their row", f"cu_seq_lens {begins_q.tolist()}")
    return (of_query[:, :, None] == of_key[:, None])[:, None]


def visible(queries: int, keys: int, causal: bool, window: Optional[Tuple[int, int]]) -> Tensor:
    """(1, 1, L, S): what causal and window let each query see, the last query standing at the last key."""
    distance = torch.arange(keys) - torch.arange(queries)[:, None] - (keys - queries)
    seen = distance <= 0 if causal else torch.ones(queries, keys, dtype=torch.bool)
    if window is not None:
        seen = seen & (distance >= -window[0]) & (distance <= window[1])
    return seen[None, None]


def attend_with_sinks_of_queries(
    query: Tensor, key: Tensor, value: Tensor, sinks: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
    causal: bool, window: Optional[Tuple[int, int]], **options: object,
) -> Tensor:
    """heed.torch.attention with sinks (B, H, L, 1): one more key, of zeros, whose bias is the sink and whose value is 0."""
    b, h, queries, _ = query.shape
    keys = key.shape[-2]
    if causal or window is not None:
        mask = both(mask, visible(queries, keys, causal, window))
    key, value = (torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (key, value))
    bias = query.new_zeros(()) if bias is None else bias
    bias = torch.cat([bias.expand(b, h, queries, keys), sinks.expand(b, h, queries, 1)], -1)
    if mask is not None:
        mask = torch.nn.functional.pad(mask.expand(-1, -1, -1, keys), (0, 1), value=True)
    return heed.torch.attention(query, key, value, mask=mask, bias=bias, **options)


def attention_forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
    scaling: Optional[float] = None, dropout: float = 0.0, softcap: Optional[float] = None,
    is_causal: Optional[bool] = None, sliding_window: Optional[int] = None, position_bias: Optional[Tensor] = None,
    s_aux: Optional[Tensor] = None, sinks: Optional[Tensor] = None, cu_seq_lens_q: Optional[Tensor] = None,
    cu_seq_lens_k: Optional[Tensor] = None, seq_idx: Optional[Tensor] = None, indices: Optional[Tensor] = None,
    output_attentions: Optional[bool] = None, **others: object,
) -> Tuple[Tensor, None]:
    """Attention as a model of transformers asks for it -> output (B, L, H, Dv), and no weights.

    query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv).
    attention_mask: (B, 1 or H, L, S), boolean (True attends) or added to the scores. It holds causality and windows
        already, so is_causal and sliding_window count without a mask only.
    sliding_window: how many keys a query sees up to its own, this one included; without is_causal as many behind it.
    position_bias: (1 or B, H, L, S), added to the scores.
    s_aux, sinks: one more score in each row's softmax sum, (H), or (B, H, L, 1).
    cu_seq_lens_q, cu_seq_lens_k: where sequences begin that lie one behind the other. seq_idx: (B, L), the number of each
        place's sequence. A query sees only keys of its own sequence.
    indices: (B, L, any), the only keys that a query sees.
    """
    if getattr(module, "config", None) is not None:
        require_support(module.config)
    require(not output_attentions, "output_attentions=False: heed keeps no weights", output_attentions)
    unknown = [name for name, x in others.items() if x is not None and name not in HARMLESS]
    require(not unknown, "arguments that heed honours", f"{', '.join(unknown)} from {type(module).__name__}")
    require(s_aux is None or sinks is None, "s_aux or sinks", "both")
    sinks = s_aux if sinks is None else sinks
    require(sinks is None or sinks.dim() in (1, 4), "sinks (H) or (B, H, L, 1)", None if sinks is None else sinks.shape)
    packed = cu_seq_lens_q is not None
    require(packed == (cu_seq_lens_k is not None), "cu_seq_lens_q and cu_seq_lens_k", "one of them")

    batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
    mask, bias = split_mask(attention_mask, keys)
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    causal = causal and attention_mask is None and queries > 1
    require(not causal or packed or queries == keys, "a mask where queries and keys differ in number",
            f"none for {queries} queries and {keys} keys")
    window = None
    if sliding_window is not None and attention_mask is None:
        require(sliding_window > 0, "sliding_window above 0", sliding_window)
        window = (sliding_window - 1, sliding_window - 1)
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    options = dict(causal=causal, window=window, scale=scaling, softcap=softcap, dropout=dropout)

    sinks_of_queries = sinks is not None and sinks.dim() == 4
    if packed and mask is None and bias is None and seq_idx is None and indices is None and not sinks_of_queries:
        rows = [x.transpose(1, 2).flatten(0, 1) for x in (query, key, value)]
        output = heed.torch.attention_varlen(*rows, cu_seq_lens_q, cu_seq_lens_k, sinks=sinks, **options)
        return output.unflatten(0, (batch, queries)), None
    if packed:
        # Causality and windows go by places in a row. Those are the places in a sequence if queries and keys begin alike.
        alike = not (causal or window) or torch.equal(cu_seq_lens_q, cu_seq_lens_k)
        require(alike, "beside a mask or a bias, cu_seq_lens_q and cu_seq_lens_k alike", "different ones")
        mask = both(mask, same_sequence(cu_seq_lens_q, cu_seq_lens_k, batch, queries, keys))
    if seq_idx is not None:
        require(queries == keys, "seq_idx for as many queries as keys", f"{queries} and {keys}")
        mask = both(mask, (seq_idx[:, :, None] == seq_idx[:, None])[:, None])
    if indices is not None:
        chosen = torch.zeros(batch, queries, keys, dtype=torch.bool).scatter(-1, indices.long(), True)
        mask = both(mask, chosen[:, None])
    if sinks_of_queries:
        output = attend_with_sinks_of_queries(query, key, value, sinks, mask, bias, **options)
    else:
        output = heed.torch.attention(query, key, value, mask=mask, bias=bias, sinks=sinks, **options)
    return output.transpose(1, 2), None
