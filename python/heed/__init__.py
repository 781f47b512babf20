"""Attention on the CPU: exact, fast, the same bits everywhere.

Arrays are NumPy arrays, or anything with the buffer protocol or DLPack in the memory of the CPU (PyTorch tensors, JAX
arrays). heed reads them in place, whatever their strides, and computes float16 and bfloat16 in float32. For a query that
is a PyTorch tensor the results are PyTorch tensors; otherwise they are NumPy arrays. Letters: B batch, H query heads, Hkv
key/value heads, L query length, S key length, D head size of queries and keys, Dv head size of values.

    out = heed.attention(query, key, value, causal=True)                     # softmax(Q K^T / sqrt(D)) V
    r = heed.attention(query, key, value, return_logsumexp=True, taps={"entropy": True, "top_k": 5})
    g = heed.attention_backward(d_out, query, key, value, r.output, r.logsumexp)

Wrong shapes and values raise ValueError, wrong types and unknown options TypeError. No option is ignored. The GIL is
released while heed computes.
"""

from __future__ import annotations

from typing import Any, Dict, Literal, Mapping, NamedTuple, Optional, Sequence, Tuple, TypedDict, Union, overload

from . import _checks, _heed
from ._arrays import like as _like
from ._heed import (
    __version__,
    active_isa,
    available_isas,
    num_threads,
)

__all__ = [
    "Answer", "Attention", "AttentionGradients", "AttentionResult", "Classification", "CrossEncoder", "Encoder", "Encoding",
    "Filling", "Generation", "Generator", "KeyValueCache", "KeyValues", "Picture", "Progress", "SentenceTransformer",
    "Tapped", "Taps", "TokenClass", "Tokenizer", "Tokens", "Translation", "Translator", "__version__", "active_isa",
    "attention", "attention_additive", "attention_additive_backward", "attention_backward", "attention_cached",
    "attention_varlen", "attention_varlen_backward", "available_isas", "convert", "explain", "load", "num_threads", "ops",
    "peak_gflops", "recipe_keys", "reference", "set_isa", "set_num_threads", "train",
]

Array = Any  # a NumPy array, or what has the buffer protocol or DLPack
Attended = Any  # an Array, or an AttentionResult where more than the output is asked for
Causal = Union[None, bool, int, str]


class Taps(TypedDict, total=False):
    """Statistics of the weights, computed without storing them: memory is linear in L + S."""

    entropy: bool  # of each row, in nats
    top_k: int  # how many keys with the largest weights to return for each row
    column_sums: bool  # the sum of each key's weights over all queries
    map: Tuple[int, int]  # rows and columns of a picture of each head's weights; a cell is a mean
    map_largest: bool  # beside map: a cell is its largest weight instead
    rows: Sequence[Tuple[int, int]]  # (head, query) pairs: return all weights of these rows
    row_scores: bool  # beside rows: return the scores of these rows as well


class Tapped(NamedTuple):
    """The statistics that Taps asked for; the others are None."""

    entropy: Optional[Array] = None  # (B, H, L)
    top_keys: Optional[Array] = None  # (B, H, L, k) int32, the largest weight first; -1 where fewer keys have one
    top_weights: Optional[Array] = None  # (B, H, L, k)
    column_sums: Optional[Array] = None  # (B, H, S)
    map: Optional[Array] = None  # (B, H, rows, columns)
    rows: Optional[Array] = None  # (B, number of rows, S)
    row_scores: Optional[Array] = None  # (B, number of rows, S)


class AttentionResult(NamedTuple):
    output: Array  # the shape of the query, with Dv in place of D
    logsumexp: Optional[Array] = None  # (B, H, L): log of the softmax's denominator; -inf for a row without keys
    weights: Optional[Array] = None  # (B, H, L, S), after dropout
    taps: Optional[Tapped] = None
    scores: Optional[Array] = None  # (B, H, L, S): what enters the softmax; -inf where a key is not attended


