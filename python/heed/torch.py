"""heed's attention as a differentiable function of PyTorch tensors on the CPU.

    from heed.torch import attention, scaled_dot_product_attention, register_with_transformers

Forward and backward run in heed. They are one operator, torch.ops.heed.attention, so they work under torch.no_grad, under
torch.compile and in any autograd graph. Forward-mode gradients and gradients of gradients raise an error. bfloat16 and
float16 are computed in float32.
"""

from __future__ import annotations

import operator
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

import heed

__all__ = [
    "attention", "attention_additive", "attention_varlen", "register_with_transformers", "scaled_dot_product_attention",
]


def _options(
    mask: Optional[Tensor], bias: Optional[Tensor], key_lengths: Optional[Tensor], sinks: Optional[Tensor],
    alibi_slopes: Optional[Tensor], relative_table: Optional[Tensor], causal: str, window: List[int],
    scale: Optional[float], softcap: float, dropout: float, seed: int,
) -> dict:
    named = causal in ("top_left", "bottom_right")
    return dict(
        mask=_plain(mask), bias=_plain(bias), key_lengths=_plain(key_lengths), sinks=_plain(sinks),
        alibi_slopes=_plain(alibi_slopes), relative_table=_plain(relative_table),
        causal=causal if named else int(causal) if causal else None, window=tuple(window), scale=scale,
        softcap=softcap, dropout=dropout, seed=seed % 2**64,
    )


def _plain(tensor: Optional[Tensor]) -> Optional[Tensor]:
    """The tensor without its autograd history, which DLPack refuses. The operators have an autograd rule of their own."""
    return None if tensor is None else tensor.detach()


def _heads_last(like: Tensor, shape: Tuple[int, int, int, int]) -> Tensor:
    """Memory laid out as heed's results are: (B, L, H, D), seen as (B, H, L, D)."""
    b, h, length, d = shape
    return like.new_empty((b, length, h, d)).transpose(1, 2)


# One operator does attention(), attention_additive() (with additive_weight) and attention_varlen() (with cu_seqlens).
_TENSORS = 12  # the arguments before `causal`


@torch.library.custom_op("heed::attention", mutates_args=(), device_types="cpu")
def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
    key_lengths: Optional[Tensor], sinks: Optional[Tensor], alibi_slopes: Optional[Tensor],
    relative_table: Optional[Tensor], additive_weight: Optional[Tensor], cu_seqlens_q: Optional[Tensor],
    cu_seqlens_k: Optional[Tensor], causal: str, window: List[int], scale: Optional[float], softcap: float,
    dropout: float, seed: int,
) -> Tuple[Tensor, Tensor]:
    options = _options(
        mask, bias, key_lengths, sinks, alibi_slopes, relative_table, causal, window, scale, softcap, dropout, seed
    )
    options["return_logsumexp"] = True
    arrays = [_plain(x) for x in (query, key, value)]
    if cu_seqlens_q is not None:
        result = heed.attention_varlen(*arrays, cu_seqlens_q, cu_seqlens_k, **options)
    elif additive_weight is not None:
        result = heed.attention_additive(*arrays, _plain(additive_weight), **options)
    else:
        result = heed.attention(*arrays, **options)
    return result.output, result.logsumexp


@_forward.register_fake
def _(query, key, value, *rest):
    if rest[7] is not None:  # cu_seqlens_q
        t, h, _ = query.shape
        return query.new_empty((t, h, value.shape[2])), query.new_empty((h, t), dtype=torch.float32)
    b, h, length, _ = query.shape
    output = _heads_last(query, (b, h, length, value.shape[3]))
    return output, query.new_empty((b, h, length), dtype=torch.float32)


