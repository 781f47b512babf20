"""Text in, text out: a model paired with its tokenizers, loaded from a folder of heed or of Hugging Face.

    model = heed.load("demo/en-zh")                                     # a Translator, a Generator or an Encoder
    print(model.translate("Where is the station?")[0].text)
    model.attention("Where is the station?")                            # shows itself in a notebook
    heed.load("sentence-transformers/all-MiniLM-L6-v2").embed(texts)    # what Hugging Face's tools have downloaded

A text that the model cannot read whole raises ValueError; too_long="cut" reads its beginning, with a warning. A text
that is mostly unknown to the model gives a warning. Ctrl-C stops between two tokens.
"""

from __future__ import annotations

import html
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union, overload

import numpy as np
import numpy.typing as npt

from . import _heed
from .tokenizers import Tokenizer

__all__ = [
    "Attention", "Classification", "Encoder", "Encoding", "Filling", "Generation", "Generator", "Picture", "TokenClass",
    "Translation", "Translator", "load",
]

Path = Union[str, "os.PathLike[str]"]


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

    def __init__(
        self, page: str, source_tokens: List[str], target_tokens: List[str], output_tokens: List[str],
        weights: Dict[str, npt.NDArray[np.float32]],
    ) -> None:
        self.page = page
        self.source_tokens = source_tokens
        self.target_tokens = target_tokens
        self.output_tokens = output_tokens
        self.weights = weights

    def picture(self, layer: str, head: Optional[int] = None) -> Picture:
        """The weights of a layer, one of the names in `weights`: of a head, from 0, or the mean of all heads."""
        if layer not in self.weights:
            raise KeyError(f"[picture] a layer, one of {', '.join(self.weights)}; found {layer}")
        weights = self.weights[layer]
        if head is not None and not 0 <= head < len(weights):
            raise IndexError(f"[picture] a head from 0 to {len(weights) - 1}; found {head}")
        encoder = layer.startswith("encoder") or not self.target_tokens
        rows = self.source_tokens if encoder else self.target_tokens
        columns = self.source_tokens if encoder or "cross" in layer else self.target_tokens
        title = f"{layer}, {'mean of the heads' if head is None else f'head {head}'}"
        one = weights.mean(axis=0) if head is None else weights[head]
        return Picture(_heed.attention_svg(one, rows, columns, title), title)

    def _repr_html_(self) -> str:
        escaped = html.escape(self.page, quote=True)
        return f'<iframe srcdoc="{escaped}" sandbox="allow-scripts" style="width:100%;height:720px;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Attention({len(self.weights)} layers, {len(self.source_tokens or self.target_tokens)} tokens)"


class Encoding(NamedTuple):
    tokens: List[str]  # with those that stand around the text ("[CLS]", "</s>")
    states: npt.NDArray[np.float32]  # (L, E)


class Translator:
    """An encoder-decoder that reads one language and writes another."""

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        self.folder = _heed.find_model_folder(os.fspath(folder))
        self._model = _heed.Translator(self.folder, weights)

    @property
    def tokenizer(self) -> Tokenizer:
        """Of the language that is read."""
        return Tokenizer._of(self._model.source_tokenizer())

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Of the language that is written."""
        return Tokenizer._of(self._model.target_tokenizer())

    def save(self, folder: Path, *, layout: str = "same", overwrite: bool = False) -> None:
        """Writes a folder that heed.load() reads: see Encoder.save(). In Hugging Face's layout it is a Marian."""
        _save(self._model, self.folder, folder, layout, overwrite)

    @overload
    def translate(  # type: ignore[misc]  # a str is a sequence of str as well
        self, text: str, *, beam: int = ..., n_best: int = ..., length_penalty: Optional[float] = ...,
        length_reward: float = ..., max_length: int = ..., min_length: int = ..., batch_tokens: int = ..., cache: str = ..., too_long: str = ...,
        source_language: str = ..., target_language: str = ...,
    ) -> List[Translation]: ...
    @overload
    def translate(
        self, text: Sequence[str], *, beam: int = ..., n_best: int = ..., length_penalty: Optional[float] = ...,
        length_reward: float = ..., max_length: int = ..., min_length: int = ..., batch_tokens: int = ..., cache: str = ..., too_long: str = ...,
        source_language: str = ..., target_language: str = ...,
    ) -> List[List[Translation]]: ...

    def translate(
        self,
        text: Union[str, Sequence[str]],
        *,
        beam: int = 5,
        n_best: int = 1,
        length_penalty: Optional[float] = None,
        length_reward: float = 0.0,
        max_length: int = 256,
        min_length: int = 0,
        batch_tokens: int = 0,
        cache: str = "float32",
        too_long: str = "refuse",
        source_language: str = "",
        target_language: str = "",
    ) -> Union[List[Translation], List[List[Translation]]]:
        """The n_best translations of a text, the best first; of several texts, such a list for each.

        Models of several languages are told by the names that their vocabularies have: "fra_Latn", "fr_XX", "fr".

        No translation depends on the others. beam=1 is greedy search. `cache` is the type of the keys and values that
        are kept between tokens: float32, bfloat16, float16 or int8. `length_penalty` is 1 where it is not given, or what
        the model's folder says.
        """
        texts = [text] if isinstance(text, str) else list(text)
        found = self._model.translate(
            texts, beam, n_best, length_penalty, length_reward, max_length, min_length, batch_tokens, cache, too_long,
            source_language, target_language,
        )
        all_translations = [[Translation(*one) for one in translations] for translations in found]
        return all_translations[0] if isinstance(text, str) else all_translations

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
        return Attention(*self._model.attention(text, target, beam, source_language, target_language))

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
        return self._model.attention_page(text, target, beam, source_language, target_language)


