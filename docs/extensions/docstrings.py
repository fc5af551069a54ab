"""Turn two habits of our docstrings into numpydoc before the reference is built.

Doctests get a heading of their own. A parameter or attribute whose description stands on the line of its name, where
numpydoc expects the type, is moved to the line below; the type comes from the annotation.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_FIRST_DOCTEST = re.compile(r"^(?=>>> )", re.MULTILINE)
_EXAMPLES = "Examples\n--------\n"
_SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n(?:.+\n?)*", re.MULTILINE)
_ITEM = re.compile(r"^(\w+) : (\S+ .*)(?=\n\S|\n?\Z|\n    [^A-Z])", re.MULTILINE)


def to_numpydoc(docstring: str) -> str:
    """Return a docstring in numpydoc's form.

    >>> to_numpydoc("Parameters\\n----------\\nrows : of one block\\nwidth : int or str\\n    Number of rows.")
    'Parameters\\n----------\\nrows\\n    of one block\\nwidth : int or str\\n    Number of rows.'
    """
    if "Examples\n--" not in docstring:
        docstring = _FIRST_DOCTEST.sub(_EXAMPLES, docstring, count=1)
    return _SECTION.sub(lambda section: _ITEM.sub(r"\1\n    \2", section[0]), docstring)


class Numpydoc(griffe.Extension):
    """Rewrite every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_numpydoc(obj.docstring.value)
