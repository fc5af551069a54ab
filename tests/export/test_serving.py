"""The HTTP service answers as the estimator does, within its limits, and says what is wrong with a request."""

from __future__ import annotations

import http.client
import json
import threading

import numpy as np
import pyarrow as pa
import pytest

import rflaf
from rflaf.export.serving import Limits, make_server


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    age = rng.normal(40, 10, 200)
    town = rng.choice(["Bonn", "Ulm", "Wien"], 200)
    return pa.table({"age": age, "town": town, "dear": np.where(age + 5 * (town == "Ulm") > 42, "yes", "no")})


@pytest.fixture(scope="module")
def served(table, tmp_path_factory):
    """The estimator, and how to ask the service of its file."""
    estimator = rflaf.RFLAFClassifier.convex(6, random_state=0).fit(table, "dear")
    path = tmp_path_factory.mktemp("served") / "model.rflaf"
    rflaf.save(estimator, path)
    with make_server(rflaf.load_predictor(path), "127.0.0.1", 0, Limits(body=100_000, rows=150)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()

        def ask(method, where, body=None):
            connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)
            connection.request(method, where, body if isinstance(body, bytes | None) else json.dumps(body).encode())
            response = connection.getresponse()
            found = response.status, json.loads(response.read())
            connection.close()
            return found

        yield estimator, ask
        server.shutdown()
        thread.join()


def test_rows_of_named_columns_are_predicted_in_one_batch(served, table):
    estimator, ask = served
    rows = table.select(["town", "age"]).slice(0, 50)
    status, found = ask("POST", "/predict", {"rows": rows.to_pylist()})
    assert status == 200
    assert found["predictions"] == estimator.predict(table.slice(0, 50).drop_columns("dear")).tolist()
    assert found["classes"] == ["no", "yes"]
    wanted = estimator.predict_proba(table.slice(0, 50).drop_columns("dear"))
    assert np.allclose(found["probabilities"], wanted, rtol=1e-12)


def test_health_says_what_is_served(served):
    assert served[1]("GET", "/health") == (200, {"status": "ok", "target": "dear", "components": 6})


@pytest.mark.parametrize(
    ("method", "where", "body", "status", "code"),
    [
        ("GET", "/", None, 404, "not_found"),
        ("POST", "/train", {"rows": [{}]}, 404, "not_found"),
        ("POST", "/predict", b"{", 400, "not_json"),
        ("POST", "/predict", {"rows": []}, 400, "no_rows"),
        ("POST", "/predict", [1], 400, "no_rows"),
        ("POST", "/predict", {"rows": [{"age": 40}]}, 422, "bad_rows"),
        ("POST", "/predict", {"rows": [{"age": 40}, [1, 2]]}, 422, "bad_rows"),
        ("POST", "/predict", {"rows": [{"age": "old", "town": "Ulm"}]}, 422, "bad_rows"),
        ("POST", "/predict", {"rows": [[1, 2]] * 151}, 413, "too_many_rows"),
        ("POST", "/predict", b" " * 100_001, 413, "too_large"),
    ],
)
def test_a_mistake_is_answered_with_its_code(served, method, where, body, status, code):
    found_status, found = served[1](method, where, body)
    assert (found_status, found["error"]["code"]) == (status, code)
    assert len(found["error"]["message"]) > 10


def test_many_may_ask_at_once(served, table):
    estimator, ask = served
    rows = table.select(["age", "town"]).slice(0, 20)
    wanted, found = estimator.predict(rows).tolist(), []
    threads = [
        threading.Thread(target=lambda: found.append(ask("POST", "/predict", {"rows": rows.to_pylist()})[1]))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer["predictions"] for answer in found] == [wanted] * 8