class Generator:
    """A decoder-only model that continues texts. The same seed gives the same text."""

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        self.folder = _heed.find_model_folder(os.fspath(folder))
        self._model = _heed.Generator(self.folder, weights)

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._of(self._model.tokenizer())

    def save(self, folder: Path, *, layout: str = "same", overwrite: bool = False) -> None:
        """Writes a folder that heed.load() reads: see Encoder.save(). In Hugging Face's layout it is a GPT-2."""
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
        """What follows the prompt. temperature=0 always takes the likeliest token.

        `on_text` gets the text piece by piece as it is made. `ignore_end` goes on where the model ends the text. `cache`
        is the type of the keys and values that are kept between tokens: float32, bfloat16, float16 or int8.
        """
        return Generation(
            *self._model.generate(
                prompt, max_tokens, temperature, top_k, top_p, min_p, seed, ignore_end, cache, on_text
            )
        )

    def attention(self, text: str) -> Attention:
        """Who attends to whom while the model reads `text`."""
        return Attention(*self._model.attention(text))

    def attention_page(self, text: str) -> str:
        """An HTML page: who attends to whom while the model reads `text`."""
        return self._model.attention_page(text)


class Encoder:
    """An encoder-only model: text in, vectors, classes or missing words out."""

    def __init__(self, folder: Path, *, weights: str = "float32") -> None:
        self.folder = _heed.find_model_folder(os.fspath(folder))
        self._model = _heed.Encoder(self.folder, weights)
        self.labels: List[str] = self._model.labels()
        self.prompts: List[str] = self._model.prompts()
        self.mask_token: str = self._model.mask_token()
        self.embedding_size: int = self._model.embedding_size()
        self.longest: int = self._model.longest()  # the most tokens of a text, special ones included
        self.token_types: int = self._model.token_types()

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._of(self._model.tokenizer())

    def save(self, folder: Path, *, layout: str = "same", overwrite: bool = False) -> None:
        """Writes a folder that heed.load() reads and that gives the same bits: weights, configuration, tokenizer.

        layout: "same" as it was loaded, "heed", or "huggingface", in which transformers reads it: a model of heed's own
        training is a BERT there. Weights that were loaded as int8 are always written in heed's layout, and those
        loaded as bfloat16 as the rounded numbers that they are. overwrite: the folder may have files in it.
        """
        _save(self._model, self.folder, folder, layout, overwrite)

    def encode(self, text: str, *, too_long: str = "refuse") -> Encoding:
        """The states of one text, a row for each token."""
        return Encoding(*self._model.encode(text, too_long, 0))

    def _states(self, text: str, too_long: str, longest: int) -> npt.NDArray[np.float32]:
        return self._model.encode(text, too_long, longest)[1]

    def embed(
        self, texts: Sequence[str], *, batch_tokens: int = 1024, too_long: str = "refuse", prompt: str = ""
    ) -> npt.NDArray[np.float32]:
        """(number of texts, embedding_size) float32: what the folder's modules.json describes, or the mean of the states.

        No row depends on the other texts. `prompt` names one of `prompts`, whose text stands in front of each text.
        """
        if isinstance(texts, str):
            raise TypeError("[embed] a list of texts; found one text (encode() takes one)")
        return self._model.embed(list(texts), batch_tokens, too_long, prompt, None, 0, None)

    def classify(
        self, texts: Sequence[Union[str, Tuple[str, str]]], *, batch_tokens: int = 1024, too_long: str = "refuse"
    ) -> List[Classification]:
        """The class of each text, or of each pair of texts. Models with a head for it have `labels`."""
        if isinstance(texts, str):
            raise TypeError("[classify] a list of texts or pairs; found one text")
        pairs = [(text, None) if isinstance(text, str) else (text[0], text[1]) for text in texts]
        return [Classification(*one) for one in self._model.classify(pairs, batch_tokens, too_long)]

    def classify_tokens(self, text: str, *, too_long: str = "refuse") -> List[TokenClass]:
        """The class of each token, with its place in the text."""
        found = self._model.classify_tokens(text, too_long)
        return [TokenClass(*one) for one in found]

    def fill(self, text: str, *, count: int = 5, too_long: str = "refuse") -> List[List[Filling]]:
        """The `count` likeliest tokens for each `mask_token` in the text."""
        return [[Filling(*one) for one in place] for place in self._model.fill(text, count, too_long)]

    def attention(self, text: str) -> Attention:
        """Who attends to whom while the model reads `text`."""
        return Attention(*self._model.attention(text))

    def attention_page(self, text: str) -> str:
        """An HTML page: who attends to whom while the model reads `text`."""
        return self._model.attention_page(text)


def _save(
    model: Union[_heed.Translator, _heed.Generator, _heed.Encoder], source: str, folder: Path, layout: str,
    overwrite: bool,
) -> None:
    to = os.fspath(folder)
    if not overwrite and os.path.exists(to) and (not os.path.isdir(to) or os.listdir(to)):
        raise FileExistsError(f"[save] a new or empty folder, or overwrite=True; found files at {to}")
    model.save(source, to, layout)


def load(name: Path, *, weights: str = "float32") -> Union[Translator, Generator, Encoder]:
    """The model of a folder, or "ORG/NAME" of one in Hugging Face's cache.

    weights="int8" computes with 8-bit weights, and "bfloat16" with 16-bit ones where the processor multiplies them.
    """
    folder = _heed.find_model_folder(os.fspath(name))
    kind = _heed.architecture_of(folder)
    if kind == "encoder_decoder":
        return Translator(folder, weights=weights)
    return Generator(folder, weights=weights) if kind == "decoder_only" else Encoder(folder, weights=weights)