class AttentionGradients(NamedTuple):
    query: Array
    key: Array
    value: Array
    bias: Optional[Array] = None  # in the bias's own shape
    sinks: Optional[Array] = None  # (H)
    alibi_slopes: Optional[Array] = None  # (H)
    relative_table: Optional[Array] = None  # (H, 2 reach + 1)
    additive_weight: Optional[Array] = None  # in the shape of attention_additive()'s weight


def _gradients(query: Array, key: Array, value: Array, weight: Optional[Array], given: Dict[str, Any],
               found: Dict[str, Any]) -> AttentionGradients:
    """Each gradient in the type of what it belongs to: sums over many float16 rows may be too large for float16."""
    inputs = dict(given, query=query, key=key, value=value, additive_weight=weight)
    return AttentionGradients(**{name: _like(query, gradient, of=inputs[name]) for name, gradient in found.items()})


# Arguments of PyTorch's scaled_dot_product_attention that have other names here.
_ELSEWHERE = {
    "is_causal": 'causal=True (the last query sees all keys), or causal="top_left" as in PyTorch',
    "attn_mask": "mask for a boolean mask, or bias for numbers that are added to the scores",
    "dropout_p": "dropout",
    "enable_gqa": "no option for fewer key heads than query heads; they need none",
}


def _options(given: Dict[str, Any]) -> Dict[str, Any]:
    options = {name: given[name] for name in _OPTIONS}
    taps = given.get("taps")
    if taps is not None and not isinstance(taps, Mapping):
        raise TypeError(f'[attention] taps as a dict, {{"entropy": True}} for one; found {_checks.found(taps)}')
    options["taps"] = dict(taps) if taps else None
    for name in ("return_logsumexp", "return_weights", "return_scores"):
        options[name] = given.get(name, False)
    return options


_OPTIONS = (
    "mask", "bias", "causal", "window", "key_lengths", "scale", "softcap", "dropout", "seed", "sinks", "alibi_slopes",
    "relative_table", "query_documents", "key_documents", "layout",
)


def _result(found: Dict[str, Any], query: Array, given: Dict[str, Any], out: Optional[Array]) -> Attended:
    taps = found["taps"]
    result = AttentionResult(
        _like(query, found["output"]),
        _like(query, found["logsumexp"], same_dtype=False),
        _like(query, found["weights"], same_dtype=False),
        Tapped(**{name: _like(query, tap, same_dtype=False) for name, tap in taps.items()}) if given["taps"] else None,
        _like(query, found["scores"], same_dtype=False),
    )
    if out is not None:
        if result.output is not None:  # else it is there already
            _heed.copy_into(out, result.output)
        result = result._replace(output=out)
    more = ("return_logsumexp", "return_weights", "return_scores", "taps")
    return result if any(given.get(name) for name in more) else result.output


def _attention(
    plain: bool, query: Array, key: Array, value: Array, given: Dict[str, Any], out: Optional[Array]
) -> Attended:
    return _result(_heed.attention(query, key, value, _options(given), plain, None, out), query, given, out)


