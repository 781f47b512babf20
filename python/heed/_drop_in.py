"""What the classes share that stand in place of sentence-transformers' own."""

from __future__ import annotations

import json
import os
import pathlib
import warnings
from typing import Any, Dict, Mapping, Optional, TypeVar, Union

from . import _checks, _heed
from .pipelines import Encoder
from .tokenizers import Tokenizer


def refuse(function: str, **given: Any) -> None:
    """What would change the result, and heed does not do."""
    for name, value in given.items():
        if value is not None and value is not False and value != {}:
            raise ValueError(f"[{function}] no {name}, which heed does not have; found {value!r}")


def check_device(function: str, device: Any) -> None:
    for one in device if isinstance(device, (list, tuple)) else [device]:
        if one is not None and str(one).partition(":")[0] != "cpu":
            raise ValueError(f'[{function}] device "cpu", because heed computes on processors; found "{one}"')


def import_torch(function: str, what: str) -> Any:
    try:
        import torch
    except ImportError:
        raise ImportError(f"[{function}] PyTorch, for {what}; found none installed") from None
    return torch


def tensor_where_torch_is(array: Any) -> Any:
    try:
        import torch
    except ImportError:
        return array
    return torch.from_numpy(array)


def read_settings(file: pathlib.Path) -> Dict[str, Any]:
    """A JSON object; an empty one where the file is absent or holds something else."""
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return found if isinstance(found, dict) else {}


class Bar:
    """A progress bar of tqdm, where one is asked for and tqdm is installed."""

    def __init__(self, wanted: Optional[bool], total: int, what: str, depth: int = 4) -> None:
        self._bar: Any = None
        if not wanted:
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            warnings.warn("no progress bar: tqdm is not installed", stacklevel=depth)
        else:
            self._bar = tqdm(total=total, desc=what)

    def __call__(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def __enter__(self) -> "Optional[Bar]":
        return self if self._bar is not None else None

    def __exit__(self, *unused: Any) -> None:
        if self._bar is not None:
            self._bar.close()


# Models on the hub that belong to no organisation: sentence-transformers adds none to these names.
_WITHOUT_ORGANISATION = frozenset("""
    bert-base-cased bert-base-cased-finetuned-mrpc bert-base-chinese bert-base-german-cased
    bert-base-german-dbmdz-cased bert-base-german-dbmdz-uncased bert-base-multilingual-cased
    bert-base-multilingual-uncased bert-base-uncased bert-large-cased bert-large-cased-whole-word-masking
    bert-large-cased-whole-word-masking-finetuned-squad bert-large-uncased bert-large-uncased-whole-word-masking
    bert-large-uncased-whole-word-masking-finetuned-squad camembert-base distilbert-base-cased
    distilbert-base-cased-distilled-squad distilbert-base-german-cased distilbert-base-multilingual-cased
    distilbert-base-uncased distilbert-base-uncased-distilled-squad distilbert-base-uncased-finetuned-sst-2-english
    distilroberta-base roberta-base roberta-base-openai-detector roberta-large roberta-large-mnli
    roberta-large-openai-detector t5-11b t5-3b t5-base t5-large t5-small xlm-roberta-base xlm-roberta-large
    xlm-roberta-large-finetuned-conll02-dutch xlm-roberta-large-finetuned-conll02-spanish
    xlm-roberta-large-finetuned-conll03-english xlm-roberta-large-finetuned-conll03-german
    """.split())


class ModelCardData:
    """Where the evaluators of sentence-transformers leave what they measured. heed writes no model cards."""

    def set_evaluation_metrics(self, *unused: Any, **also_unused: Any) -> None:
        pass


Model = TypeVar("Model", bound="DropIn")


class DropIn:
    """A model of a folder, with the prompts and the limit that its files name."""

    encoder: Encoder
    _KIND: str  # what config_sentence_transformers.json calls it

    def _load(
        self,
        name_or_path: Union[str, "os.PathLike[str]"],
        organisation: str,
        prompts: Optional[Mapping[str, str]],
        default_prompt_name: Optional[str],
        weights: str,
        cache_folder: Optional[str],
        *usual_prompts: str,
    ) -> Dict[str, Any]:
        """Fills what all have in common, and gives config_sentence_transformers.json. It is read where there are modules,
        of a model of this kind: sentence-transformers takes only the Transformer of one of the other kind.

        usual_prompts: what sentence-transformers calls prompts without a text, where nobody names others.
        """
        kind = type(self).__name__
        name = _checks.path(kind, name_or_path, "a folder or ORG/NAME")
        if "/" not in name and name not in _WITHOUT_ORGANISATION and not os.path.exists(name):
            name = f"{organisation}/{name}"
        cache = os.getenv("SENTENCE_TRANSFORMERS_HOME", "")
        if cache_folder is not None:
            cache = _checks.path(kind, cache_folder, "cache_folder")
        folder = pathlib.Path(_heed.find_model_folder(name, os.path.expanduser(cache)))
        self.encoder = Encoder(folder, weights=weights)
        self._has_modules = (folder / "modules.json").exists()
        self.model_card_data = ModelCardData()
        settings = read_settings(folder / "config_sentence_transformers.json") if self._has_modules else {}
        if settings.get("model_type", "SentenceTransformer") != self._KIND:
            settings = {}
        self._own_prompts = {**dict.fromkeys(usual_prompts, ""), **(settings.get("prompts") or {})}
        self._own_default_prompt: Optional[str] = settings.get("default_prompt_name")
        self.prompts: Dict[str, str] = {**self._own_prompts, **(prompts or {})}
        self.default_prompt_name = self._own_default_prompt if default_prompt_name is None else default_prompt_name
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            raise ValueError(f'[{kind}] default_prompt_name: {self._names()}; found "{self.default_prompt_name}"')
        self._longest = self.encoder.longest
        # "[SEP]" in a text is the special token there. The tokenizers of heed's own models know no such thing.
        try:
            self.encoder.encode("", parse_special=True)
            self._parses_special = True
        except ValueError:
            self._parses_special = False
        return settings

    def _names(self) -> str:
        return f"one of {', '.join(self.prompts)}" if self.prompts else "none, because the model has no prompts"

    def _prompt(self, function: str, prompt: Optional[str], prompt_name: Optional[str]) -> str:
        if prompt is not None:
            return _checks.text(function, prompt, "prompt")
        name = self.default_prompt_name if prompt_name is None else prompt_name
        if name is not None and name not in self.prompts:
            raise ValueError(f'[{function}] prompt_name: {self._names()}; found "{name}"')
        return "" if name is None else _checks.text(function, self.prompts[name], f'the prompt "{name}"')

    @property
    def tokenizer(self) -> Tokenizer:
        return self.encoder.tokenizer

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def max_seq_length(self) -> int:
        """Longer texts are cut to so many tokens, special ones included. At most as many as the model has positions."""
        return self._longest

    @max_seq_length.setter
    def max_seq_length(self, value: int) -> None:
        _checks.integers("max_seq_length", value=value)
        most = self.encoder._model.positions()
        if not 3 <= value <= most:
            raise ValueError(f"[max_seq_length] 3 to {most} tokens; found {value}")
        self._longest = int(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoder.folder!r})"

    def eval(self: Model) -> Model:
        return self

    def to(self: Model, device: Any) -> Model:
        check_device("to", device)
        return self
