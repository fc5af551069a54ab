"""Words that the emitters of programs share: the templates of a language, blocks, loops and lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rflaf.errors import Array


@dataclass(frozen=True, slots=True)
class Dialect:
    """Templates of a language.

    Attributes
    ----------
    array : lines of a constant array of a name, of numbers or of whole numbers
    page : the whole file out of name, comment, arrays, function body, and number of columns and answers
    real, whole : declaration of a variable ``{0}`` with the value ``{1}``
    buffer : declaration of ``{1}`` zeros
    loop : head of a loop of ``{0}`` from 0 to below ``{1}``
    test, repeat : heads of a condition and of a loop with one
    to_whole, to_real : conversions of a number at least zero, rounded down, and of a whole number
    exp : the exponential function
    comment : a line of comment
    """

    array: Callable[[str, Array], str]
    page: str
    real: str
    whole: str
    buffer: str
    loop: str
    test: str
    repeat: str
    to_whole: str
    to_real: str
    exp: str
    comment: str = "// {0}"


def loop(d: Dialect, variable: str, count: int, body: list[str]) -> list[str]:
    """Return a loop over whole numbers below ``count``."""
    return block(d.loop.format(variable, count), body)


def block(head: str, body: list[str]) -> list[str]:
    """Return a head with its body in braces."""
    return [head + " {", *("    " + line for line in body), "}"]


def printable(value: object) -> str:
    """Return text that can neither end nor begin a comment."""
    return re.sub(r"[^A-Za-z0-9 _.,:;+()<>=%#$&@!-]", lambda found: f"?{ord(found[0]):x}", str(value))


def listed(values: Array, width: int = 20) -> str:
    """Return the shortest literals that read back as the same numbers, some on a line."""
    whole = values.dtype.kind in "iu"
    words = [str(int(value)) if whole else repr(float(value)) for value in values.ravel()]
    return ",\n".join(", ".join(words[at : at + width]) for at in range(0, len(words), width))


def listed_words(words: Sequence[str], literal: Callable[[str], str], width: int = 8) -> str:
    """Return texts as literals, some on a line."""
    texts = [literal(word) for word in words]
    return ",\n".join(", ".join(texts[at : at + width]) for at in range(0, len(texts), width))


def filled(page: str, words: Mapping[str, object]) -> str:
    """Return a template with its <<words>> filled in; what is filled in is left as it is."""
    return re.sub(r"<<([a-z_]+)>>", lambda found: str(words[found[1]]), page)
