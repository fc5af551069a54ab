"""``rflaf`` and ``python -m rflaf``: the command line, or one line on how to install it."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType


class _Interruption:
    """Remembers an interruption: a compiled module that is being loaded turns it into an error of its own."""

    def __init__(self) -> None:
        self.came = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._come)

    def _come(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt


def main() -> int:
    """Run the command line and return its exit code."""
    interruption = _Interruption()
    try:
        from rflaf.cli.app import run

        return run(sys.argv[1:])
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or interruption.came:
            sys.stderr.write("rflaf: interrupted\n")
            return 130
        if not isinstance(error, ModuleNotFoundError) or error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(f"rflaf: the command line needs {error.name}: pip install 'rflaf[cli]'\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
