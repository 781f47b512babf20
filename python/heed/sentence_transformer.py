"""SentenceTransformer with the arguments of sentence-transformers 6, computed by heed.

    model = heed.SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    vectors = model.encode(["a text", "another"], normalize_embeddings=True)

What is not done as there is refused: no argument is ignored, but those that only say how fast or where to compute. The
vectors are NumPy arrays; tensors, where they are asked for, need PyTorch.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _checks, _heed
from ._drop_in import Bar, DropIn, check_device, import_torch, read_settings, refuse, tensor_where_torch_is
from ._vectors import is_one_vector, normalised, pairwise_similarities, quantised, rows_of, similarities

__all__ = ["SentenceTransformer"]

_SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")
_PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")


def _check_dimension(function: str, value: Optional[int]) -> None:
    if value is None:
        return
    _checks.integers(function, truncate_dim=value)
    if value < 1:
        raise ValueError(f"[{function}] truncate_dim of 1 or more; found {value}")


class SentenceTransformer(DropIn):
    """A model that gives each text a vector. Each vector has the bits that it has alone, so no batch size changes it."""

    SUPPORTED_SIMILARITY_FN_NAMES = list(_SIMILARITIES)
    _KIND = "SentenceTransformer"

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
        use_auth_token: Any = None,
        model_kwargs: Optional[Dict[str, Any]] = None,
        processor_kwargs: Optional[Dict[str, Any]] = None,
        tokenizer_kwargs: Optional[Dict[str, Any]] = None,
        config_kwargs: Optional[Dict[str, Any]] = None,
        model_card_data: Any = None,
        backend: str = "torch",
        similarity_fn_name: Any = None,
        truncate_dim: Optional[int] = None,
        weights: str = "float32",
    ) -> None:
        """A folder, or a name in Hugging Face's cache.

        weights="int8" computes with 8-bit weights, and "bfloat16" with 16-bit ones where the processor multiplies them.

        Nothing is downloaded and no code of a model is run, so trust_remote_code, local_files_only, token and
        model_card_data have no effect. backend says who computes, and must be left alone.
        """
        refuse("SentenceTransformer", modules=modules, revision=revision,
               model_kwargs=model_kwargs, processor_kwargs=processor_kwargs, tokenizer_kwargs=tokenizer_kwargs,
               config_kwargs=config_kwargs, backend=None if backend == "torch" else backend)
        check_device("SentenceTransformer", device)
        # Without modules.json sentence-transformers takes the mean of the states.
        settings = self._load(model_name_or_path, "sentence-transformers", prompts, default_prompt_name, weights,
                              cache_folder, "query", "document")
        self.similarity_fn_name = similarity_fn_name or settings.get("similarity_fn_name") or "cosine"
        self._own_truncate_dim: Optional[int] = settings.get("truncate_dim")
        self._check_truncate_dim("SentenceTransformer", truncate_dim)
        self.truncate_dim = truncate_dim
        self._loaded = {"prompts": self._own_prompts, "default_prompt_name": self._own_default_prompt,
                        "similarity_fn_name": settings.get("similarity_fn_name") or "cosine",
                        "truncate_dim": self._own_truncate_dim}
        self._loaded_longest = self.encoder.longest

    def _check_truncate_dim(self, function: str, value: Optional[int]) -> None:
        _check_dimension(function, value)
        own = self._own_truncate_dim
        if value is not None and own is not None and value > own:
            raise ValueError(f"[{function}] truncate_dim of at most {own}, as config_sentence_transformers.json says; found "
                             f"{value}")

    @property
    def truncate_dim(self) -> Optional[int]:
        """So many numbers of each vector are kept, the first ones; None: as many as the folder says, or all."""
        return self._own_truncate_dim if self._truncate_dim is None else self._truncate_dim

    @truncate_dim.setter
    def truncate_dim(self, value: Optional[int]) -> None:
        self._check_truncate_dim("truncate_dim", value)
        self._truncate_dim = value

    @property
    def similarity_fn_name(self) -> str:
        """What similarity() computes: cosine, dot, euclidean or manhattan."""
        return self._similarity

    @similarity_fn_name.setter
    def similarity_fn_name(self, value: Any) -> None:
        value = "cosine" if value is None else getattr(value, "value", value)  # (SimilarityFunction is an enumeration)
        if value not in _SIMILARITIES:
            raise ValueError(f"[SentenceTransformer] similarity_fn_name: one of {', '.join(_SIMILARITIES)}; found "
                             f'"{value}"')
        self._similarity = str(value)

    def get_max_seq_length(self) -> int:
        return self._longest

    def get_embedding_dimension(self) -> int:
        size = self.encoder.embedding_size
        return size if self.truncate_dim is None else min(size, self.truncate_dim)

    def get_sentence_embedding_dimension(self) -> int:
        return self.get_embedding_dimension()

    def save(self, path: "Union[str, os.PathLike[str]]", *, overwrite: bool = False) -> None:
        """Writes the folder of the model, in the layout that it came in (see Encoder.save()), with the prompts and limits
        that were set since it was loaded."""
        now = {"prompts": dict(self.prompts), "default_prompt_name": self.default_prompt_name,
               "similarity_fn_name": self.similarity_fn_name, "truncate_dim": self.truncate_dim}
        changed = {name: value for name, value in now.items() if value != self._loaded[name]}
        for name, prompt in self.prompts.items():  # before anything is written
            _checks.text("save", name, "the name of a prompt")
            _checks.text("save", prompt, f'the prompt "{name}"')
        if self.default_prompt_name is not None and self.default_prompt_name not in self.prompts:
            raise ValueError(f'[save] default_prompt_name: {self._names()}; found "{self.default_prompt_name}"')
        limit: Dict[str, Any] = {} if self._longest == self._loaded_longest else {"max_seq_length": self._longest}
        if (changed or limit) and not self._has_modules:
            raise ValueError(f"[save] a folder with a modules.json, for settings that were changed "
                             f"({', '.join([*changed, *limit])}); found {self.encoder.folder!r} without one")
        self.encoder.save(path, overwrite=overwrite)
        folder = pathlib.Path(path)
        _update(folder / "config_sentence_transformers.json", changed)
        if limit:
            encoder = folder / json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]["path"]
            files = [encoder / name for name in _heed.sentence_settings_files()]
            file = next((file for file in files if file.exists()), files[0])
            written = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
            for name in ("tokenizer_args", "processor_kwargs"):  # whose limit would count more
                if isinstance(written.get(name), dict):
                    written[name].pop("model_max_length", None)
                    limit[name] = written[name]
            _update(file, limit)
        if os.path.samefile(folder, self.encoder.folder):  # which the next save copies
            self._loaded, self._loaded_longest = now, self._longest

    save_pretrained = save

    def preprocess(self, inputs: Sequence[str], prompt: Optional[str] = None) -> Dict[str, Any]:
        """What the model reads, padded: "input_ids", "attention_mask" and, where it has them, "token_type_ids"."""
        before = "" if prompt is None else _checks.text("preprocess", prompt, "prompt")
        texts = [before + text for text in _checks.texts("preprocess", inputs)]
        found = self.tokenizer.arrays(texts, max_length=self._longest, parse_special=self._parses_special,
                                      lowercase=self.encoder._model.lowercases())
        if self.encoder.token_types < 2:
            del found["token_type_ids"]
        return {name: tensor_where_torch_is(array) for name, array in found.items()}

    def tokenize(self, texts: Sequence[str]) -> Dict[str, Any]:
        return self.preprocess(texts)

    def encode(
        self,
        inputs: Union[None, str, Iterable[str]] = None,
        prompt_name: Optional[str] = None,
        prompt: Optional[str] = None,
        batch_size: int = 32,
        show_progress_bar: Optional[bool] = None,
        output_value: Optional[str] = "sentence_embedding",
        precision: Optional[str] = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: Any = None,
        normalize_embeddings: bool = False,
        truncate_dim: Optional[int] = None,
        pool: Any = None,
        chunk_size: Optional[int] = None,
        *,
        sentences: Union[None, str, Iterable[str]] = None,
        task: Optional[str] = None,
        processing_kwargs: Any = None,
    ) -> Any:
        """(number of texts, embedding size), or (embedding size) for one text. Texts that are too long are cut.

        `sentences` is the older name of `inputs`. batch_size, chunk_size and task change no result. output_value:
        "sentence_embedding", or "token_embeddings" for the states of each text's tokens, as a list of tensors.
        precision: float32, int8, uint8, binary or ubinary. Without convert_to_numpy and convert_to_tensor the result is
        a list of tensors.
        """
        refuse("encode", pool=pool, processing_kwargs=processing_kwargs)
        check_device("encode", device)
        if inputs is not None and sentences is not None:
            raise TypeError("[encode] inputs or sentences; found both")
        inputs = sentences if inputs is None else inputs
        single = isinstance(inputs, str)
        texts = [_checks.text("encode", inputs)] if isinstance(inputs, str) else _checks.texts("encode", inputs)
        _checks.integers("encode", batch_size=batch_size)
        self._check_truncate_dim("encode", truncate_dim)
        if batch_size < 1 or precision not in (None, *_PRECISIONS):
            raise ValueError(f"[encode] batch_size of 1 or more and a precision of {', '.join(_PRECISIONS)}; found "
                             f'{batch_size} and "{precision}"')
        before = self._prompt("encode", prompt, prompt_name)
        if output_value == "token_embeddings":
            if precision not in (None, "float32"):
                raise ValueError(f'[encode] precision "float32" for the states of tokens; found "{precision}"')
            states = self._states([before + text for text in texts], show_progress_bar)
            return states[0] if single else states
        if output_value != "sentence_embedding":
            raise ValueError('[encode] output_value "sentence_embedding" or "token_embeddings"; found '
                             f"{output_value!r}")
        vectors = self._vectors(texts, before, show_progress_bar)
        vectors = np.ascontiguousarray(vectors[:, : self.truncate_dim if truncate_dim is None else truncate_dim])
        if normalize_embeddings:
            vectors = normalised(vectors)
        found: Any = vectors
        if len(texts) > 0 and precision not in (None, "float32"):
            found = quantised(vectors, str(precision))
        if convert_to_tensor:
            found = import_torch("encode", "convert_to_tensor=True").from_numpy(found if len(texts) > 0 else found[:, 0])
        elif not convert_to_numpy:
            found = list(import_torch("encode", "convert_to_numpy=False").from_numpy(found))
        elif len(texts) == 0:
            found = np.array([])
        return found[0] if single else found

    def encode_query(self, inputs: Union[None, str, Iterable[str]] = None, prompt_name: Optional[str] = None,
                     prompt: Optional[str] = None, *arguments: Any, **options: Any) -> Any:
        """encode() with the prompt "query", where the model has one and no other is given."""
        if prompt_name is None and prompt is None and "query" in self.prompts:
            prompt_name = "query"
        return self.encode(inputs, prompt_name, prompt, *arguments, **options)

    def encode_document(self, inputs: Union[None, str, Iterable[str]] = None, prompt_name: Optional[str] = None,
                        prompt: Optional[str] = None, *arguments: Any, **options: Any) -> Any:
        """encode() with the prompt "document", where no other is given. As in sentence-transformers, a model whose folder
        names only "passage" has an empty "document"."""
        if prompt_name is None and prompt is None:
            prompt_name = next((name for name in ("document", "passage", "corpus") if name in self.prompts), None)
        return self.encode(inputs, prompt_name, prompt, *arguments, **options)

    def _vectors(self, texts: List[str], prompt: str, bar: Optional[bool]) -> npt.NDArray[np.float32]:
        with Bar(bar, len(texts), "Sentences") as progress:  # sentence-transformers does not warn of cut texts
            return self.encoder._model.embed(
                texts, 0, "cut", "", prompt, self._longest, progress, self._parses_special, False)

    def _states(self, texts: List[str], bar: Optional[bool]) -> List[Any]:
        torch = import_torch("encode", 'output_value="token_embeddings"')
        states = []
        with Bar(bar, len(texts), "Sentences") as progress:
            for text in texts:
                found = self.encoder._model.encode(text, "cut", self._longest, self._parses_special, False)[1]
                states.append(torch.from_numpy(found))
                if progress is not None:
                    progress(len(states))
        return states

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """(number of rows, number of rows): how alike each pair is, by similarity_fn_name. A tensor, where PyTorch is."""
        a, b = rows_of("similarity", embeddings1), rows_of("similarity", embeddings2)
        if a.shape[1] != b.shape[1]:
            raise ValueError(f"[similarity] vectors of one size; found {a.shape} and {b.shape}")
        return tensor_where_torch_is(similarities(self.similarity_fn_name, a, b))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """(number of rows): how alike row n of one and row n of the other are. Of two vectors: one number."""
        a, b = rows_of("similarity_pairwise", embeddings1), rows_of("similarity_pairwise", embeddings2)
        if a.shape[1] != b.shape[1] or (len(a) != len(b) and 1 not in (len(a), len(b))):
            raise ValueError(f"[similarity_pairwise] as many vectors of one size; found {a.shape} and {b.shape}")
        found = pairwise_similarities(self.similarity_fn_name, a, b)
        alone = is_one_vector(embeddings1) and is_one_vector(embeddings2)
        return tensor_where_torch_is(found.reshape(()) if alone else found)


def _update(file: pathlib.Path, settings: Dict[str, Any]) -> None:
    """Changes these keys of a JSON file, or makes one."""
    if not settings:
        return
    text = json.dumps({**read_settings(file), **settings}, indent=2, ensure_ascii=False) + "\n"
    unfinished = file.with_name(file.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, file)
