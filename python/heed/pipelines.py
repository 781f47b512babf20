"""Text in, text out: a model paired with its tokenizers, loaded from a folder of heed or of Hugging Face.

    model = heed.load("demo/en-zh")                                     # a Translator, a Generator or an Encoder
    print(model.translate("Where is the station?")[0].text)
    model.attention("Where is the station?")                            # shows itself in a notebook
    heed.load("sentence-transformers/all-MiniLM-L6-v2").embed(texts)    # what Hugging Face's tools have downloaded

A text that the model cannot read whole raises ValueError; too_long="cut" reads its beginning, with a warning. A text
that is mostly unknown to the model gives a warning. Ctrl-C stops between two tokens.
"""

from __future__ import annotations

import functools
import html
import os
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, Type, TypeVar, Union, overload

import numpy as np
import numpy.typing as npt

from . import _checks, _heed
from .tokenizers import Tokenizer

__all__ = [
    "Answer", "Attention", "Classification", "Encoder", "Encoding", "Filling", "Generation", "Generator", "Picture", "TokenClass",
    "Translation", "Translator", "load",
]

Path = Union[str, bytes, "os.PathLike[str]"]


class Translation(NamedTuple):
    text: str
    # What translations are ranked by: log probabilities / length ** length_penalty + length_reward * length.
    score: float
    finished: bool  # ended by itself, not by the limit of its length
    tokens: List[str]
    log_probs: List[float]  # of each token, and of the end where it was reached


class Generation(NamedTuple):
    text: str  # what follows the prompt
    finished: bool  # the model ended the text
    tokens: List[str]
    log_probs: List[float]  # of each token, and of the end where it was reached


class Classification(NamedTuple):
    label: str  # the likeliest one
    score: float  # its probability
    scores: List[float]  # of each of Encoder.labels


class TokenClass(NamedTuple):
    token: str
    begin: int  # the token is text[begin:end]
    end: int
    label: str
    score: float


class Answer(NamedTuple):
    text: str  # empty: the passage does not answer the question
    begin: int  # the answer is passage[begin:end]
    end: int
    score: float  # the probability of its first token times that of its last one


class Filling(NamedTuple):
    token: str
    probability: float
    id: int


class Picture:
    """A drawing. In a notebook it shows itself; `svg` is its text."""

    def __init__(self, svg: str, title: str) -> None:
        self.svg = svg
        self.title = title

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({self.title})"


class Attention:
    """Who attends to whom. In a notebook it shows its page; `weights` are arrays (H, L, S), by the layer's path."""

    def __init__(self, record: _heed.Record) -> None:
        self._record: Optional[_heed.Record] = record
        self.source_tokens: List[str] = record.source_tokens()
        self.target_tokens: List[str] = record.target_tokens()
        self.output_tokens: List[str] = record.output_tokens()
        self.weights: Dict[str, npt.NDArray[np.float32]] = record.weights()

    @property
    def _count(self) -> int:
        return sum(one.size for one in self.weights.values())

    @functools.cached_property
    def page(self) -> str:
        """An HTML page that shows all of it, made at the first call. ValueError for more than 60,000,000 weights."""
        if self._count > _heed.most_weights or self._record is None:
            raise ValueError(f"[page] at most {_heed.most_weights} weights in one page; found {self._count}")
        return self._record.page()

    def __getstate__(self) -> Dict[str, Any]:
        if self._count <= _heed.most_weights:
            self.page  # a copy has no record to make it from
        return {**self.__dict__, "_record": None}

    def picture(self, layer: str, head: Optional[int] = None) -> Picture:
        """The weights of a layer, one of the names in `weights`: of a head, from 0, or the mean of all heads."""
        if not isinstance(layer, str) or layer not in self.weights:
            raise KeyError(f"[picture] a layer, one of {', '.join(self.weights)}; found {layer}")
        weights = self.weights[layer]
        if head is not None:
            _checks.integers("picture", head=head)
            if not 0 <= head < len(weights):
                raise IndexError(f"[picture] a head from 0 to {len(weights) - 1}; found {head}")
        encoder = layer.startswith("encoder") or not self.target_tokens
        rows = self.source_tokens if encoder else self.target_tokens
        columns = self.source_tokens if encoder or "cross" in layer else self.target_tokens
        title = f"{layer}, {'mean of the heads' if head is None else f'head {head}'}"
        one = weights.mean(axis=0) if head is None else weights[head]
        return Picture(_heed.attention_svg(one, rows, columns, title), title)

    def _repr_html_(self) -> Optional[str]:
        if self._count > _heed.most_weights:
            return None  # a notebook then shows the text of __repr__()
        escaped = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{escaped}" sandbox="allow-scripts" style="width:100%;height:720px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Attention({len(self.weights)} layers, {len(self.source_tokens or self.target_tokens)} tokens)"


