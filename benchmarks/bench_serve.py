"""Serving in one run: nanoseconds a row of the C header, microseconds of one call from Python, sizes and cold starts.

The header is compiled by gcc -O3 -march=native, if there is one. Cold starts are processor seconds of new processes
with an empty cache of compiled loops: load a saved model and predict ten rows.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import lightgbm
import numpy as np
import onnxruntime
import xgboost
from interleaved import medians, options
from threadpoolctl import threadpool_limits

import rflaf

D = 10
TURN = 3e-4  # seconds
LOOP = """#include "model.h"
void many(long n, long times, const float *x, float *out);
void many(long n, long times, const float *x, float *out)
{
    for (long t = 0; t < times; t++)
        for (long i = 0; i < n; i++)
            rflaf_predict(x + i * RFLAF_N_FEATURES, out + i * RFLAF_N_OUT);
}
"""
COLD = {
    "rflaf": "import rflaf; model = rflaf.load_predictor(path); model.predict(rows)",
    "rflaf, the whole estimator": "import rflaf; model = rflaf.load(path); model.predict(rows)",
    "LightGBM": "import lightgbm; lightgbm.Booster(model_file=path).predict(rows)",
    "XGBoost": "import xgboost; model = xgboost.Booster(model_file=path); model.inplace_predict(rows)",
    "ONNX Runtime": "import onnxruntime; s = onnxruntime.InferenceSession(path); s.run(None, {'X': rows.astype('f4')})",
}


def in_c(estimator: rflaf.RFLAFRegressor, X: np.ndarray, folder: Path) -> tuple[Callable[[], object], int] | None:
    """A call of the compiled header for all rows, and the bytes of its machine code and tables."""
    import ctypes

    if not shutil.which("gcc"):
        return None
    folder.mkdir()
    rflaf.to_c(estimator, folder / "model.h")
    (folder / "many.c").write_text(LOOP)
    flags = ["-O3", "-march=native", "-shared", "-fPIC", "-o", "many.so", "many.c", "-lm"]
    subprocess.run(["gcc", *flags], cwd=folder, check=True)
    many = ctypes.CDLL(str(folder / "many.so")).many
    rows, out = np.ascontiguousarray(X, np.float32), np.empty(len(X), np.float32)
    pointer = ctypes.POINTER(ctypes.c_float)
    arguments = (ctypes.c_long(len(X)), ctypes.c_long(1), rows.ctypes.data_as(pointer), out.ctypes.data_as(pointer))
    return lambda: many(*arguments), (folder / "model.h").stat().st_size


def compiled_trees(trees: lightgbm.Booster, row: np.ndarray, folder: Path) -> dict[str, Callable[[], object]]:
    """Calls of compilers of trees for one row, of those that are installed."""
    calls: dict[str, Callable[[], object]] = {}
    trees.save_model(folder / "to_compile.txt")
    with suppress(ImportError, AttributeError):  # its releases lag behind those of llvmlite
        import lleaves

        lowered = lleaves.Model(model_file=str(folder / "to_compile.txt"))
        lowered.compile()
        calls["lleaves, 100 trees"] = partial(lowered.predict, row, n_jobs=1)
    with suppress(ImportError):
        import tl2cgen
        import treelite

        forest = treelite.frontend.load_lightgbm_model(folder / "to_compile.txt")
        tl2cgen.export_lib(forest, toolchain="gcc", libpath=str(folder / "trees.so"), params={})
        predictor, rows = tl2cgen.Predictor(str(folder / "trees.so"), nthread=1), tl2cgen.DMatrix(row)
        calls["treelite, 100 trees"] = partial(predictor.predict, rows)
    return calls


def cold_start(code: str, path: Path, rows: Path, runs: int) -> float:
    """The least processor seconds of some new processes."""
    script = f"import numpy as np; path, rows = {str(path)!r}, np.load({str(rows)!r}); {code}"
    seconds = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def calls_a_turn(call: Callable[[], object]) -> int:
    return max(1, int(TURN / min(timeit.repeat(call, number=1, repeat=20))))


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=4000, rounds=101, widths=[30, 100], cold=3)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((given.rows, D))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3]
    row = X[:1].copy()
    trees = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1, n_jobs=1).fit(X, y).booster_
    boosted = xgboost.XGBRegressor(n_estimators=100, n_jobs=1).fit(X, y).get_booster()
    boosted.set_param("nthread", 1)
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        folder, calls, rows_a_call, sizes = Path(name), {}, {}, {}
        for width in given.widths:
            for what, curves in (("straight", False), ("curves", True)):
                ours = rflaf.RFLAFRegressor(width, curves=curves, random_state=0).fit(X, y)
                label = f"S={width}, {what}"
                compiled = in_c(ours, X, folder / f"c{width}{what}")
                if compiled is not None:
                    calls[f"C header, {label}"], sizes[f"C header, {label}"] = compiled
                    rows_a_call[f"C header, {label}"] = len(X)
                calls[f"model_.decision, {label}"] = partial(ours.model_.decision, row)
                calls[f"estimator.predict, {label}"] = partial(ours.predict, row)
        session = onnxruntime.InferenceSession(rflaf.to_onnx(ours).SerializeToString())
        calls["ONNX Runtime, the last"] = lambda: session.run(None, {"X": row.astype(np.float32)})
        calls["LightGBM, 100 trees"] = lambda: trees.predict(row, num_threads=1)
        calls["XGBoost, 100 trees"] = lambda: boosted.inplace_predict(row)
        calls |= compiled_trees(trees, row, folder)
        times = {key: calls_a_turn(call) for key, call in calls.items()}
        turns = {key: partial(timeit.timeit, call, number=times[key]) for key, call in calls.items()}
        for key, seconds in medians(turns, given.rounds).items():
            size = f"{sizes[key]:>10,} bytes" if key in sizes else ""
            print(f"{key:<44} {seconds / times[key] / rows_a_call.get(key, 1) * 1e9:10.0f} ns a row {size}")
        rflaf.save(ours, folder / "model.rflaf")
        trees.save_model(folder / "trees.txt")
        boosted.save_model(folder / "boosted.json")
        rflaf.to_onnx(ours, folder / "model.onnx")
        np.save(folder / "rows.npy", X[:10])
        files = ["model.rflaf", "model.rflaf", "trees.txt", "boosted.json", "model.onnx"]
        for (key, code), file in zip(COLD.items(), files, strict=True):
            seconds = cold_start(code, folder / file, folder / "rows.npy", given.cold)
            print(f"cold start, {key:<32} {seconds:10.2f} s      {(folder / file).stat().st_size:>10,} bytes")


if __name__ == "__main__":
    main()