@overload
def attention(
    query: Array, key: Array, value: Array, *, mask: Optional[Array] = ..., bias: Optional[Array] = ...,
    causal: Causal = ..., window: Optional[Tuple[int, int]] = ..., key_lengths: Optional[Array] = ...,
    scale: Optional[float] = ..., softcap: Optional[float] = ..., dropout: float = ..., seed: Optional[int] = ...,
    sinks: Optional[Array] = ..., alibi_slopes: Optional[Array] = ..., relative_table: Optional[Array] = ...,
    query_documents: Optional[Array] = ..., key_documents: Optional[Array] = ...,
    return_logsumexp: Literal[False] = ..., return_weights: Literal[False] = ..., return_scores: Literal[False] = ...,
    taps: None = ..., layout: str = ..., out: Optional[Array] = ...,
) -> Array: ...
@overload
def attention(
    query: Array, key: Array, value: Array, *, mask: Optional[Array] = ..., bias: Optional[Array] = ...,
    causal: Causal = ..., window: Optional[Tuple[int, int]] = ..., key_lengths: Optional[Array] = ...,
    scale: Optional[float] = ..., softcap: Optional[float] = ..., dropout: float = ..., seed: Optional[int] = ...,
    sinks: Optional[Array] = ..., alibi_slopes: Optional[Array] = ..., relative_table: Optional[Array] = ...,
    query_documents: Optional[Array] = ..., key_documents: Optional[Array] = ..., return_logsumexp: bool = ...,
    return_weights: bool = ..., return_scores: bool = ..., taps: Optional[Taps] = ..., layout: str = ...,
    out: Optional[Array] = ...,
) -> AttentionResult: ...
@_checks.also_called(**_ELSEWHERE)
def attention(
    query: Array,
    key: Array,
    value: Array,
    *,
    mask: Optional[Array] = None,
    bias: Optional[Array] = None,
    causal: Causal = None,
    window: Optional[Tuple[int, int]] = None,
    key_lengths: Optional[Array] = None,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    dropout: float = 0.0,
    seed: Optional[int] = None,
    sinks: Optional[Array] = None,
    alibi_slopes: Optional[Array] = None,
    relative_table: Optional[Array] = None,
    query_documents: Optional[Array] = None,
    key_documents: Optional[Array] = None,
    return_logsumexp: bool = False,
    return_weights: bool = False,
    return_scores: bool = False,
    taps: Optional[Taps] = None,
    layout: str = "bhld",
    out: Optional[Array] = None,
) -> Attended:
    """softmax(softcap(scale * Q K^T) + bias + mask) V, exact, in memory linear in L + S.

    query (B, H, L, D), key (B, Hkv, S, D), value (B, Hkv, S, Dv) -> (B, H, L, Dv). With layout="blhd" the second and third
    axes are exchanged, in the result too. (H, L, D) is one sequence, (L, D) one head. H is a multiple of Hkv.

    mask: boolean, True attends; any shape that broadcasts to (B, H, L, S).
    bias: added to the scores; any shape that broadcasts to (B, H, L, S).
    causal: True or "bottom_right" (the last query sees all keys), "top_left" (query i sees keys 0..i, as in PyTorch), or
        an offset o: query i sees keys j <= i + o.
    window: (left, right), how many keys on each side of the query's own position it sees; -1: no bound.
    key_lengths: (B), how many keys of each sequence count. It may be a list, as may the documents. With causal=True the
        last query stands at the last of these keys: sequences padded behind their tokens need causal="top_left".
    scale: 1 / sqrt(D) unless given.
    softcap: c; scores become c * tanh(score / c), before bias and masks.
    dropout, seed: the rate at which weights are dropped. Which ones depends on (seed, b, h, i, j) alone: the same seed
        (0 if none is given) drops the same ones, so pass another one in each layer and step.
    sinks: (H), one more score in each row's softmax sum, without a value.
    alibi_slopes: (H), adds -slope * |distance| to the scores.
    relative_table: (H, 2 reach + 1), adds an entry to each score: entry reach + (query position - key position), where
        the difference is limited to -reach..reach.
    query_documents (B, L), key_documents (B, S): a query sees only keys of its own document.
    return_logsumexp, return_weights, return_scores, taps: return an AttentionResult instead of the output alone.
    out: an array for the output, of any strides. It may share memory with an operand. heed writes it without a copy if it
        has the query's type, a dense last axis and memory of its own.

    A row that may attend to nothing is 0. Masked keys and values are never read into the sum.
    """
    return _attention(False, query, key, value, dict(locals()), out)


def attention_backward(
    d_output: Array,
    query: Array,
    key: Array,
    value: Array,
    output: Array,
    logsumexp: Array,
    *,
    mask: Optional[Array] = None,
    bias: Optional[Array] = None,
    causal: Causal = None,
    window: Optional[Tuple[int, int]] = None,
    key_lengths: Optional[Array] = None,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    dropout: float = 0.0,
    seed: Optional[int] = None,
    sinks: Optional[Array] = None,
    alibi_slopes: Optional[Array] = None,
    relative_table: Optional[Array] = None,
    query_documents: Optional[Array] = None,
    key_documents: Optional[Array] = None,
    want_bias: bool = False,
    want_alibi_slopes: bool = False,
    want_relative_table: bool = False,
    layout: str = "bhld",
) -> AttentionGradients:
    """The gradient of attention() with the same arguments, given d_output (B, H, L, Dv).

    output and logsumexp are what attention(..., return_logsumexp=True) returned. want_bias, want_alibi_slopes and
    want_relative_table ask for these gradients as well. The weights are computed again, with the same dropout, so that
    memory is linear in L + S.
    """
    given = dict(locals(), taps=None)
    found = _heed.attention_backward(d_output, query, key, value, output, logsumexp, _options(given),
                                     (want_bias, want_alibi_slopes, want_relative_table), None)
    return _gradients(query, key, value, None, given, found)