class Encoding(NamedTuple):
    tokens: List[str]  # with those that stand around the text ("[CLS]", "</s>")
    states: npt.NDArray[np.float32]  # (L, E)


Model = TypeVar("Model", bound="_Pipeline")


class _Pipeline:
    """A model of a folder. It never changes once it is loaded: any number of threads may use one at once.

    A pickle of it holds the name of the folder. Unpickling reads the folder again.
    """

    folder: str
    weights: str

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        self.folder = os.path.abspath(_found(type(self).__name__, folder))
        self.weights = weights
        _checks.strings(type(self).__name__, weights=weights)

    @classmethod
    def _load(cls: Type[Model], folder: str, weights: str) -> Model:
        return cls(folder, weights=weights)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self)._load, (self.folder, self.weights)

    def __copy__(self: Model) -> Model:
        return self

    def __deepcopy__(self: Model, memo: Dict[int, Any]) -> Model:
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r}, weights={self.weights!r})"


class Translator(_Pipeline):
    """An encoder-decoder that reads one language and writes another."""

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        super().__init__(folder, weights=weights)
        self._model = _heed.Translator(self.folder, weights)

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the language that is read."""
        return Tokenizer._of(self._model.source_tokenizer(), self.folder, "source")

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Of the language that is written."""
        return Tokenizer._of(self._model.target_tokenizer(), self.folder, "target")

    def save(self, folder: Path, *, layout: str = "same", overwrite: bool = False) -> None:
        """Writes a folder that heed.load() reads: see Encoder.save(). In Hugging Face's layout a translator of heed's own
        is a Marian, which gives the same up to rounding."""
        _save(self._model, self.folder, folder, layout, overwrite)

    @overload
    def translate(  # type: ignore[misc]  # a str is a sequence of str as well
        self, text: str, *, beam: int = ..., n_best: int = ..., length_penalty: Optional[float] = ...,
        gnmt: bool = ..., length_reward: float = ..., length_factor: Optional[float] = ..., max_length: int = ...,
        min_length: int = ..., batch_tokens: int = ..., cache: str = ..., too_long: str = ..., source_language: str = ...,
        target_language: str = ..., scores: bool = ..., parse_special: bool = ...,
    ) -> List[Translation]: ...
    @overload
    def translate(
        self, text: Iterable[str], *, beam: int = ..., n_best: int = ..., length_penalty: Optional[float] = ...,
        gnmt: bool = ..., length_reward: float = ..., length_factor: Optional[float] = ..., max_length: int = ...,
        min_length: int = ..., batch_tokens: int = ..., cache: str = ..., too_long: str = ..., source_language: str = ...,
        target_language: str = ..., scores: bool = ..., parse_special: bool = ...,
    ) -> List[List[Translation]]: ...

    def translate(
        self,
        text: Union[str, Iterable[str]],
        *,
        beam: int = 5,
        n_best: int = 1,
        length_penalty: Optional[float] = None,
        gnmt: bool = False,
        length_reward: float = 0.0,
        length_factor: Optional[float] = None,
        max_length: int = 256,
        min_length: int = 0,
        batch_tokens: int = 0,
        cache: str = "float32",
        too_long: str = "refuse",
        source_language: str = "",
        target_language: str = "",
        scores: bool = True,
        parse_special: bool = False,
    ) -> Union[List[Translation], List[List[Translation]]]:
        """The n_best translations of a text, the best first; of several texts, such a list for each.

        No translation depends on the others.

        beam: how many translations are kept while they are written; 1 is greedy search. n_best: how many are returned.
        length_penalty: translations are ranked by the sum of their log probabilities / length ** length_penalty; 1 where
            it is not given, or what the model's folder says. gnmt: they are divided by ((5 + length) / 6) **
            length_penalty instead (Wu et al. 2016, equation 14).
        length_reward: added to this for each token, so that longer translations win.
        max_length, min_length: tokens of a translation, at most and at least.
        length_factor: a translation has at most so many times the tokens of its text, plus 20, or min_length; 0 sets no
            such limit. Where it is not given: 2 for models that heed trained, 0 for others.
        batch_tokens: tokens of the texts in one batch, times the beam. It changes no result; 0 chooses it.
        cache: the type of the keys and values that are kept between tokens: float32, bfloat16, float16 or int8.
        too_long: what happens to a text of more tokens than the model reads. "refuse" raises ValueError; "cut" reads the
            beginning, with a warning; "split" cuts the text where sentences end, and joins the translations.
        source_language, target_language: of models of several languages, as the vocabulary names them: "fra_Latn",
            "fr_XX" or "fr".
        scores: False where scores and log probabilities are not needed. They are NaN and empty then, and greedy search
            finds the same text in less time.
        parse_special: special tokens in a text ("<extra_id_0>" of T5) are read as tokens, not as plain text.
        """
        one = isinstance(text, str)
        texts = [_checks.text("translate", text)] if one else _checks.texts("translate", text)
        _checks.integers("translate", beam=beam, n_best=n_best, max_length=max_length, min_length=min_length,
                      batch_tokens=batch_tokens)
        _checks.booleans("translate", gnmt=gnmt, scores=scores, parse_special=parse_special)
        _checks.floats("translate", length_reward=length_reward)
        if length_penalty is not None:
            _checks.floats("translate", length_penalty=length_penalty)
        if length_factor is not None:
            _checks.floats("translate", length_factor=length_factor)
        _checks.strings("translate", cache=cache, too_long=too_long, source_language=source_language,
                      target_language=target_language)
        if 1 <= max_length < min_length:  # (a max_length below 1 is refused below)
            raise ValueError(f"[translate] min_length of at most max_length, {max_length}; found {min_length}")
        found = self._model.translate(
            texts, beam, n_best, length_penalty, gnmt, length_reward, length_factor, max_length, min_length, batch_tokens,
            cache, too_long, source_language, target_language, scores, parse_special,
        )
        all_translations = [[Translation(*one) for one in translations] for translations in found]
        return all_translations[0] if one else all_translations

    @staticmethod
    def _check_attention(
        function: str, text: str, target: Optional[str], beam: int, source_language: str, target_language: str
    ) -> None:
        _checks.text(function, text)
        if target is not None:
            _checks.text(function, target, "target")
        _checks.integers(function, beam=beam)
        _checks.strings(function, source_language=source_language, target_language=target_language)

    def attention(
        self,
        text: str,
        target: Optional[str] = None,
        *,
        beam: int = 5,
        source_language: str = "",
        target_language: str = "",
    ) -> Attention:
        """Who attends to whom while the model says `target`, or its own translation. Languages: as in translate()."""
        self._check_attention("attention", text, target, beam, source_language, target_language)
        return Attention(self._model.record(text, target, beam, source_language, target_language, False))

    def attention_page(
        self,
        text: str,
        target: Optional[str] = None,
        *,
        beam: int = 5,
        source_language: str = "",
        target_language: str = "",
    ) -> str:
        """An HTML page: who attends to whom while the model says `target`, or its own translation."""
        self._check_attention("attention_page", text, target, beam, source_language, target_language)
        return self._model.record(text, target, beam, source_language, target_language, True).page()


