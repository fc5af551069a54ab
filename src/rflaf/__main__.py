"""``rflaf`` and ``python -m rflaf``: the command line, or one line on how to install it."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType


class _Interruption:
    """Remembers an interruption: a compiled module that is being loaded turns it into an error of its own."""

    def __init__(self) -> None:
        self.came = False
        self._is_heard = threading.current_thread() is threading.main_thread()
        if self._is_heard:
            signal.signal(signal.SIGINT, self._come)

    def ignore_more(self) -> None:
        """The command has ended: what comes now would only disturb the end of the process."""
        if self._is_heard:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _come(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt


def main() -> int:
    """Run the command line and return its exit code; an interruption ends the process."""
    interruption = _Interruption()
    try:
        from rflaf.cli.app import run

        code = run(sys.argv[1:])
        interruption.ignore_more()
    except BaseException as error:
        interruption.ignore_more()
        if isinstance(error, KeyboardInterrupt) or interruption.came:
            sys.stderr.write("rflaf: interrupted\n")
            code = 130
        elif isinstance(error, ModuleNotFoundError) and error.name in {"typer", "rich"}:
            sys.stderr.write(f"rflaf: the command line needs {error.name}: pip install 'rflaf[cli]'\n")
            code = 2
        else:
            raise
    if interruption.came and code == 130:
        _leave(code)
    return code


def _leave(code: int) -> None:
    """End the process without waiting for threads that still compute, but for what is to be removed at the end."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
