"""heed's attention as a differentiable function of PyTorch tensors on the CPU.

    from heed.torch import attention, scaled_dot_product_attention, register_with_transformers

Forward and backward run through heed, as operators of their own (torch.ops.heed): under torch.no_grad, under
torch.compile, and in any autograd graph. bfloat16 and float16 are computed in float32.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

import torch
from torch import Tensor

import heed

__all__ = ["attention", "register_with_transformers", "scaled_dot_product_attention"]


def _options(
    mask: Optional[Tensor], bias: Optional[Tensor], key_lengths: Optional[Tensor], sinks: Optional[Tensor],
    alibi_slopes: Optional[Tensor], relative_table: Optional[Tensor], causal: str, window: List[int], scale: float,
    softcap: float, dropout: float, seed: int,
) -> dict:
    named = causal in ("top_left", "bottom_right")
    return dict(
        mask=_plain(mask), bias=_plain(bias), key_lengths=_plain(key_lengths), sinks=_plain(sinks),
        alibi_slopes=_plain(alibi_slopes), relative_table=_plain(relative_table),
        causal=causal if named else int(causal) if causal else None, window=tuple(window), scale=scale,
        softcap=softcap, dropout=dropout, seed=seed,
    )


def _plain(tensor: Optional[Tensor]) -> Optional[Tensor]:
    """The tensor without its history, which DLPack refuses; the operators' own autograd rule is below."""
    return None if tensor is None else tensor.detach()


def _heads_last(like: Tensor, shape: Tuple[int, int, int, int]) -> Tensor:
    """Memory as heed lays its results out: (B, L, H, D), seen as (B, H, L, D)."""
    b, h, length, d = shape
    return like.new_empty((b, length, h, d)).transpose(1, 2)


@torch.library.custom_op("heed::attention", mutates_args=(), device_types="cpu")
def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Optional[Tensor], bias: Optional[Tensor],
    key_lengths: Optional[Tensor], sinks: Optional[Tensor], alibi_slopes: Optional[Tensor],
    relative_table: Optional[Tensor], causal: str, window: List[int], scale: float, softcap: float, dropout: float,
    seed: int,
) -> Tuple[Tensor, Tensor]:
    options = _options(
        mask, bias, key_lengths, sinks, alibi_slopes, relative_table, causal, window, scale, softcap, dropout, seed
    )
    result = heed.attention(_plain(query), _plain(key), _plain(value), return_logsumexp=True, **options)
    return result.output, result.logsumexp


@_forward.register_fake
def _(query, key, value, *options):
    b, h, length, _ = query.shape
    output = _heads_last(query, (b, h, length, value.shape[3]))
    return output, query.new_empty((b, h, length), dtype=torch.float32)


@torch.library.custom_op("heed::attention_backward", mutates_args=(), device_types="cpu")
def _backward(
    d_output: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, logsumexp: Tensor,
    mask: Optional[Tensor], bias: Optional[Tensor], key_lengths: Optional[Tensor], sinks: Optional[Tensor],
    alibi_slopes: Optional[Tensor], relative_table: Optional[Tensor], causal: str, window: List[int], scale: float,
    softcap: float, dropout: float, seed: int, want: List[bool],
) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """want: the gradients of bias, alibi_slopes and relative_table, each a pass of its own."""
    options = _options(
        mask, bias, key_lengths, sinks, alibi_slopes, relative_table, causal, window, scale, softcap, dropout, seed
    )
    arrays = [_plain(x) for x in (d_output, query, key, value, output, logsumexp)]
    wanted = dict(zip(("want_bias", "want_alibi_slopes", "want_relative_table"), want))
    g = heed.attention_backward(*arrays, **wanted, **options)

    # An operator must return tensors, and no two of them the same: what is not wanted is empty.
    def like(gradient: Optional[Tensor], source: Optional[Tensor]) -> Tensor:
        return query.new_empty(0) if gradient is None else gradient.to(source.dtype)

    return (
        g.query, g.key.to(key.dtype), g.value.to(value.dtype), like(g.bias, bias), like(g.sinks, sinks),
        like(g.alibi_slopes, alibi_slopes), like(g.relative_table, relative_table),
    )


