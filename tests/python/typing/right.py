"""A program with types that are all right: mypy --strict has nothing to say."""

from __future__ import annotations

from typing import List

import numpy as np
import numpy.typing as npt

import heed


def entropy_of(query: npt.NDArray[np.float32]) -> float:
    result = heed.attention(query, query, query, causal=True, taps={"entropy": True, "top_k": 3})
    assert result.taps is not None and result.taps.entropy is not None
    return float(result.taps.entropy.mean())


def vectors_of(name: str, texts: List[str]) -> npt.NDArray[np.float32]:
    model = heed.load(name)
    if not isinstance(model, heed.Encoder):
        raise TypeError(name)
    return model.embed(texts, too_long="cut")


def converted(name: str, folder: str) -> None:
    heed.convert(name, folder, weights="int8", overwrite=True)


def best(translator: heed.Translator, text: str) -> str:
    return translator.translate(text, beam=2)[0].text


def all_best(translator: heed.Translator, texts: List[str]) -> List[str]:
    return [translations[0].text for translations in translator.translate(texts)]


def pieces(tokenizer: heed.Tokenizer, text: str) -> List[str]:
    found = tokenizer.encode(text)
    return [text[begin:end] for begin, end in found.offsets]


def show(progress: heed.Progress) -> None:
    if progress.valid_loss is not None:
        print(progress.update, round(progress.valid_loss, 3))


def trained(text: str, folder: str) -> heed.Generator:
    model = heed.train({"task": "language_model", "train_source": text}, folder, on_progress=show)
    assert isinstance(model, heed.Generator)
    return model