class _Reader(_Pipeline):
    """A model whose attention over a text needs no second text."""

    _model: Union[_heed.Generator, _heed.Encoder]

    def attention(self, text: str) -> Attention:
        """Who attends to whom while the model reads `text`."""
        _checks.text("attention", text)
        return Attention(self._model.record(text, False))

    def attention_page(self, text: str) -> str:
        """An HTML page: who attends to whom while the model reads `text`."""
        _checks.text("attention_page", text)
        return self._model.record(text, True).page()


class Generator(_Reader):
    """A decoder-only model that continues texts. The same seed gives the same text."""

    _model: _heed.Generator

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        super().__init__(folder, weights=weights)
        self._model = _heed.Generator(self.folder, weights)

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._of(self._model.tokenizer(), self.folder, "target")

    def save(self, folder: Path, *, layout: str = "same", overwrite: bool = False) -> None:
        """Writes a folder that heed.load() reads: see Encoder.save(). In Hugging Face's layout: a GPT-2 or an MPT."""
        _save(self._model, self.folder, folder, layout, overwrite)

    def generate(
        self,
        prompt: str = "",
        *,
        max_tokens: int = 256,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int = 0,
        ignore_end: bool = False,
        cache: str = "float32",
        on_text: Optional[Callable[[str], Any]] = None,
    ) -> Generation:
        """What follows the prompt. The same seed gives the same text.

        If the prompt is longer than the model's window, its end is read, with a warning. An empty prompt begins a text.

        max_tokens: how many tokens to write at most.
        temperature: divides the logits: below 1 likely tokens become likelier. 0 always takes the likeliest one.
        top_k: draws among the k likeliest tokens; 0: among all.
        top_p: draws among the smallest set of tokens whose probabilities sum to top_p (nucleus sampling).
        min_p: draws among tokens with at least this share of the likeliest one's probability.
        seed: from 0 to 2^64 - 1.
        ignore_end: go on where the model ends the text.
        cache: the type of the keys and values that are kept between tokens: float32, bfloat16, float16 or int8.
        on_text: gets the text piece by piece as it is made. If it returns False, the text ends.
        """
        _checks.text("generate", prompt, "prompt")
        _checks.integers("generate", max_tokens=max_tokens, top_k=top_k)
        _checks.floats("generate", temperature=temperature, top_p=top_p, min_p=min_p)
        _checks.strings("generate", cache=cache)
        _checks.booleans("generate", ignore_end=ignore_end)
        _checks.callbacks("generate", on_text=on_text)
        _checks.seed("generate", seed)
        return Generation(
            *self._model.generate(
                prompt, max_tokens, temperature, top_k, top_p, min_p, seed, ignore_end, cache, on_text
            )
        )


