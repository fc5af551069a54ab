"""``rflaf`` and ``python -m rflaf``: the command line, or one line on how to install it."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        from rflaf.cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("rflaf: interrupted\n")
        return 130
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.stderr.write(f"rflaf: the command line needs {error.name}: pip install 'rflaf[cli]'\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
