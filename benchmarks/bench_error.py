"""Test error on protein: three seeds, 80/20 split, shared activation, both bases, against RBFSampler + Ridge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from interleaved import options
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import standardised

from rflaf import RFLAFRegressor

SHARED = {"directions": "random", "activation": "shared"}
LIMITS = {100: 0.64, 1000: 0.505}


def contestants(width: int, seed: int) -> dict[str, object]:
    def pipeline(gamma: float | str) -> object:
        sampler = RBFSampler(gamma=gamma, n_components=width, random_state=seed)
        return make_pipeline(StandardScaler(), sampler, Ridge())

    return {
        "rflaf, bspline": RFLAFRegressor(width, random_state=seed, **SHARED),
        "rflaf, rbf": RFLAFRegressor(width, basis="rbf", random_state=seed, **SHARED),
        "rflaf, bspline, leverage": RFLAFRegressor.paper(width, basis="bspline", random_state=seed),
        "RBFSampler(gamma=1) + Ridge": pipeline(1.0),
        "RBFSampler(gamma='scale') + Ridge": pipeline("scale"),
    }


def main(argv: Sequence[str] | None = None) -> None:
    given = options(__doc__, argv, rows=None, seeds=[0, 1, 2], widths=[30, 100, 300, 1000])
    X, y = standardised("protein", given.rows)
    for width in given.widths:
        errors: dict[str, list[float]] = {}
        for seed in given.seeds:
            X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
            for name, model in contestants(width, seed).items():
                model.fit(X_train, y_train)
                errors.setdefault(name, []).append(float(np.mean((model.predict(X_test) - y_test) ** 2)))
        limit = f"limit {LIMITS[width]}" if width in LIMITS else ""
        for name, values in errors.items():
            print(f"S={width:<5} {name:<36} {np.mean(values):.4f}   {np.round(values, 4)}   {limit}", flush=True)


if __name__ == "__main__":
    main()
