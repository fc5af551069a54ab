"""What a verbose estimator shows on standard error: the log of the package and the progress of long passes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rflaf.rows.progress import Begin, displays


class _ToStandardError(logging.Handler):
    """Writes to the current standard error, which a progress bar may have replaced."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(self.format(record) + "\n")


@contextmanager
def shown(verbose: bool) -> Iterator[Begin]:
    """Show log and progress while this is open if ``verbose``; yield how passes are shown."""
    with displays(verbose) as begin:
        if not verbose:
            yield begin
            return
        logger, handler = logging.getLogger("rflaf"), _ToStandardError()
        handler.setFormatter(logging.Formatter("[rflaf] %(message)s"))
        level = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        try:
            yield begin
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
