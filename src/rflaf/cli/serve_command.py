"""``rflaf serve``: a saved model as an HTTP service."""

from __future__ import annotations

from typing import Annotated

import typer

from rflaf.export.model_file import load_predictor
from rflaf.export.serving import Limits, make_server

from .console import Model, remark


def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    most_rows: Annotated[int, typer.Option(help="Rows a request may have.", min=1)] = 100_000,
    most_bytes: Annotated[int, typer.Option(help="Bytes a request may have.", min=1)] = 2**24,
) -> None:
    """Answer predictions over HTTP: POST /predict with {"rows": [...]}, GET /health.

    Example:  rflaf serve houses.rflaf --port 8000
    """
    limits, predictor = Limits(most_bytes, most_rows), load_predictor(model)
    with make_server(predictor, host, port, limits) as server:
        remark(f"rflaf: http://{host}:{server.server_address[1]}/predict")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            remark("rflaf: stopped")
