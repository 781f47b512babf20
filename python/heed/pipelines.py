"""Text in, text out: a model paired with its tokenizers, loaded from a folder that `heed train` has written.

    translator = heed.Translator("demo/en-zh")
    print(translator.translate("Where is the station?")[0].text)
    open("page.html", "w").write(translator.attention_page("Where is the station?"))

A text that the model cannot read whole raises ValueError; too_long="cut" reads its beginning, with a warning. A text
that is mostly unknown to the model gives a warning. Ctrl-C stops between two tokens.
"""

from __future__ import annotations

import os
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

from . import _heed


class Translation(NamedTuple):
    text: str
    score: float  # what translations are ranked by: log probabilities, divided by length ** length_penalty
    finished: bool  # ended by itself, not by the limit of its length
    tokens: List[str]
    log_probs: List[float]  # of each token, and of the end where it was reached


class Generation(NamedTuple):
    text: str  # what follows the prompt
    finished: bool  # the model ended the text
    tokens: List[str]
    log_probs: List[float]  # of each token, and of the end where it was reached


class Encoding(NamedTuple):
    tokens: List[str]  # the first and the last are the begin and the end
    states: Any  # (L, E) float32


class Translator:
    """An encoder-decoder that reads one language and writes another."""

    def __init__(self, folder: Union[str, os.PathLike]) -> None:
        self._model = _heed.Translator(os.fspath(folder))

    def translate(
        self,
        text: Union[str, Sequence[str]],
        *,
        beam: int = 5,
        n_best: int = 1,
        length_penalty: float = 1.0,
        max_length: int = 256,
        min_length: int = 0,
        batch_tokens: int = 2048,
        cache: str = "float32",
        too_long: str = "refuse",
    ) -> Union[List[Translation], List[List[Translation]]]:
        """The n_best translations of a text, the best first; of several texts, such a list for each.

        No translation depends on the others. beam=1 is greedy search. `cache` is the type of the keys and values that
        are kept between tokens: float32, bfloat16, float16 or int8.
        """
        texts = [text] if isinstance(text, str) else list(text)
        found = self._model.translate(
            texts, beam, n_best, length_penalty, max_length, min_length, batch_tokens, cache, too_long
        )
        all_translations = [[Translation(*one) for one in translations] for translations in found]
        return all_translations[0] if isinstance(text, str) else all_translations

    def attention_page(self, text: str, target: Optional[str] = None, *, beam: int = 5) -> str:
        """An HTML page: who attends to whom while the model says `target`, or its own translation."""
        return self._model.attention_page(text, target, beam)


class Generator:
    """A decoder-only model that continues texts. The same seed gives the same text."""

    def __init__(self, folder: Union[str, os.PathLike]) -> None:
        self._model = _heed.Generator(os.fspath(folder))

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

    def attention_page(self, text: str) -> str:
        """An HTML page: who attends to whom while the model reads `text`."""
        return self._model.attention_page(text)


class Encoder:
    """An encoder-only model that turns texts into vectors."""

    def __init__(self, folder: Union[str, os.PathLike]) -> None:
        self._model = _heed.Encoder(os.fspath(folder))

    def encode(self, text: str, *, too_long: str = "refuse") -> Encoding:
        """The states of one text, a row for each token."""
        return Encoding(*self._model.encode(text, too_long))

    def embed(self, texts: Sequence[str], *, batch_tokens: int = 4096, too_long: str = "refuse") -> Any:
        """(number of texts, E) float32: the mean of each text's states. No row depends on the other texts."""
        if isinstance(texts, str):
            raise TypeError("[embed] a list of texts; found one text (encode() takes one)")
        return self._model.embed(list(texts), batch_tokens, too_long)

    def attention_page(self, text: str) -> str:
        """An HTML page: who attends to whom while the model reads `text`."""
        return self._model.attention_page(text)
