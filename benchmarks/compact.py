"""Test error of the compact models by width on the real data sets, three seeds, and of what they are measured against.

python benchmarks/compact.py [data set ...] [--seeds 0 1 2] [--widths 30 100 300] [--picture FILE]. The share of test
targets within the 90 % interval and the seconds of a fit stand beside each error.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter

import numpy as np
from sklearn.model_selection import train_test_split
from tables import REGRESSION, standardised

from rflaf import RFLAFRegressor


def contestants(seed: int, given: argparse.Namespace) -> dict[str, object]:
    from lightgbm import LGBMRegressor

    shared = {"directions": "random", "activation": "shared", "random_state": seed}
    models: dict[str, object] = {}
    usual, widest = given.widths[len(given.widths) // 2], 10 * given.widths[len(given.widths) // 2]
    for width in given.widths:
        models[f"refined, S={width}"] = RFLAFRegressor(width, random_state=seed)
        models[f"refined, no curves, S={width}"] = RFLAFRegressor(width, curves=False, random_state=seed)
        models[f"convex, S={width}"] = RFLAFRegressor.convex(width, random_state=seed)
        models[f"shared, plain, S={width}"] = RFLAFRegressor(width, **shared)
    return models | {
        f"refined, shared activation, S={usual}": RFLAFRegressor(usual, activation="shared", random_state=seed),
        f"shared, plain, S={widest}": RFLAFRegressor(widest, **shared),
        **{
            f"LightGBM, {n_trees} trees": LGBMRegressor(n_estimators=n_trees, n_jobs=2, random_state=seed, verbose=-1)
            for n_trees in given.trees
        },
    }


def coverage(model: object, X: np.ndarray, y: np.ndarray) -> float:
    """Share of the targets within the 90 % interval of the model, or not a number where it has none."""
    if not isinstance(model, RFLAFRegressor):
        return float("nan")
    mean, deviation = model.predict(X, return_std=True)
    return float(np.mean(np.abs(y - mean) < 1.6449 * deviation))


def compare(X: np.ndarray, y: np.ndarray, given: argparse.Namespace) -> dict[str, np.ndarray]:
    """Test error, coverage and seconds of every contestant: (n_seeds, 3)."""
    outcomes: dict[str, list[tuple[float, float, float]]] = {}
    for seed in given.seeds:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        for name, model in contestants(seed, given).items():
            start = perf_counter()
            model.fit(X_train, y_train)
            seconds = perf_counter() - start
            error = float(np.mean((model.predict(X_test) - y_test) ** 2))
            outcomes.setdefault(name, []).append((error, coverage(model, X_test, y_test), seconds))
    return {name: np.array(values) for name, values in outcomes.items()}


def hardships(X: np.ndarray, y: np.ndarray, given: argparse.Namespace) -> None:
    """30 columns of pure noise, and one target in a hundred shifted by 20 standard deviations: ours and LightGBM."""
    from lightgbm import LGBMRegressor

    errors: dict[str, list[list[float]]] = {}
    for seed in given.seeds:
        rng = np.random.default_rng(seed)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
        noise = [rng.standard_normal((len(rows), 30)).astype(X.dtype) for rows in (X_train, X_test)]
        shifted = y_train.copy()
        odd = rng.choice(len(shifted), len(shifted) // 100, replace=False)
        shifted[odd] += 20 * rng.choice([-1, 1], odd.size)
        cases = {
            "as it is": (X_train, y_train, X_test),
            "30 noise columns": (np.hstack([X_train, noise[0]]), y_train, np.hstack([X_test, noise[1]])),
            "1 % of y shifted": (X_train, shifted, X_test),
        }
        for case, (rows, targets, test) in cases.items():
            usual = given.widths[len(given.widths) // 2]
            models = RFLAFRegressor(usual, random_state=seed), LGBMRegressor(n_jobs=2, random_state=seed, verbose=-1)
            found = [float(np.mean((model.fit(rows, targets).predict(test) - y_test) ** 2)) for model in models]
            errors.setdefault(case, []).append(found)
    for case, found in errors.items():
        ours, trees = np.mean(found, axis=0)
        print(f"kin8nm, {case:<20} rflaf {ours:.4f}   LightGBM {trees:.4f}", flush=True)


def draw(table: dict[str, dict[str, np.ndarray]], given: argparse.Namespace) -> None:
    """Error against width for every data set."""
    from rflaf.inspection.plots import BLUE, GREEN, GREY, ORANGE, VERMILION, require_matplotlib

    plt = require_matplotlib()
    from matplotlib.ticker import LogLocator

    figure, axes = plt.subplots(1, len(table), figsize=(3.6 * len(table), 3.4), squeeze=False, layout="constrained")
    widest = 10 * given.widths[len(given.widths) // 2]
    lines = {
        "shared, plain": (GREY, "s"),
        "convex": (ORANGE, "^"),
        "refined, no curves": (GREEN, "v"),
        "refined": (BLUE, "o"),
    }
    for ax, (name, outcomes) in zip(axes[0], table.items(), strict=True):
        for label, (color, marker) in lines.items():
            widths = [*given.widths, widest] if label == "shared, plain" else given.widths
            errors = [outcomes[f"{label}, S={width}"][:, 0].mean() for width in widths]
            ax.plot(widths, errors, marker=marker, color=color, label=label)
        for trees, style in zip(given.trees, (":", "--"), strict=False):
            error = outcomes[f"LightGBM, {trees} trees"][:, 0].mean()
            ax.axhline(error, ls=style, lw=1, color=VERMILION, label=f"LightGBM, {trees} trees")
        ax.set(xscale="log", yscale="log", xlabel="width S", title=name)
        ax.set_xticks([*given.widths, widest], [str(width) for width in (*given.widths, widest)])
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("test error / variance")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.savefig(given.picture, dpi=150)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"data sets, of {', '.join(REGRESSION)}; all unless named")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of the splits and models")
    parser.add_argument("--picture", help="file for a picture of error against width")
    parser.add_argument("--rows", type=int, help="first rows of each table; all unless given")
    parser.add_argument("--widths", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--trees", type=int, nargs="+", default=[100, 1000])
    given = parser.parse_args(argv)
    table = {}
    for name in given.names or REGRESSION:
        X, y = standardised(name, given.rows)
        X = np.asarray(X, np.float32)
        table[name] = compare(X, y, given)
        for model, values in table[name].items():
            error, covered, seconds = values.mean(axis=0)
            print(f"{name:<17} {model:<34} {error:.4f}   covers {covered:.3f}   {seconds:6.2f} s", flush=True)
        if name == "kin8nm":
            hardships(X, y, given)
    if given.picture:
        draw(table, given)


if __name__ == "__main__":
    main()