class Encoder(_Reader):
    """An encoder-only model: text in, vectors, classes or missing words out.

    Its functions take too_long: "refuse" raises ValueError for a text of more tokens than the model reads, and "cut"
    reads the beginning, with a warning. batch_tokens: tokens in a batch at most. It changes no result; 0 chooses it.
    """

    _model: _heed.Encoder

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        super().__init__(folder, weights=weights)
        self._model = _heed.Encoder(self.folder, weights)
        self.labels: List[str] = self._model.labels()
        self.prompts: List[str] = self._model.prompts()
        self.mask_token: str = self._model.mask_token()
        self.embedding_size: int = self._model.embedding_size()
        self.longest: int = self._model.longest()  # the most tokens of a text, special ones included
        self.token_types: int = self._model.token_types()

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._of(self._model.tokenizer(), self.folder, "source")

    def save(self, folder: Path, *, layout: str = "same", overwrite: bool = False) -> None:
        """Writes a folder that heed.load() reads and that gives the same bits: weights, configuration, tokenizer.

        layout: "same" as it was loaded, "heed", or "huggingface", in which transformers reads it: a model of heed's own
        training is a BERT there. Weights that were loaded as int8 are written as int8, which transformers does not read,
        and those loaded as bfloat16 as the rounded numbers that they are. overwrite: the folder may have files in it.
        """
        _save(self._model, self.folder, folder, layout, overwrite)

    def encode(self, text: str, *, too_long: str = "refuse", parse_special: bool = False) -> Encoding:
        """The states of one text, a row for each token."""
        _checks.text("encode", text)
        _checks.refuse_or_cut("encode", too_long)
        _checks.booleans("encode", parse_special=parse_special)
        return Encoding(*self._model.encode(text, too_long, 0, bool(parse_special), True))

    def embed(
        self, texts: Iterable[str], *, batch_tokens: int = 0, too_long: str = "refuse",
        prompt: Optional[str] = None, parse_special: bool = False,
    ) -> npt.NDArray[np.float32]:
        """(number of texts, embedding_size) float32: what the folder's modules.json describes, or the mean of the states.

        No row depends on the other texts. `prompt` names one of `prompts`, whose text stands in front of each text.
        """
        rows = _checks.texts("embed", texts, "; embed([text]) gives its vector, and encode(text) the states of its tokens")
        _checks.integers("embed", batch_tokens=batch_tokens)
        _check_prompt("embed", prompt)
        _checks.refuse_or_cut("embed", too_long)
        _checks.booleans("embed", parse_special=parse_special)
        return self._model.embed(rows, batch_tokens, too_long, prompt or "", None, 0, None, bool(parse_special), True)

    def classify(
        self, texts: Iterable[Union[str, Tuple[str, str]]], *, batch_tokens: int = 0, too_long: str = "refuse",
        prompt: Optional[str] = None, parse_special: bool = False,
    ) -> List[Classification]:
        """The class of each text, or of each pair of texts. Models with a head for it have `labels`.

        `prompt` names one of `prompts`, whose text stands in front of each text, or of the first of a pair.
        """
        pairs = _checks.texts_or_pairs("classify", texts, "; classify([text])[0] gives its class")
        _checks.integers("classify", batch_tokens=batch_tokens)
        _check_prompt("classify", prompt)
        _checks.refuse_or_cut("classify", too_long)
        _checks.booleans("classify", parse_special=parse_special)
        found = self._model.classify(pairs, batch_tokens, too_long, prompt or "", bool(parse_special))
        return [Classification(*one) for one in found]

    def classify_tokens(self, text: str, *, too_long: str = "refuse", parse_special: bool = False) -> List[TokenClass]:
        """The class of each token, with its place in the text."""
        _checks.text("classify_tokens", text)
        _checks.refuse_or_cut("classify_tokens", too_long)
        _checks.booleans("classify_tokens", parse_special=parse_special)
        found = self._model.classify_tokens(text, too_long, bool(parse_special))
        return [TokenClass(*one) for one in found]

    def answer(
        self, question: str, passage: str, *, count: int = 1, longest_answer: int = 15, may_be_none: bool = False,
        window: int = 384, overlap: int = 128,
    ) -> List[Answer]:
        """The `count` best answers to the question: runs of whole words of the passage, each once.

        longest_answer: tokens of an answer. may_be_none: "there is no answer" is one of them, with the text "". A long
        passage is read in several windows: window is the number of tokens of the question and of the passage in one,
        overlap how many tokens two neighbours share. For models with a head for it (transformers' ForQuestionAnswering).
        """
        _checks.text("answer", question, "question")
        _checks.text("answer", passage, "passage")
        _checks.integers("answer", count=count, longest_answer=longest_answer, window=window, overlap=overlap)
        _checks.booleans("answer", may_be_none=may_be_none)
        found = self._model.answer(question, passage, count, longest_answer, bool(may_be_none), window, overlap)
        return [Answer(*one) for one in found]

    def fill(self, text: str, *, count: int = 5, too_long: str = "refuse") -> List[List[Filling]]:
        """The `count` likeliest tokens for each `mask_token` in the text."""
        _checks.text("fill", text)
        _checks.integers("fill", count=count)
        _checks.refuse_or_cut("fill", too_long)
        return [[Filling(*one) for one in place] for place in self._model.fill(text, count, too_long)]


