"""Serving in one run: nanoseconds a row of the C header, microseconds of one call from Python, sizes and cold starts.

The header is compiled by gcc -O3 -march=native, if there is one. Cold starts are processor seconds of new processes
with an empty cache of compiled loops: load a saved model and predict ten rows. What a first fit compiles is the time by
which it is longer than a second one of the same process. All times are of the processor.
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
from time import process_time

import lightgbm
import numpy as np
import onnxruntime
import pandas as pd
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

FIRST = {
    "default": "rflaf.RFLAFRegressor(n_jobs=1, random_state=0).fit(X, y)",
    "classifier": "rflaf.RFLAFClassifier(n_jobs=1, random_state=0).fit(X, y > 1)",
    "quantile": "rflaf.RFLAFRegressor(loss='quantile', quantile=0.9, n_jobs=1, random_state=0).fit(X, y)",
    "huber": "rflaf.RFLAFRegressor(loss='huber', n_jobs=1, random_state=0).fit(X, y)",
    "convex": "rflaf.RFLAFRegressor.convex(n_jobs=1, random_state=0).fit(X, y)",
    "paper": "rflaf.RFLAFRegressor.paper(n_components=100, pool_size=1000, n_jobs=1, random_state=0).fit(X, y)",
}
TWICE = """
from time import process_time
import numpy as np, rflaf
from rflaf.functions import _kernels
X = np.random.default_rng(0).standard_normal((1000, 10))
y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3]
times = []
for _ in range(2):
    before = process_time()
    {fit}
    times.append(process_time() - before)
    loops = len(_kernels.cache.compiled())
print(times[0] - times[1], times[1], loops)
"""


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


def cold_start(command: list[str], runs: int) -> float:
    """The least processor seconds of some new processes."""
    seconds = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(seconds)


def first_fit(kind: str) -> str:
    """What the first fit of a new process compiles."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", TWICE.format(fit=FIRST[kind])]
        run = subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    compiling, fitting, loops = run.stdout.split()
    return f"{float(compiling):6.2f} s to compile {loops} loops, {float(fitting):.2f} s to fit"


def calls_a_turn(call: Callable[[], object]) -> int:
    return max(1, int(TURN / min(timeit.repeat(call, number=1, repeat=20))))


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=4000, rounds=101, widths=[30, 100], cold=3, first=list(FIRST))
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
        for key, seconds in medians(turns, given.rounds, process_time).items():
            size = f"{sizes[key]:>10,} bytes" if key in sizes else ""
            print(f"{key:<44} {seconds / times[key] / rows_a_call.get(key, 1) * 1e9:10.0f} ns a row {size}")
        rflaf.save(ours, folder / "model.rflaf")
        trees.save_model(folder / "trees.txt")
        boosted.save_model(folder / "boosted.json")
        rflaf.to_onnx(ours, folder / "model.onnx")
        np.save(folder / "rows.npy", X[:10])
        files = ["model.rflaf", "model.rflaf", "trees.txt", "boosted.json", "model.onnx"]
        for (key, code), file in zip(COLD.items(), files, strict=True):
            given_to = f"import numpy as np; path, rows = {str(folder / file)!r}, np.load({str(folder / 'rows.npy')!r})"
            seconds = cold_start([sys.executable, "-c", f"{given_to}; {code}"], given.cold)
            print(f"cold start, {key:<32} {seconds:10.2f} s      {(folder / file).stat().st_size:>10,} bytes")
        table = pd.DataFrame(X).add_prefix("x").assign(y=y)
        rflaf.save(rflaf.RFLAFRegressor(given.widths[-1], random_state=0).fit(table, "y"), folder / "table.rflaf")
        table[:10].to_csv(folder / "ten.csv", index=False)
        words = ["rflaf", "predict", str(folder / "table.rflaf"), str(folder / "ten.csv")]
        for key, command in {"rflaf predict": ["-m", *words], "import numpy": ["-c", "import numpy"]}.items():
            print(f"cold start, {key:<32} {cold_start([sys.executable, *command], given.cold):10.2f} s")
        for kind in given.first:
            print(f"first fit, {kind:<33} {first_fit(kind)}")


if __name__ == "__main__":
    main()
