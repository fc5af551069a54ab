"""A small HTTP service of one saved model, with the standard library alone.

``POST /predict`` takes JSON, ``{"rows": [...]}``: every row an object of named columns, or a list of numbers in the
order of the fit. All rows of a request are one batch. The answer has ``predictions`` and, of a classifier under the log
loss, ``probabilities`` and ``classes``. ``GET /health`` says what is served. A mistake is answered with a status from
400 on and ``{"error": {"code": ..., "message": ...}}``. Bodies, rows and seconds have limits. The model has no state,
so that threads share it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from rflaf.errors import InvalidParameterError
from rflaf.rows.tables import require_arrow

from .predictor import Predictor


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of a body, rows of a request, and seconds until a silent connection is closed."""

    body: int = 2**24
    rows: int = 100_000
    seconds: float = 10.0


class RequestError(Exception):
    """A request that is refused: a status, a code and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def answer(predictor: Predictor, body: bytes, limits: Limits) -> dict[str, Any]:
    """Return the answer to the body of a request."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise RequestError(400, "not_json", f"the body must be JSON: {error}") from None
    rows = request.get("rows") if isinstance(request, dict) else None
    if not isinstance(rows, list) or not rows:
        raise RequestError(400, "no_rows", 'the body must be an object with "rows", a list of at least one')
    if len(rows) > limits.rows:
        raise RequestError(413, "too_many_rows", f"a request has at most {limits.rows} rows, not {len(rows)}")
    try:
        table = _rows(rows)
        f = predictor.decision(table)
        found: dict[str, Any] = {"predictions": predictor.answer_with_offset(f, table).tolist()}
    except (InvalidParameterError, ValueError, TypeError) as error:
        raise RequestError(422, "bad_rows", str(error)) from None
    if predictor.gives_probabilities and predictor.classes is not None:
        found |= {"probabilities": predictor.probabilities(f).tolist(), "classes": predictor.classes.tolist()}
    return found


def _rows(rows: list[Any]) -> Any:
    if all(isinstance(row, dict) for row in rows):
        return require_arrow().Table.from_pylist(rows)
    if all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows):
        return np.array(rows, np.float64)
    raise RequestError(422, "bad_rows", "rows must all be objects of named columns, or lists of numbers of one length")


def make_server(predictor: Predictor, host: str, port: int, limits: Limits | None = None) -> ThreadingHTTPServer:
    """Return a server that answers once it is told to, ``serve_forever``; port 0 takes a free one."""
    bounds = limits or Limits()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = bounds.seconds

        def do_GET(self) -> None:
            if self.path != "/health":
                self._fail(RequestError(404, "not_found", "GET /health or POST /predict"))
                return
            target = None if predictor.target is None else predictor.target.name
            self._send(200, {"status": "ok", "target": target, "components": predictor.model.n_components})

        def do_POST(self) -> None:
            try:
                if self.path != "/predict":
                    raise RequestError(404, "not_found", "GET /health or POST /predict")
                self._send(200, answer(predictor, self._body(), bounds))
            except RequestError as mistake:
                self._fail(mistake)

        def _body(self) -> bytes:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit():
                raise RequestError(411, "no_length", "a request must state its Content-Length")
            if int(length) > bounds.body:
                raise RequestError(413, "too_large", f"a body has at most {bounds.body} bytes, not {length}")
            return self.rfile.read(int(length))

        def _fail(self, mistake: RequestError) -> None:
            self.close_connection = True  # the rest of the body, if any, is not read
            self._send(mistake.status, {"error": {"code": mistake.code, "message": str(mistake)}})

        def _send(self, status: int, values: dict[str, Any]) -> None:
            body = json.dumps(values).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  the name is the base class's
            """Requests are not logged: a proxy in front does it better."""

    return ThreadingHTTPServer((host, port), Handler)