_OF_BATCHES = ("mask", "bias", "key_lengths", "query_documents", "key_documents")  # None for attention_varlen()


def _given(
    function: str, options: Dict[str, Any], more: Tuple[str, ...] = (), without: Tuple[str, ...] = (),
    none: Tuple[str, ...] = (),
) -> Dict[str, Any]:
    """Options that were given by name, with attention()'s defaults; `more` are allowed, `without` are not, nor more than
    None for `none`."""
    known = [name for name in _OPTIONS + more if name not in without]
    unknown = sorted(set(options) - set(known))
    if unknown and unknown[0] in _ELSEWHERE:
        raise TypeError(f"[{function}] {_ELSEWHERE[unknown[0]]}; found {unknown[0]}")
    if unknown:
        listed = ", ".join(name for name in known if name not in none)
        raise TypeError(f"[{function}] the options {listed}; found {', '.join(unknown)}")
    defaults = {"layout": "bhld", "dropout": 0.0, "return_logsumexp": False, "return_weights": False,
                "return_scores": False}
    return {**dict.fromkeys(_OPTIONS + more), **defaults, **options}


def _weight_of(function: str, weight: Optional[Array]) -> Array:
    if weight is None:
        raise TypeError(f"[{function}] weight (D) or (H, D); found None")
    return weight


def attention_additive(
    query: Array, key: Array, value: Array, weight: Array, **options: Any
) -> Attended:
    """Additive attention (Bahdanau et al. 2015): the score of a pair is sum_d weight_d tanh(q_d + k_d).

    query (B, H, L, D) and key (B, Hkv, S, D) are projected already; weight (D) or (H, D); all in float32. Options and
    result are those of attention(), without scale. Nothing of size L * S * D is stored.
    """
    given = _given("attention_additive", options, ("return_logsumexp", "return_weights", "return_scores", "taps", "out"))
    found = _heed.attention(query, key, value, _options(given), False,
                            _weight_of("attention_additive", weight), given["out"])
    return _result(found, query, given, given["out"])


def attention_additive_backward(
    d_output: Array, query: Array, key: Array, value: Array, weight: Array, output: Array, logsumexp: Array, *,
    want_bias: bool = False, want_alibi_slopes: bool = False, want_relative_table: bool = False, **options: Any,
) -> AttentionGradients:
    """The gradient of attention_additive() with the same arguments; additive_weight is the gradient of weight."""
    given = dict(_given("attention_additive_backward", options), taps=None)
    found = _heed.attention_backward(d_output, query, key, value, output, logsumexp, _options(given),
                                     (want_bias, want_alibi_slopes, want_relative_table),
                                     _weight_of("attention_additive_backward", weight))
    return _gradients(query, key, value, weight, given, found)


def attention_varlen(
    query: Array, key: Array, value: Array, cu_seqlens_q: Array, cu_seqlens_k: Optional[Array] = None, **options: Any
) -> Attended:
    """attention() of sequences of different lengths, laid one behind the other without padding. Each attends to itself.

    query (T, H, D), key (U, Hkv, D), value (U, Hkv, Dv) -> (T, H, Dv), logsumexp (H, T). cu_seqlens_q (B + 1): where each
    sequence begins in query: 0, the first length, the sum of the first two, ..., T. cu_seqlens_k: the same for key and
    value; cu_seqlens_q unless given. Options are those of attention(), without mask, bias, key_lengths, documents, layout,
    weights, scores and taps. Each sequence gets the bits that it has alone.
    """
    given = dict(_given("attention_varlen", options, ("return_logsumexp", "out"), ("layout",), _OF_BATCHES), taps=None)
    begins = (cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k)
    return _result(_heed.attention_varlen(query, key, value, begins, _options(given)), query, given, given["out"])


