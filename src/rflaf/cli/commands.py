"""Commands from dataclasses of options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import Signature, signature
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo


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


def in_plain_form(kind: type[Any], arguments: Sequence[str]) -> Any | None:
    """Return the command that plain arguments ask for, or None where the parser has to say what they mean.

    The parser takes longer than ten predictions. Plain are arguments in their number, flags, and options followed by a
    path or a text, each once; help, mistakes, numbers and ``--option=value`` are for the parser.
    """
    hints = get_type_hints(kind, include_extras=True)
    places = [name for name, hint in hints.items() if isinstance(get_args(hint)[1], ArgumentInfo)]
    options = dict(option for name, hint in hints.items() if name not in places for option in _options(name, hint))
    values: dict[str, Any] = {}
    rest = iter(arguments)
    for text in rest:
        if text in options:
            name, meaning = options[text]
            value = meaning if isinstance(meaning, bool) else _read(meaning, next(rest, ""))
        elif places:
            name, value = places.pop(0), _read(Path, text)
        else:
            return None
        if name in values or value is None:
            return None
        values[name] = value
    return None if places else kind(**values)


def _read(kind: type[Any], text: str) -> Any | None:
    """Return a path or a text; None if it is empty or looks like an option."""
    return None if not text or (text.startswith("-") and text != "-") else kind(text)


def _options(name: str, hint: Any) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Yield the texts that set an option, with the value of a flag or the type of what follows."""
    of, info = get_args(hint)[:2]
    kinds = {of, *get_args(of)}
    first = info.default if isinstance(info.default, str) else f"--{name.replace('_', '-')}"
    for declared in (first, *(info.param_decls or ())):
        on, _, off = declared.partition("/")
        if bool in kinds:
            yield on, (name, True)
        elif kinds & {Path, str}:
            yield on, (name, Path if Path in kinds else str)
        if off:
            yield off, (name, False)