@_backward.register_fake
def _(d_output, query, key, value, output, logsumexp, mask, bias, key_lengths, sinks, slopes, table, *rest):
    def like(wanted, source):
        return source.new_empty(source.shape) if wanted else query.new_empty(0)

    return (
        _heads_last(query, query.shape), _heads_last(key, key.shape), _heads_last(value, value.shape),
        like(rest[-1][0], bias), like(sinks is not None, sinks), like(rest[-1][1], slopes), like(rest[-1][2], table),
    )


def _save(ctx, inputs, output) -> None:
    ctx.options = inputs[9:]
    ctx.save_for_backward(*inputs[:9], *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_output, d_logsumexp):
    if d_logsumexp is not None:
        raise NotImplementedError("[heed.torch] a gradient of the output; found one of the logsumexp as well")
    *inputs, output, logsumexp = ctx.saved_tensors
    if d_output is None:
        return (None,) * (len(inputs) + len(ctx.options))
    query, key, value, mask, bias, key_lengths, sinks, slopes, table = inputs
    want = [inputs[n] is not None and ctx.needs_input_grad[n] for n in (4, 7, 8)]
    d_query, d_key, d_value, d_bias, d_sinks, d_slopes, d_table = _backward(
        d_output, query, key, value, output, logsumexp, mask, bias, key_lengths, sinks, slopes, table, *ctx.options,
        want,
    )
    found = [d_query, d_key, d_value, None, d_bias if want[0] else None, None, None if sinks is None else d_sinks,
             d_slopes if want[1] else None, d_table if want[2] else None]
    return tuple(found) + (None,) * len(ctx.options)


_forward.register_autograd(_differentiate, setup_context=_save)


def _drawn_seed(dropout: float) -> int:
    return int(torch.randint(2**62, ()).item()) if dropout > 0 else 0


def attention(
    query: Tensor, key: Tensor, value: Tensor, *, mask: Optional[Tensor] = None, bias: Optional[Tensor] = None,
    causal: heed.Causal = None, window: Optional[Tuple[int, int]] = None, key_lengths: Optional[Tensor] = None,
    scale: Optional[float] = None, softcap: Optional[float] = None, dropout: float = 0.0, seed: Optional[int] = None,
    sinks: Optional[Tensor] = None, alibi_slopes: Optional[Tensor] = None, relative_table: Optional[Tensor] = None,
) -> Tensor:
    """heed.attention with its gradient for query, key, value, bias, sinks, alibi_slopes and relative_table.

    query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv) -> (B, H, L, Dv), a view of memory laid out
    (B, L, H, Dv). The options are those of heed.attention; without a seed, dropout draws one from torch's generator.
    """
    named = {None: "", False: "", True: "bottom_right"}
    return _forward(
        query, key, value, mask, bias, key_lengths, sinks, alibi_slopes, relative_table,
        named[causal] if causal is None or isinstance(causal, bool) else str(causal), list(window or (-1, -1)),
        query.shape[-1] ** -0.5 if scale is None else scale, softcap or 0.0, dropout,
        _drawn_seed(dropout) if seed is None else seed,
    )[0]


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Optional[float] = None, enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, drop-in: (..., H, L, D) with any leading axes.

    As there, is_causal lets query i see keys 0..i. One difference: a row whose mask is False everywhere is 0, not NaN.
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
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def forward(
        module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Optional[Tensor],
        scaling: Optional[float] = None, dropout: float = 0.0, softcap: Optional[float] = None,
        is_causal: Optional[bool] = None, s_aux: Optional[Tensor] = None, **_: object,
    ) -> Tuple[Tensor, None]:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        boolean = attention_mask is not None and attention_mask.dtype == torch.bool
        # Masks of transformers hold causality and windows already, and may be longer than the keys.
        rows = None if attention_mask is None else attention_mask[..., : key.shape[-2]]
        output = attention(
            query, key, value, mask=rows if boolean else None, bias=None if boolean else rows,
            causal="top_left" if causal and rows is None and query.shape[-2] > 1 else None, scale=scaling,
            softcap=softcap, dropout=dropout, sinks=s_aux,
        )
        return output.transpose(1, 2), None

    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, sdpa_mask)
