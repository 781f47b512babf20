"""Tokenizers: texts to ids and back, with the names of Hugging Face's tokenizers.

    tokenizer = heed.load("demo/en-zh").tokenizer            # or heed.Tokenizer("demo/en-zh")
    found = tokenizer.encode("Where is the station?")
    found.ids, found.tokens, found.offsets
    tokenizer.decode(found.ids)                              # 'Where is the station?'
"""

from __future__ import annotations

import operator
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from . import _checks, _heed

__all__ = ["Tokenizer", "Tokens"]

TextOrPair = Union[str, Tuple[str, str]]


class Tokens(NamedTuple):
    """A text as a model reads it; each list has one entry for each token."""

    ids: List[int]
    tokens: List[str]  # as the vocabulary spells them
    offsets: List[Tuple[int, int]]  # the token is text[begin:end]; (0, 0) for tokens that stand around the text
    type_ids: List[int]  # 0 for a text and 1 for its pair, in models that tell them apart
    special_tokens_mask: List[int]  # 1 for the tokens that stand around the text
    left_out: int  # how many tokens did not fit max_length

    @property
    def attention_mask(self) -> List[int]:
        """1 for each token: nothing is padded."""
        return [1] * len(self.ids)


class Tokenizer:
    """The tokenizer of a model's folder. It never changes; any number of threads may use one."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"], *, side: Optional[str] = None) -> None:
        """side: of an encoder-decoder, "source" (the default) or "target"."""
        if side not in (None, "source", "target"):
            raise ValueError(f'[Tokenizer] side "source" or "target"; found {_checks.found(side)}')
        name = _checks.path("Tokenizer", folder, "a folder or ORG/NAME")
        self._folder = os.path.abspath(_heed.find_model_folder(name, ""))
        self._side = side or ("target" if _writes_only(self._folder) else "source")
        self._tokenizer = _heed.Tokenizer(self._folder, self._side == "target")

    @classmethod
    def _of(cls, tokenizer: _heed.Tokenizer, folder: str, side: str) -> "Tokenizer":
        self = cls.__new__(cls)
        self._tokenizer, self._folder, self._side = tokenizer, folder, side
        return self

    @classmethod
    def _load(cls, folder: str, side: str) -> "Tokenizer":
        return cls(folder, side=side)

    def __reduce__(self) -> Tuple[Any, ...]:
        """A pickle holds the name of the folder. Unpickling reads the folder again."""
        return type(self)._load, (self._folder, self._side)

    def __copy__(self) -> "Tokenizer":
        return self

    def __deepcopy__(self, memo: Dict[int, Any]) -> "Tokenizer":
        return self

    def encode(
        self,
        text: str,
        pair: Optional[str] = None,
        *,
        add_special_tokens: bool = True,
        max_length: Optional[int] = None,
        parse_special: bool = False,
        lowercase: bool = False,
    ) -> Tokens:
        """One text, or a text and a second one.

        add_special_tokens: with the tokens that the model expects around the text ("[CLS]", "</s>"). max_length: tokens
        at most, these included; what is left out stands in `left_out`. parse_special: "[SEP]" in the text is the special
        token; otherwise it is text as any other. lowercase: the text is read in lower case, but for added tokens in it.
        """
        _checks.text("encode", text)
        one: TextOrPair = text if pair is None else (text, pair)
        return self.encode_batch(
            [one], add_special_tokens=add_special_tokens, max_length=max_length, parse_special=parse_special,
            lowercase=lowercase)[0]

    def encode_batch(
        self,
        texts: Iterable[TextOrPair],
        *,
        add_special_tokens: bool = True,
        max_length: Optional[int] = None,
        parse_special: bool = False,
        lowercase: bool = False,
    ) -> List[Tokens]:
        """encode() of many texts, or pairs of texts, shared among threads."""
        both = _checks.texts_or_pairs("encode_batch", texts, "; encode(text) takes one")
        _checks.booleans("encode_batch", add_special_tokens=add_special_tokens, parse_special=parse_special,
                         lowercase=lowercase)
        if max_length is not None:
            _checks.integers("encode_batch", max_length=max_length)
            if max_length < 1:
                raise ValueError(f"[encode_batch] max_length of 1 or more; found {max_length}")
        found = self._tokenizer.encode_batch(both, add_special_tokens, max_length or 0, parse_special, lowercase)
        return [Tokens(*one) for one in found]

    def arrays(
        self,
        texts: Iterable[TextOrPair],
        *,
        add_special_tokens: bool = True,
        max_length: Optional[int] = None,
        parse_special: bool = False,
        lowercase: bool = False,
    ) -> Dict[str, npt.NDArray[np.int64]]:
        """{"input_ids", "token_type_ids", "attention_mask"} (number of texts, longest), padded on the right."""
        rows = self.encode_batch(
            texts, add_special_tokens=add_special_tokens, max_length=max_length, parse_special=parse_special,
            lowercase=lowercase)
        shape = (len(rows), max((len(row.ids) for row in rows), default=0))
        result = {
            "input_ids": np.full(shape, self.padding_id or 0, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
        }
        for place, row in enumerate(rows):
            result["input_ids"][place, : len(row.ids)] = row.ids
            result["token_type_ids"][place, : len(row.ids)] = row.type_ids
            result["attention_mask"][place, : len(row.ids)] = 1
        return result

    def decode(self, ids: Union[Sequence[int], npt.NDArray[Any]]) -> str:
        """The text of ids. Special tokens are left out."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, rows: Iterable[Union[Sequence[int], npt.NDArray[Any]]]) -> List[str]:
        """decode() of many lists, or of the rows of an array."""
        return self._tokenizer.decode_batch([_ids(row) for row in _checks.listed("decode_batch", rows, "lists of ids")])

    def token_to_id(self, token: str) -> Optional[int]:
        """The id of a token as the vocabulary spells it; None where it is not there."""
        return self._tokenizer.id_of(_checks.text("token_to_id", token, "token"))

    def id_to_token(self, id: int) -> Optional[str]:
        """The token as the vocabulary spells it; None outside the vocabulary."""
        _checks.integers("id_to_token", id=id)
        return self._tokenizer.piece(id) if 0 <= id < self.get_vocab_size() else None

    def get_vocab(self) -> Dict[str, int]:
        """{token: id}"""
        return {token: id for id, token in enumerate(self._tokenizer.vocabulary())}

    def get_vocab_size(self) -> int:
        return self._tokenizer.size()

    def __len__(self) -> int:
        return self._tokenizer.size()

    @property
    def kind(self) -> str:
        """One of "sentencepiece", "characters", "pieces", "wordpiece", "bpe", "unigram" or "wordlevel"."""
        return self._tokenizer.kind()

    def _special(self, place: int) -> Optional[int]:
        id = self._tokenizer.special()[place]
        return None if id < 0 else id

    @property
    def padding_id(self) -> Optional[int]:
        return self._special(0)

    @property
    def begin_id(self) -> Optional[int]:
        return self._special(1)

    @property
    def end_id(self) -> Optional[int]:
        return self._special(2)

    @property
    def unknown_id(self) -> Optional[int]:
        return self._special(3)

    def __repr__(self) -> str:
        return f"Tokenizer({self.kind}, {self.get_vocab_size()} tokens)"


def _ids(row: Any) -> List[int]:
    """The ids of a list, or of an array of one axis: whole numbers of 32 bits."""
    values = _checks.listed("decode", row, "ids")
    try:
        ids = [operator.index(one) for one in values]
    except TypeError:
        raise TypeError(f"[decode] a list of ids, which are whole numbers; found {_checks.found(values)}") from None
    for one in ids:
        if not -(2**31) <= one < 2**31:
            raise ValueError(f"[decode] ids of 32 bits; found {one}")
    return ids


def _writes_only(folder: str) -> bool:
    """Whether the folder has a decoder-only model. Its tokenizer is stored as the target's."""
    try:
        return _heed.architecture_of(folder) == "decoder_only"
    except ValueError:  # a folder with a tokenizer alone, or with a model that heed does not compute
        return False
