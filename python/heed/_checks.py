"""Arguments, checked before the library sees them. Messages read: [function] what was expected; what was found."""

from __future__ import annotations

import functools
import operator
import os
import reprlib
from typing import Any, Callable, List, Mapping, Optional, Tuple, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def found(value: Any) -> str:
    """What a message says of a value: its type, and its repr(), cut to one short line."""
    if value is None or isinstance(value, bool):
        return repr(value)
    name = type(value).__name__
    try:
        shown = " ".join(reprlib.repr(value).split())  # reads only the first elements of a long list
    except Exception:  # a repr() that fails must not hide the error that the message is about
        return name
    return f"{name} {shown}" if len(shown) <= 40 else f"{name} {shown[:37]}..."


def text(function: str, value: Any, what: str = "a text") -> str:
    if not isinstance(value, str):
        raise TypeError(f"[{function}] {what} as a str; found {found(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(
                f"[{function}] {what} of Unicode's characters; found a lone surrogate, {value[error.start]!r}, at "
                f"character {error.start}"
            ) from None
    return value


def refuse_or_cut(function: str, too_long: Any) -> str:
    """What an encoder does with a text that is too long. It cannot read it in parts."""
    if text(function, too_long, "too_long") not in ("refuse", "cut"):
        raise ValueError(f'[{function}] too_long "refuse" or "cut"; found "{too_long}"')
    return cast(str, too_long)


def listed(function: str, values: Any, what: str, hint: str = "") -> List[Any]:
    """The elements of an iterable. A str, bytes, a dict and a table are refused: their elements are characters, numbers,
    keys and columns."""
    if isinstance(values, str):
        raise TypeError(f"[{function}] a list of {what}; found one text{hint}")
    try:
        each = iter(values)
    except TypeError:
        raise TypeError(f"[{function}] a list of {what}; found {found(values)}") from None
    if isinstance(values, (bytes, bytearray, Mapping)) or hasattr(values, "columns"):  # a table of pandas
        raise TypeError(f"[{function}] a list of {what}; found {type(values).__name__}")
    return list(each)


def texts(function: str, values: Any, hint: str = "") -> List[str]:
    """`hint` says what to do with one text."""
    rows = listed(function, values, "texts", hint)
    for place, value in enumerate(rows):
        if type(value) is not str or not value.isascii():
            text(function, value, f"text {place + 1}")
    return rows


def _is_pair(value: Any) -> bool:
    """Whether it is a tuple, a list or an array of two."""
    return isinstance(value, (tuple, list)) and len(value) == 2 or getattr(value, "shape", None) == (2,)


def texts_or_pairs(function: str, values: Any, hint: str = "") -> List[Tuple[str, Optional[str]]]:
    """(text, second text) of each; a text alone has None as its second."""
    pairs: List[Tuple[str, Optional[str]]] = []
    for place, value in enumerate(listed(function, values, "texts or pairs", hint)):
        what = f"text {place + 1}"
        if isinstance(value, str):
            pairs.append((text(function, value, what), None))
        elif _is_pair(value):
            second = None if value[1] is None else text(function, value[1], f"the second of {what}")
            pairs.append((text(function, value[0], what), second))
        else:
            raise TypeError(f"[{function}] {what} as a str or a pair of two; found {found(value)}")
    return pairs


def integers(function: str, **given: Any) -> None:
    """Options that are whole numbers of 64 bits."""
    for name, value in given.items():
        try:
            number = None if isinstance(value, bool) else operator.index(value)
        except TypeError:
            number = None
        if number is None:
            raise TypeError(f"[{function}] {name} as a whole number; found {found(value)}")
        if not -(2**63) <= number < 2**63:
            raise ValueError(f"[{function}] {name} of 64 bits; found {number}")


def seed(function: str, value: Any) -> None:
    """A whole number of 64 bits without a sign."""
    try:
        in_range = 0 <= operator.index(value) < 2**64
    except TypeError:
        in_range = False
    if not in_range:
        raise ValueError(f"[{function}] seed as a whole number from 0 to 2^64 - 1; found {found(value)}")


def floats(function: str, **given: Any) -> None:
    for name, value in given.items():
        try:
            is_number = not isinstance(value, (str, bytes, bool)) and float(value) is not None
        except OverflowError:
            raise ValueError(f"[{function}] {name} of a size that a float has; found {found(value)}") from None
        except (TypeError, ValueError):
            is_number = False
        if not is_number:
            raise TypeError(f"[{function}] {name} as a number; found {found(value)}")


def strings(function: str, **given: Any) -> None:
    """Options that are strings."""
    for name, value in given.items():
        text(function, value, name)


def booleans(function: str, **given: Any) -> None:
    for name, value in given.items():
        if type(value).__name__ not in ("bool", "bool_"):
            raise TypeError(f"[{function}] {name} as True or False; found {found(value)}")


def callbacks(function: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None and not callable(value):
            raise TypeError(f"[{function}] {name} as a function or None; found {found(value)}")


def path(function: str, value: Any, what: str = "a folder") -> str:
    try:
        name = os.fsdecode(value)
    except TypeError:
        raise TypeError(f"[{function}] {what} as a str or a path; found {found(value)}") from None
    if not name or "\0" in name:
        raise ValueError(f"[{function}] {what} with a name; found {name!r}")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise ValueError(f"[{function}] {what} with a name that the system can write; found {name!r}") from None
    return name


def also_called(**names_elsewhere: str) -> Callable[[F], F]:
    """A decorator: {name in another library: what to write here}. A call with such a name raises TypeError that says so."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            if not names_elsewhere.keys().isdisjoint(options):
                name = next(name for name in options if name in names_elsewhere)
                raise TypeError(f"[{function.__name__}] {names_elsewhere[name]}; found {name}")
            return function(*arguments, **options)

        return cast(F, call)

    return decorate