@torch.library.custom_op("heed::attention_backward", mutates_args=(), device_types="cpu")
def _backward(
    d_output: Tensor, output: Tensor, logsumexp: Tensor, query: Tensor, key: Tensor, value: Tensor,
    mask: Optional[Tensor], bias: Optional[Tensor], key_lengths: Optional[Tensor], sinks: Optional[Tensor],
    alibi_slopes: Optional[Tensor], relative_table: Optional[Tensor], additive_weight: Optional[Tensor],
    cu_seqlens_q: Optional[Tensor], cu_seqlens_k: Optional[Tensor], causal: str, window: List[int],
    scale: Optional[float], softcap: float, dropout: float, seed: int, want: List[bool],
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """want: whether to compute the gradients of bias, alibi_slopes and relative_table; each costs a pass."""
    options = _options(
        mask, bias, key_lengths, sinks, alibi_slopes, relative_table, causal, window, scale, softcap, dropout, seed
    )
    options.update(want_alibi_slopes=want[1], want_relative_table=want[2])
    d, o, lse, *inputs = [_plain(x) for x in (d_output, output, logsumexp, query, key, value)]
    if cu_seqlens_q is not None:
        g = heed.attention_varlen_backward(d, *inputs, o, lse, cu_seqlens_q, cu_seqlens_k, **options)
    elif additive_weight is not None:
        g = heed.attention_additive_backward(
            d, *inputs, _plain(additive_weight), o, lse, want_bias=want[0], **options)
    else:
        g = heed.attention_backward(d, *inputs, o, lse, want_bias=want[0], **options)

    # An operator must return tensors, all of them different. A gradient that is not wanted is an empty one.
    def like(gradient: Optional[Tensor], source: Optional[Tensor]) -> Tensor:
        return query.new_empty(0) if gradient is None else gradient.to(source.dtype)

    return (
        g.query, g.key.to(key.dtype), g.value.to(value.dtype), like(g.bias, bias), like(g.sinks, sinks),
        like(g.alibi_slopes, alibi_slopes), like(g.relative_table, relative_table),
        like(g.additive_weight, additive_weight),
    )


@_backward.register_fake
def _(d_output, output, logsumexp, query, key, value, mask, bias, key_lengths, sinks, slopes, table, weight, begins, *rest):
    def like(wanted, source):
        return source.new_empty(source.shape) if wanted else query.new_empty(0)

    def rows(x):
        return _heads_last(x, x.shape) if begins is None else x.new_empty(x.shape)

    want = rest[-1]
    return (
        rows(query), rows(key), rows(value), like(want[0], bias), like(sinks is not None, sinks), like(want[1], slopes),
        like(want[2], table), like(weight is not None, weight),
    )


def _save(ctx, inputs, output) -> None:
    ctx.options = inputs[_TENSORS:]
    ctx.save_for_backward(*inputs[:_TENSORS], *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_output, d_logsumexp):
    if d_logsumexp is not None:
        raise NotImplementedError("[heed.torch] a gradient of the output; found one of the logsumexp as well")
    *inputs, output, logsumexp = ctx.saved_tensors
    if d_output is None:
        return (None,) * (_TENSORS + len(ctx.options))
    # The operator's arguments that the gradients belong to.
    places = (0, 1, 2, 4, 6, 7, 8, 9)  # query, key, value, bias, sinks, alibi_slopes, relative_table, additive_weight
    wanted = [inputs[n] is not None and ctx.needs_input_grad[n] for n in range(_TENSORS)]
    gradients = _backward(
        d_output, output, logsumexp, *inputs, *ctx.options, [wanted[4], wanted[7], wanted[8]]
    )
    found = [None] * (_TENSORS + len(ctx.options))
    for place, gradient in zip(places, gradients):
        found[place] = gradient if wanted[place] else None
    return tuple(found)


_forward.register_autograd(_differentiate, setup_context=_save)


def _seed(given: Optional[int], dropout: float) -> int:
    """The seed of dropout: the given one, or one from torch's generator."""
    if given is not None:
        seed = operator.index(given)
        if not 0 <= seed < 2**64:
            raise ValueError(f"[heed.torch] seed from 0 to 2^64 - 1; found {seed}")
        return seed if seed < 2**63 else seed - 2**64  # operators take signed numbers
    return int(torch.randint(2**62, ()).item()) if dropout > 0 else 0


def _named(causal: heed.Causal) -> str:
    if causal is None or type(causal).__name__ in ("bool", "bool_"):  # NumPy's too
        return "bottom_right" if causal else ""
    if isinstance(causal, str) and causal in ("top_left", "bottom_right"):
        return causal
    if hasattr(causal, "__index__"):
        return str(operator.index(causal))
    raise TypeError(f'[heed.torch] causal as None, a bool, "bottom_right", "top_left" or a whole offset; found {causal!r}')


def _number(name: str, given: Optional[float]) -> Optional[float]:
    if isinstance(given, Tensor) and given.requires_grad:
        raise TypeError(f"[heed.torch] {name} as a number without a gradient; found a tensor that requires one")
    return None if given is None else float(given)


def _call(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Optional[Tensor] = None, bias: Optional[Tensor] = None,
    key_lengths: Optional[Tensor] = None, sinks: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None,
    relative_table: Optional[Tensor] = None, additive_weight: Optional[Tensor] = None,
    cu_seqlens_q: Optional[Tensor] = None, cu_seqlens_k: Optional[Tensor] = None, causal: heed.Causal = None,
    window: Optional[Tuple[int, int]] = None, scale: Optional[float] = None, softcap: Optional[float] = None,
    dropout: float = 0.0, seed: Optional[int] = None,
) -> Tensor:
    if isinstance(key_lengths, (list, tuple)):
        key_lengths = torch.tensor(key_lengths, dtype=torch.int32)
    tensors = (query, key, value, mask, bias, key_lengths, sinks, alibi_slopes, relative_table, additive_weight,
               cu_seqlens_q, cu_seqlens_k)
    # The operator has no rule for forward-mode gradients, and PyTorch would take them to be zero.
    if not torch.compiler.is_compiling() and any(
            x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors):
        raise NotImplementedError("[heed.torch] reverse-mode gradients; found a tensor with a forward-mode tangent")
    left, right = (-1, -1) if window is None else window
    dropout = _number("dropout", dropout)
    return _forward(
        *tensors, _named(causal), [left, right], _number("scale", scale), _number("softcap", softcap) or 0.0, dropout,
        _seed(seed, dropout),
    )[0]


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Optional[Tensor] = None, bias: Optional[Tensor] = None,
    causal: heed.Causal = None, window: Optional[Tuple[int, int]] = None, key_lengths: Optional[Tensor] = None,
    scale: Optional[float] = None, softcap: Optional[float] = None, dropout: float = 0.0, seed: Optional[int] = None,
    sinks: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None, relative_table: Optional[Tensor] = None,
) -> Tensor:
    """heed.attention with its gradient for query, key, value, bias, sinks, alibi_slopes and relative_table.

    query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv) -> (B, H, L, Dv), a view of memory laid out
    (B, L, H, Dv). Options mean what they mean in heed.attention. Dropout without a seed takes one from torch's generator.
    """
    return _call(
        query, key, value, mask=mask, bias=bias, causal=causal, window=window, key_lengths=key_lengths, scale=scale,
        softcap=softcap, dropout=dropout, seed=seed, sinks=sinks, alibi_slopes=alibi_slopes,
        relative_table=relative_table,
    )


