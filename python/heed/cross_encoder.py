"""CrossEncoder with the arguments of sentence-transformers 6, computed by heed: it reads two texts together and scores them.

    model = heed.CrossEncoder("cross-encoder/ms-marco-MiniLM-L6-v2")
    scores = model.predict([("a question", "a passage"), ("a question", "another")])
    best = model.rank("a question", passages, top_k=3, return_documents=True)

What is not done as there is refused, as heed.SentenceTransformer does.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _checks
from ._drop_in import Bar, DropIn, check_device, import_torch, read_settings, refuse

__all__ = ["CrossEncoder"]

_Floats = npt.NDArray[np.float32]


def _is_torch_name(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("torch.")


def _identity(logits: _Floats) -> _Floats:
    return logits


def _sigmoid(logits: _Floats) -> _Floats:
    return np.asarray(np.exp(-np.logaddexp(0.0, -logits.astype(np.float64))), np.float32)


def _softmax(scores: _Floats) -> _Floats:
    powers = np.exp(scores.astype(np.float64) - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float32)


class CrossEncoder(DropIn):
    """A model that scores pairs of texts. Each score has the bits that it has alone, so no batch size changes it."""

    _KIND = "CrossEncoder"
    _activation: Callable[[Any], Any]
    _own_activation: Optional[Callable[[Any], Any]]  # that of the folder, unless an argument took its place

    def __init__(
        self,
        model_name_or_path: Union[str, "os.PathLike[str]"],
        *,
        modules: Any = None,
        device: Any = None,
        prompts: Optional[Mapping[str, str]] = None,
        default_prompt_name: Optional[str] = None,
        cache_folder: Optional[str] = None,
        trust_remote_code: bool = False,
        revision: Optional[str] = None,
        local_files_only: bool = False,
        token: Any = None,
        model_kwargs: Optional[Dict[str, Any]] = None,
        processor_kwargs: Optional[Dict[str, Any]] = None,
        config_kwargs: Optional[Dict[str, Any]] = None,
        model_card_data: Any = None,
        backend: str = "torch",
        num_labels: Optional[int] = None,
        max_length: Optional[int] = None,
        activation_fn: Optional[Callable[[Any], Any]] = None,
        keep_in_fp32_modules: Optional[List[str]] = None,
        default_activation_function: Optional[Callable[[Any], Any]] = None,
        weights: str = "float32",
    ) -> None:
        """A folder, or a name in Hugging Face's cache, of a model that tells classes of texts.

        weights="int8" computes with 8-bit weights, and "bfloat16" with 16-bit ones where the processor multiplies them.

        activation_fn makes scores of logits; it gets and returns tensors of PyTorch. Without one it is what the folder
        says, else the sigmoid for one label and nothing for several. default_activation_function is its older name.
        Nothing is downloaded and no code of a model is run, so trust_remote_code, local_files_only, token and
        model_card_data have no effect; nor has keep_in_fp32_modules, because the output layer is computed in float32. backend
        says who computes, and must be left alone.
        """
        refuse("CrossEncoder", modules=modules, revision=revision, model_kwargs=model_kwargs,
               processor_kwargs=processor_kwargs, config_kwargs=config_kwargs,
               backend=None if backend == "torch" else backend)
        check_device("CrossEncoder", device)
        self._settings = self._load(model_name_or_path, "cross-encoder", prompts, default_prompt_name, weights,
                                    cache_folder)
        self.encoder._model.class_logits([], "", 0, None, False)  # raises ValueError unless it tells classes of texts
        if num_labels is not None:
            _checks.integers("CrossEncoder", num_labels=num_labels)
        if num_labels is not None and num_labels != self.num_labels:
            raise ValueError(f"[CrossEncoder] num_labels of {self.num_labels}, as the model has; found {num_labels}")
        if max_length is not None:
            _checks.integers("CrossEncoder", max_length=max_length)
            self.max_seq_length = max_length
        given = default_activation_function if activation_fn is None else activation_fn
        self.activation_fn = self._activation_of_folder() if given is None else given
        self._own_activation = self._activation if given is None else None

    def _activation_of_folder(self) -> Callable[[Any], Any]:
        name: Any = self._settings.get("activation_fn")
        config = read_settings(pathlib.Path(self.encoder.folder) / "config.json")
        if not _is_torch_name(name):  # sentence-transformers imports nothing but PyTorch's
            own = config.get("sentence_transformers")
            if not isinstance(own, dict) or "activation_fn" not in own:
                own = {"activation_fn": config.get("sbert_ce_default_activation_function")}  # before version 4
            name = own["activation_fn"]
        if _is_torch_name(name):
            for known, function in (("Identity", _identity), ("Sigmoid", _sigmoid)):
                if name.endswith("." + known):
                    return function
            raise ValueError(f"[CrossEncoder] Sigmoid or Identity as activation_fn of the folder, or another one as an "
                             f"argument; found {name}")
        is_plain = config.get("scores") == "raw"  # in heed's own layout
        return _sigmoid if self.num_labels == 1 and not is_plain else _identity

    @property
    def activation_fn(self) -> Any:
        return self._activation

    @activation_fn.setter
    def activation_fn(self, value: Any) -> None:
        """None leaves the logits as they are."""
        self._activation = _identity if value is None else self._callable("activation_fn", value)

    @property
    def default_activation_function(self) -> Any:
        """The older name of activation_fn."""
        return self._activation

    @staticmethod
    def _callable(function: str, value: Any) -> Callable[[Any], Any]:
        if not callable(value):
            raise TypeError(f"[{function}] activation_fn as a function; found {_checks.found(value)}")
        found: Callable[[Any], Any] = value
        return found

    @property
    def num_labels(self) -> int:
        return len(self.encoder.labels)

    @property
    def max_length(self) -> int:
        """The older name of max_seq_length."""
        return self.max_seq_length

    @max_length.setter
    def max_length(self, value: int) -> None:
        self.max_seq_length = value

    def save(self, path: "Union[str, os.PathLike[str]]", *, overwrite: bool = False) -> None:
        """Writes the folder of the model, in the layout that it came in (see Encoder.save()). Prompts, the limit and the
        activation function must be those that it came with."""
        changed = [name for name, differs in (
            ("prompts", self.prompts != self._own_prompts),
            ("default_prompt_name", self.default_prompt_name != self._own_default_prompt),
            ("max_seq_length", self._longest != self.encoder.longest),
            ("activation_fn", self._activation is not self._own_activation)) if differs]
        if changed:
            raise ValueError(f"[save] the settings that the model was loaded with; found others: {', '.join(changed)}")
        self.encoder.save(path, overwrite=overwrite)

    save_pretrained = save

    def predict(
        self,
        inputs: Any = None,
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        batch_size: int = 32,
        show_progress_bar: Optional[bool] = None,
        activation_fn: Optional[Callable[[Any], Any]] = None,
        apply_softmax: Optional[bool] = False,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        pool: Any = None,
        chunk_size: Optional[int] = None,
        *,
        sentences: Any = None,
        activation_fct: Optional[Callable[[Any], Any]] = None,
        num_workers: Any = None,
        processing_kwargs: Any = None,
    ) -> Any:
        """The scores of pairs of texts: (number of pairs), or (number of pairs, labels) for several labels; of one pair,
        its score or scores. Pairs that are too long are cut, the longer text first.

        A tuple or list of two texts is one pair, and a str is a text alone. `sentences` and `activation_fct` are older
        names of `inputs` and `activation_fn`. batch_size, chunk_size and num_workers change no result. A prompt stands
        in front of the first text of each pair. apply_softmax makes shares of several labels. Without convert_to_numpy
        and convert_to_tensor the result is a list of tensors.
        """
        refuse("predict", pool=pool, processing_kwargs=processing_kwargs)
        check_device("predict", device)
        if inputs is not None and sentences is not None:
            raise TypeError("[predict] inputs or sentences; found both")
        rows, single = _rows_of(sentences if inputs is None else inputs)
        pairs = _checks.texts_or_pairs("predict", rows)
        _checks.integers("predict", batch_size=batch_size)
        if batch_size < 1:
            raise ValueError(f"[predict] batch_size of 1 or more; found {batch_size}")
        given = activation_fct if activation_fn is None else activation_fn
        activation = self._activation if given is None else self._callable("predict", given)
        before = self._prompt("predict", prompt, prompt_name)
        with Bar(show_progress_bar, len(pairs), "Pairs", depth=3) as progress:
            logits = self.encoder._model.class_logits(pairs, before, self._longest, progress, self._parses_special)
        if len(pairs) == 0:
            empty = np.array([])
            if convert_to_tensor:
                return import_torch("predict", "convert_to_tensor=True").tensor([])
            return empty if convert_to_numpy else []
        scores = self._activated(activation, logits)
        if self.num_labels == 1 and scores.ndim > 1 and scores.shape[1] == 1:
            scores = scores[:, 0]
        if apply_softmax and scores.ndim > 1:
            scores = _softmax(scores)
        found: Any = scores
        if convert_to_tensor:
            found = import_torch("predict", "convert_to_tensor=True").from_numpy(scores)
        elif not convert_to_numpy:
            found = list(import_torch("predict", "convert_to_numpy=False").from_numpy(scores))
        return found[0] if single else found

    @staticmethod
    def _activated(activation: Callable[[Any], Any], logits: _Floats) -> _Floats:
        if activation in (_identity, _sigmoid):
            return np.asarray(activation(logits))
        torch = import_torch("predict", "an activation function")
        with torch.inference_mode():
            found = activation(torch.from_numpy(logits))
        return np.asarray(found.float().numpy())

    def rank(
        self,
        query: str,
        documents: Iterable[str],
        top_k: Optional[int] = None,
        return_documents: bool = False,
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        batch_size: int = 32,
        show_progress_bar: Optional[bool] = None,
        activation_fn: Optional[Callable[[Any], Any]] = None,
        device: Any = None,
        pool: Any = None,
        chunk_size: Optional[int] = None,
        *,
        activation_fct: Optional[Callable[[Any], Any]] = None,
        num_workers: Any = None,
        apply_softmax: Any = None,
        convert_to_numpy: Any = None,
        convert_to_tensor: Any = None,
    ) -> List[Dict[str, Any]]:
        """The documents as they match the query, the best first, or the top_k best: {"corpus_id": place in `documents`,
        "score": ...}, with "text" if return_documents. Equal scores keep the order of `documents`. For models of one
        label. As there, `activation_fct` is the older name of `activation_fn`, and the last four have no effect."""
        if self.num_labels != 1:
            raise ValueError(f"[rank] a model of one label; found {self.num_labels}")
        _checks.text("rank", query, "query")
        texts = _checks.texts("rank", documents)
        if top_k is not None:
            _checks.integers("rank", top_k=top_k)
            if top_k < 0:
                raise ValueError(f"[rank] top_k of 0 or more; found {top_k}")
        scores = self.predict([(query, text) for text in texts], prompt_name, prompt, batch_size, show_progress_bar,
                              activation_fn, device=device, pool=pool, chunk_size=chunk_size,
                              activation_fct=activation_fct)
        order = sorted(range(len(texts)), key=lambda place: -float(scores[place]))[:top_k]
        return [{"corpus_id": place, "score": float(scores[place]), **({"text": texts[place]} if return_documents else {})}
                for place in order]


def _rows_of(inputs: Any) -> Tuple[Any, bool]:
    """A list of pairs or texts, and whether it was one alone: a text, or a list whose first element is no list."""
    if isinstance(inputs, np.ndarray):
        inputs = inputs.tolist()
    if isinstance(inputs, str):
        return [inputs], True
    if not isinstance(inputs, (list, tuple)):
        return inputs, False
    single = len(inputs) > 0 and not isinstance(inputs[0], (list, tuple, np.ndarray))
    return ([inputs], True) if single else (inputs, False)