def attention_varlen_backward(
    d_output: Array, query: Array, key: Array, value: Array, output: Array, logsumexp: Array, cu_seqlens_q: Array,
    cu_seqlens_k: Optional[Array] = None, *, want_alibi_slopes: bool = False, want_relative_table: bool = False,
    **options: Any,
) -> AttentionGradients:
    """The gradient of attention_varlen() with the same arguments. Gradients of what the sequences share are summed."""
    given = dict(_given("attention_varlen_backward", options, without=("layout",), none=_OF_BATCHES), taps=None)
    begins = (cu_seqlens_q, cu_seqlens_q if cu_seqlens_k is None else cu_seqlens_k)
    found = _heed.attention_varlen_backward(d_output, query, key, value, output, logsumexp, begins, _options(given),
                                            (False, want_alibi_slopes, want_relative_table))
    return _gradients(query, key, value, None, given, found)


def set_num_threads(count: int) -> None:
    """How many threads heed computes with, 1 or more. No result depends on it."""
    _checks.integers("set_num_threads", count=count)
    if not -(2**31) <= count < 2**31:
        raise ValueError(f"[set_num_threads] a count between 1 and 1024; found {count}")
    _heed.set_num_threads(count)


def set_isa(name: str) -> None:
    """The instruction set that heed computes with: one of available_isas(). Results in float32 do not depend on it."""
    _checks.strings("set_isa", name=name)
    _heed.set_isa(name)


def peak_gflops(dtype: str = "float32") -> float:
    """The multiply-adds of one thread in registers, measured now, in 10^9 operations a second: float32 or bfloat16."""
    _checks.strings("peak_gflops", dtype=dtype)
    return _heed.peak_gflops(dtype)


def explain(query: Array, key: Array, value: Array, **options: Any) -> str:
    """A line that says what attention() would run: kernel, instruction set, blocks skipped, operations, bytes.

    It takes the options of attention(), without out, taps and the return_ options.

    With HEED_EXPLAIN in the environment (the name of a file, or 1 for standard error) every call writes such a line, with
    its time and its share of the processor's peak.
    """
    return _heed.explain(query, key, value, _options(_given("explain", options)))


class KeyValueCache:
    """Keys and values of positions already seen, for decoding.

        cache = heed.KeyValueCache(batch, kv_heads, capacity=4096, size=128, dtype="bfloat16")
        cache.append(k_prompt, v_prompt)                                    # (B, Hkv, L, D) each
        out = heed.attention_cached(q_prompt, cache, causal=True)
        cache.append(k_next, v_next)                                        # (B, Hkv, 1, D)
        out = heed.attention_cached(q_next, cache, causal=True)             # decode

    dtype: "float32", "bfloat16", "float16", or "int8", which has a scale for each row of a head. page: keys in a page; 0
    keeps each sequence in one piece. pages: how many pages the sequences share; 0: enough for all. capacity: keys of a
    sequence at most; with 0 the cache grows. Several threads may use one cache: their calls run one after the other.
    """

    def __init__(
        self, batch: int, heads: int, capacity: int, size: int, value_size: Optional[int] = None, *,
        dtype: str = "float32", page: int = 0, pages: int = 0,
    ) -> None:
        value_size = size if value_size is None else value_size
        _checks.integers("KeyValueCache", batch=batch, heads=heads, capacity=capacity, size=size, value_size=value_size,
                      page=page, pages=pages)
        self._dtype = getattr(dtype, "__name__", str(dtype)).rpartition(".")[2]
        self._cache = _heed.Cache(batch, heads, capacity, size, value_size, self._dtype, page, pages)

    def append(self, key: Array, value: Array, lengths: Optional[Array] = None, *, layout: str = "bhld") -> None:
        """Appends key (B, Hkv, n, D) and value (B, Hkv, n, Dv) to each sequence; with lengths (B), only the first
        lengths[b] rows to sequence b. If they do not fit, raises ValueError and changes nothing."""
        _checks.strings("append", layout=layout)
        self._cache.append(key, value, lengths, layout)

    def truncate(self, sequence: int, length: int) -> None:
        """Forgets all but the first `length` keys of a sequence."""
        _checks.integers("truncate", sequence=sequence, length=length)
        self._cache.truncate(sequence, length)

    def reorder(self, rows: Sequence[int]) -> None:
        """Sequence r becomes a copy of what sequence rows[r] was; len(rows) sequences remain. In pages, copies share
        their pages until one of them appends."""
        rows = _checks.listed("reorder", rows, "whole numbers")
        for row in rows:
            _checks.integers("reorder", row=row)
        self._cache.reorder([int(row) for row in rows])

    @property
    def lengths(self) -> Array:
        """(B) int32: how many keys each sequence has."""
        return self._cache.lengths()

    @property
    def capacity(self) -> int:
        return self._cache.capacity()

    @property
    def free_pages(self) -> int:
        return self._cache.free_pages()

    @property
    def nbytes(self) -> int:
        return self._cache.nbytes()

    def __repr__(self) -> str:
        return f"KeyValueCache({self._dtype}, lengths {self.lengths.tolist()}, {self.nbytes:,} bytes)"


