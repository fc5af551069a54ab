"""What a verbose estimator shows on standard error: the package's log, and the progress of its passes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rflaf.rows.progress import Begin, displays


class _ToStandardError(logging.Handler):
    """Writes to the current standard error, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


@contextmanager
def logged(handler: logging.Handler) -> Iterator[None]:
    """Pass the package's log, from level INFO on, to a handler."""
    logger = logging.getLogger("rflaf")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def shown(verbose: bool) -> Iterator[Begin]:
    """Show log and progress on standard error while this is open if ``verbose``; yield how passes are shown."""
    handler = _ToStandardError()
    handler.setFormatter(logging.Formatter("[rflaf] %(message)s"))
    with displays(verbose) as begin, logged(handler) if verbose else nullcontext():
        yield begin
