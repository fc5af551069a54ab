"""Show doctests as code: the numpydoc parser expects them below a heading of their own, which our docstrings omit."""

from __future__ import annotations

import re
from typing import Any

import griffe

_FIRST_DOCTEST = re.compile(r"^(?=>>> )", re.MULTILINE)
_HEADING = "Examples\n--------\n"


class DoctestsAsExamples(griffe.Extension):
    """Begin an Examples section before the first doctest of each docstring that has none."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        docstring = obj.docstring
        if docstring is not None and "Examples\n--" not in docstring.value:
            docstring.value = _FIRST_DOCTEST.sub(_HEADING, docstring.value, count=1)