class KeyValues(NamedTuple):
    """Keys and values in memory of your own.

    In one piece: key (B, Hkv, S, D), value (B, Hkv, S, Dv). In pages: (P, Hkv, page, D) and (P, Hkv, page, Dv); page
    pages[b, n] holds rows n * page to (n + 1) * page - 1 of sequence b. float32, bfloat16, float16, or int8 with float32
    scales, one for each row.
    """

    key: Array
    value: Array
    key_scales: Optional[Array] = None
    value_scales: Optional[Array] = None
    lengths: Optional[Array] = None  # (B): how many keys each sequence has; needed with pages
    pages: Optional[Array] = None  # (B, most pages of a sequence)


@_checks.also_called(**_ELSEWHERE)
def attention_cached(
    query: Array,
    memory: Union[KeyValueCache, KeyValues],
    *,
    mask: Optional[Array] = None,
    bias: Optional[Array] = None,
    causal: Causal = None,
    window: Optional[Tuple[int, int]] = None,
    scale: Optional[float] = None,
    softcap: Optional[float] = None,
    sinks: Optional[Array] = None,
    alibi_slopes: Optional[Array] = None,
    relative_table: Optional[Array] = None,
    return_logsumexp: bool = False,
    return_weights: bool = False,
    return_scores: bool = False,
    taps: Optional[Taps] = None,
    layout: str = "bhld",
    out: Optional[Array] = None,
) -> Attended:
    """attention() of query (B, H, L, D) over a cache, or over keys and values in memory of your own.

    The result has the bits of attention() over the same numbers converted to float32, with the lengths of the sequences as
    key_lengths. causal=True places the last query at the last key of its own sequence. The query is computed in float32.
    For masks and taps S is the longest of the lengths.
    """
    given = dict(locals(), dropout=0.0, seed=None, key_lengths=None, query_documents=None, key_documents=None)
    if isinstance(memory, KeyValueCache):
        found = _heed.attention_cache(query, memory._cache, _options(given), out)
    elif isinstance(memory, KeyValues):
        found = _heed.attention_stored(query, memory._asdict(), _options(given), out)
    else:
        raise TypeError(f"[attention_cached] a KeyValueCache or KeyValues; found {type(memory).__name__}")
    return _result(found, query, given, out)


from . import ops, reference  # noqa: E402  (they use the functions above)
from .pipelines import (  # noqa: E402
    Answer,
    Attention,
    Classification,
    Encoder,
    Encoding,
    Filling,
    Generation,
    Generator,
    Picture,
    TokenClass,
    Translation,
    Translator,
    convert,
    load,
)
from .cross_encoder import CrossEncoder  # noqa: E402
from .sentence_transformer import SentenceTransformer  # noqa: E402
from .tokenizers import Tokenizer, Tokens  # noqa: E402
from .training import Progress, recipe_keys, train  # noqa: E402