def _check_prompt(function: str, prompt: Optional[str]) -> None:
    if prompt is not None:
        _checks.strings(function, prompt=prompt)
        if not prompt:
            raise ValueError(f"[{function}] the name of a prompt, or None for the model's own default; found an empty one")


def _save(
    model: Union[_heed.Translator, _heed.Generator, _heed.Encoder], source: str, folder: Path, layout: str,
    overwrite: bool,
) -> None:
    model.save(source, _new_folder("save", folder, layout, overwrite), layout)


def _new_folder(function: str, folder: Path, layout: str, overwrite: bool) -> str:
    to = _checks.path(function, folder)
    _checks.strings(function, layout=layout)
    _checks.booleans(function, overwrite=overwrite)
    if not overwrite and os.path.exists(to) and (not os.path.isdir(to) or os.listdir(to)):
        raise FileExistsError(f"[{function}] a new or empty folder, or overwrite=True; found files at {to}")
    return to


def _found(function: str, name: Path) -> str:
    """The folder of that name, or of "ORG/NAME" in Hugging Face's cache."""
    return os.fspath(_heed.find_model_folder(_checks.path(function, name, "a folder or ORG/NAME"), ""))


def load(name: Path, *, weights: str = "float32") -> Union[Translator, Generator, Encoder]:
    """The model of a folder, or "ORG/NAME" of one in Hugging Face's cache.

    weights="int8" computes with 8-bit weights, and "bfloat16" with 16-bit ones where the processor multiplies them.
    """
    folder = _found("load", name)
    kind = _heed.architecture_of(folder)
    if kind == "encoder_decoder":
        return Translator(folder, weights=weights)
    return Generator(folder, weights=weights) if kind == "decoder_only" else Encoder(folder, weights=weights)


def convert(
    name: Path, folder: Path, *, weights: str = "float32", layout: str = "same", tokenizers: Optional[Path] = None,
    overwrite: bool = False,
) -> None:
    """Writes a model anew: load(name, weights=weights).save(folder, layout=layout, overwrite=overwrite).

    This alone reads the older weights of PyTorch, too (pytorch_model.bin), and writes model.safetensors. Nothing in such
    a file is run, as torch.load() may do. It also reads translators of CTranslate2; tokenizers is the folder with their
    source.spm and target.spm if these lie elsewhere.
    """
    found = _found("convert", name)
    if _heed.is_ctranslate2_folder(found):
        _checks.strings("convert", weights=weights)
        place = "" if tokenizers is None else _checks.path("convert", tokenizers)
        to = _new_folder("convert", folder, layout, overwrite)
        return _heed.convert_ctranslate2(found, place, to, layout, weights)
    if tokenizers is not None:
        raise ValueError(f"[convert] no tokenizers for a model that is not of CTranslate2; found {tokenizers!r}")
    with _heed.PytorchAllowed():
        load(found, weights=weights).save(folder, layout=layout, overwrite=overwrite)