def attention_additive(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, *, mask: Optional[Tensor] = None,
    bias: Optional[Tensor] = None, causal: heed.Causal = None, window: Optional[Tuple[int, int]] = None,
    key_lengths: Optional[Tensor] = None, softcap: Optional[float] = None, dropout: float = 0.0,
    seed: Optional[int] = None, sinks: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None,
    relative_table: Optional[Tensor] = None,
) -> Tensor:
    """heed.attention_additive with its gradient, that of weight too. Scores are sum_d weight_d tanh(q_d + k_d).

    Shapes and options are those of attention(); weight (D) or (H, D); all in float32.
    """
    if weight is None:
        raise TypeError("[heed.torch] weight (D) or (H, D); found None")
    return _call(
        query, key, value, mask=mask, bias=bias, causal=causal, window=window, key_lengths=key_lengths,
        softcap=softcap, dropout=dropout, seed=seed, sinks=sinks, alibi_slopes=alibi_slopes,
        relative_table=relative_table, additive_weight=weight,
    )


def attention_varlen(
    query: Tensor, key: Tensor, value: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Optional[Tensor] = None, *,
    causal: heed.Causal = None, window: Optional[Tuple[int, int]] = None, scale: Optional[float] = None,
    softcap: Optional[float] = None, dropout: float = 0.0, seed: Optional[int] = None, sinks: Optional[Tensor] = None,
    alibi_slopes: Optional[Tensor] = None, relative_table: Optional[Tensor] = None,
) -> Tensor:
    """heed.attention_varlen with its gradient: sequences that are laid one behind the other without padding.

    query (T, H, D), key (U, Hkv, D), value (U, Hkv, Dv) -> (T, H, Dv). cu_seqlens_q, cu_seqlens_k (B + 1): where each
    sequence begins, and T and U at their ends, as in flash_attn_varlen_func.
    """
    if cu_seqlens_q is None:
        raise TypeError("[heed.torch] cu_seqlens_q (B + 1); found None")
    return _call(
        query, key, value, causal=causal, window=window, scale=scale, softcap=softcap, dropout=dropout, seed=seed,
        sinks=sinks, alibi_slopes=alibi_slopes, relative_table=relative_table, cu_seqlens_q=cu_seqlens_q,
        cu_seqlens_k=cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k,
    )


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False,
) -> Tensor:
    """A replacement for torch.nn.functional.scaled_dot_product_attention: (..., H, L, D) with any leading axes.

    As there, is_causal lets query i see keys 0..i. A row whose mask is False everywhere is 0.
    """
    if query.dim() < 2 or key.dim() != query.dim() or value.dim() != query.dim():
        raise ValueError(
            "[heed.torch] query, key and value of as many axes, at least two; found "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if not enable_gqa and query.dim() > 2 and key.shape[-3] != query.shape[-3]:
        raise ValueError(
            "[heed.torch] as many key as query heads, or enable_gqa=True; found "
            f"{tuple(query.shape)} and {tuple(key.shape)}"
        )
    leading = query.shape[:-3]

    def four(x: Tensor) -> Tensor:
        while x.dim() < 4:
            x = x.unsqueeze(0)
        return x.flatten(0, -4)

    mask = bias = None
    if attn_mask is not None:
        rows = attn_mask
        if len(leading) > 1 and rows.dim() > 3:
            rows = rows.expand(*leading, *rows.shape[-3:]).flatten(0, -4)
        if rows.dtype == torch.bool:
            mask = rows
        else:
            bias = rows
    output = attention(
        four(query), four(key), four(value), mask=mask, bias=bias, causal="top_left" if is_causal else None,
        dropout=dropout_p, scale=scale,
    )
    return output.reshape(*query.shape[:-1], value.shape[-1])


def register_with_transformers(name: str = "heed") -> None:
    """Makes attn_implementation="heed" known to Hugging Face transformers.

        heed.torch.register_with_transformers()
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="heed")

    A model gives the logits and gradients of attn_implementation="eager", or raises ValueError: where it does not declare
    that other attention functions may run in it, and where it passes an argument that heed does not know.
    """
    from heed import _transformers

    _transformers.register(name)
