"""Training from Python: what `heed train` does, with the same recipes and the same bits.

    def show(p):
        print(p.update, p.loss, p.valid_loss)

    model = heed.train("recipes/first.toml", "runs/first", on_progress=show)
    model = heed.train({"task": "translation", "pairs": "pairs.tsv", "preset": "tiny", "max_updates": 200}, "runs/a")
    model = heed.train(recipe, "runs/b", start="demo/en-zh")      # goes on from another model's weights
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import tempfile
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Tuple, Union

import numpy as np

from . import _checks, _heed
from .pipelines import Encoder, Generator, Translator, load

__all__ = ["Progress", "recipe_keys", "train"]

Path = Union[str, "os.PathLike[str]"]
Recipe = Union[Path, Mapping[str, Any]]

_MOST_TABLES = 8  # one in another; a dict may contain itself


class Progress(NamedTuple):
    """A report of a training. Validations are reports of their own, in which valid_loss, valid_bleu or
    valid_accuracy is set, or valid_pearson and valid_spearman."""

    update: int
    epoch: int
    max_updates: int
    loss: float  # mean a target token since the last report, smoothing included
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float  # target tokens
    seconds: float  # since the start of the training, earlier runs included
    valid_loss: Optional[float]  # without smoothing, nats a token
    valid_bleu: Optional[float]
    valid_accuracy: Optional[float]  # of tasks that tell classes or pairs, from 0 to 1
    best: bool  # the best validation so far
    valid_pearson: Optional[float] = None  # of tasks that score texts or pairs, from -1 to 1
    valid_spearman: Optional[float] = None


def recipe_keys() -> List[str]:
    """Every key of a recipe: "schedule.peak" is `peak` in the table `schedule`."""
    return _heed.recipe_keys()


def _plain(value: Any) -> Any:
    """What JSON has no form for: paths, and numbers of NumPy."""
    if hasattr(value, "item"):
        return value.item()
    if isinstance(value, os.PathLike):
        return _checks.text("train", _checks.path("train", value, "a file"), "the name of a file")
    raise TypeError(f"[train] keys of a recipe that are numbers, strings, lists or tables; found {_checks.found(value)}")


def _check_key(key: Any, table: str) -> None:
    _checks.text("train", key, "a key of a recipe")
    if table.count(".") > _MOST_TABLES:
        raise ValueError(f"[train] tables nested at most {_MOST_TABLES} deep; found more, at {key}")


def _checked(recipe: Any, key: str = "recipe", level: int = 0) -> Any:
    """The recipe as it is. ValueError for a string that is no UTF-8, as names of folders may be, and for what is no
    number."""
    if isinstance(recipe, (float, np.floating)) and not math.isfinite(recipe):
        raise ValueError(f"[train] {key}: a finite number; found {recipe}")
    if isinstance(recipe, str):
        return _checks.text("train", recipe, key)
    if level > _MOST_TABLES:
        raise ValueError(f"[train] tables nested at most {_MOST_TABLES} deep; found more, at {key}")
    if isinstance(recipe, Mapping):
        return {name: _checked(value, str(name), level + 1) for name, value in recipe.items()}
    return [_checked(value, key, level + 1) for value in recipe] if isinstance(recipe, (list, tuple)) else recipe


def _flat(changes: Mapping[str, Any], table: str = "") -> List[Tuple[str, str]]:
    flat: List[Tuple[str, str]] = []
    for key, value in changes.items():
        _check_key(key, table)
        if isinstance(value, Mapping):
            flat += _flat(value, f"{table}{key}.")
        elif isinstance(value, (str, os.PathLike)):
            flat.append((table + key, _checks.text("train", os.fspath(value), table + key)))
        else:
            flat.append((table + key, json.dumps(value, default=_plain)))
    return flat


def train(
    recipe: Optional[Recipe],
    folder: Path,
    *,
    start: Optional[Path] = None,
    changes: Optional[Mapping[str, Any]] = None,
    data: Optional[Path] = None,
    resume: bool = False,
    on_progress: Optional[Callable[[Progress], Any]] = None,
    on_message: Optional[Callable[[str], Any]] = None,
) -> Union[Translator, Generator, Encoder]:
    """Trains what a recipe says into a folder, and returns the model that came out: heed.load(folder).

    recipe: a file, .toml or .json, or a dict with the same keys and tables (recipe_keys() lists them). start: the folder
    or the name of a model whose weights and tokenizers the training goes on from, as `heed train --from`. changes: keys
    that replace the recipe's. data: where relative paths of the recipe start; otherwise at the recipe's file, or at the
    current folder. resume: goes on from the last checkpoint in `folder`; the recipe may then be None.

    on_progress gets a Progress every `log_every` updates and at each validation; on_message gets lines of text. Both are
    called in the thread that called train(). Ctrl-C, and an exception of theirs, ends the training after the current
    update, with a checkpoint, and is raised; resume=True then goes on with the same bits. The GIL is released.
    """
    _checks.booleans("train", resume=resume)
    _checks.callbacks("train", on_progress=on_progress, on_message=on_message)
    if changes is not None and not isinstance(changes, Mapping):
        raise TypeError(f"[train] changes as a dict of a recipe's keys; found {_checks.found(changes)}")
    keys = dict(changes or {})
    if start is not None:
        if "from" in keys or (isinstance(recipe, Mapping) and "from" in recipe):
            raise TypeError("[train] start, or the recipe's key \"from\"; found both")
        keys["from"] = _checks.path("train", start, "start")
    # The task and the preset decide what the model's keys change, so they come first.
    flat = sorted(_flat(keys), key=lambda change: change[0] not in ("task", "preset"))

    def progress(found: Tuple[Any, ...]) -> None:
        if on_progress is not None:
            on_progress(Progress(*found))

    into = _checks.path("train", folder)
    root = "" if data is None else _checks.path("train", data, "data")
    if isinstance(recipe, Mapping):
        _train_dict(recipe, into, root or ".", resume, flat, progress, on_message)
    elif recipe is None and not resume:
        raise TypeError("[train] a recipe; found None, which only goes with resume=True")
    else:
        file = "" if recipe is None else _checks.path("train", recipe, "a recipe")
        _heed.train(file, root, into, resume, flat, progress, on_message)
    return load(into)


def _train_dict(
    recipe: Mapping[str, Any], folder: str, data: str, resume: bool, changes: List[Tuple[str, str]],
    progress: Callable[[Tuple[Any, ...]], None], on_message: Optional[Callable[[str], Any]],
) -> None:
    """As the file that the dict is the content of; errors name the dict."""
    with tempfile.TemporaryDirectory() as scratch:
        file = pathlib.Path(scratch) / "recipe.json"
        file.write_text(json.dumps(_checked(dict(recipe)), default=_plain), encoding="utf-8")
        try:
            _heed.train(str(file), data, folder, resume, changes, progress, on_message)
        except ValueError as error:
            if str(file) not in str(error):
                raise
            raise ValueError(str(error).replace(str(file), "the recipe")) from None
