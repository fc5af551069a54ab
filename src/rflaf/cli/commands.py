"""Commands from dataclasses of options."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from typing import Any, get_type_hints


def as_command(kind: type[Any], name: str) -> Callable[..., None]:
    """Return a function with the signature and docstring of a dataclass of options, which makes and runs it."""

    def command(**options: Any) -> None:
        kind(**options).run()

    command.__name__, command.__doc__ = name, kind.__doc__
    hints = get_type_hints(kind, include_extras=True)
    parameters = [p.replace(annotation=hints[p.name]) for p in signature(kind).parameters.values()]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = hints
    return command
