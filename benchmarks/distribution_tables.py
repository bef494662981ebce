"""Cases of ``python -m benchmarks distribution`` on tables, beside other estimators.

Inner splits of the training parts only; the parts of a case that need no table run without one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor

from sktagi import TAGIRegressor

from .checkouts import Checkout, folder_of
from .data import UCI
from .distribution_rows import (
    LEVEL,
    MOST,
    inner_rows,
    made_rows,
    median,
    outcome,
    percent,
    score,
    table_digest,
    uci_and_tables,
)
from .harness import run
from .markdown import lines_of, markdown
from .methods import StoppedNGBoost, installed

__all__ = ["fifths", "inner", "ratio", "scale"]


class QuantileBoosting(RegressorMixin, BaseEstimator):
    """HistGradientBoostingRegressor for the mean and for both ends of a 90 % interval."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        common = {"random_state": self.random_state}
        self.mean_ = HistGradientBoostingRegressor(**common).fit(X, y)
        self.ends_ = [
            HistGradientBoostingRegressor(loss="quantile", quantile=q, **common).fit(X, y)
            for q in (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
        ]
        return self

    def predict(self, X, return_std=False):
        """The std is that of a Gaussian whose interval is as wide."""
        mean = self.mean_.predict(X)
        if not return_std:
            return mean
        low, high = self.predict_interval(X).T
        width = np.maximum(high - low, np.finfo(float).tiny)
        return mean, width / (2 * stats.norm.ppf(0.5 + LEVEL / 2))

    def predict_interval(self, X, coverage=LEVEL):
        return np.sort(np.column_stack([end.predict(X) for end in self.ends_]))


RIVALS = {"NGBoost": ("ngboost", lambda seed: StoppedNGBoost(500, random_state=seed)),
          "HGB quantiles": ("scikit-learn", lambda seed: QuantileBoosting(seed))}  # fmt: skip


def fit_table(data: str, name: str, split: int, params: dict, rival: str | None = None) -> dict:
    """Scores of this package's regressor, or of a rival, on an inner split."""
    make = RIVALS[rival][1] if rival else _tagi
    return score(make(split, **params), *inner_rows(data, name, split))


def _tagi(seed: int, **params) -> TAGIRegressor:
    return TAGIRegressor((50,), random_state=seed, **params)


def on_tables(
    args: argparse.Namespace, names: Sequence[str], splits: int, params: dict, rival=None
) -> dict[str, list[dict]]:
    """The results of all splits, for each table."""
    package = RIVALS[rival][0] if rival else "sktagi"
    jobs = [
        {"name": name, "split": split, "params": params, **({"rival": rival} if rival else {}),
         "about": {"data": table_digest(args.data, name), "package": package}}
        for name in names
        for split in range(splits)
    ]  # fmt: skip
    found: dict[str, list[dict]] = {name: [] for name in names}
    for record in run("distribution tables", fit_table, jobs, args):
        found[record["job"]["name"]].append(record["result"])
    return found


def inner(args: argparse.Namespace, seeds: int) -> None:
    names = list(UCI)
    one = on_tables(args, names, seeds, {"sigma_v": "constant"})
    varying = on_tables(args, names, seeds, {"sigma_v": "auto"})
    keys = ("rmse", "log_likelihood", "seconds")
    # table, constant and auto, figure, split: both settings see the same rows of a split
    fits = np.array(
        [[[[r[key] for r in found[name]] for key in keys] for found in (one, varying)]
         for name in names]
    )  # fmt: skip
    cells, ratios = np.median(fits, axis=-1), np.median(fits[:, 1] / fits[:, 0], axis=-1)
    gains = np.median(fits[:, 1, 1] - fits[:, 0, 1], axis=-1)
    lines = [
        [name, f"{a[0]:.4g}", f"{b[0]:.4g}", f"{r[0]:.3f}", f"{a[1]:.3f}", f"{b[1]:.3f}",
         f"{gain:+.3f}", f"{r[2]:.2f}"]
        for name, (a, b), r, gain in zip(names, cells, ratios, gains, strict=True)
    ]  # fmt: skip
    mean_ratio = np.exp(np.mean(np.log(ratios[:, [0, 2]]), axis=0))
    scores = [f"{v:.3f}" for v in cells[:, :, 1].mean(axis=0)]
    lines.append(["mean", "", "", f"{mean_ratio[0]:.3f}", *scores, f"{gains.mean():+.3f}",
                  f"{mean_ratio[1]:.2f}"])  # fmt: skip
    columns = ["RMSE constant", "auto", "ratio", "log-likelihood constant", "auto", "gain",
               "seconds ratio"]  # fmt: skip
    print(markdown(["set", *columns], lines))


def worst_fifth(results: Sequence[dict]) -> float:
    """The smallest coverage of a fifth; rows of all splits are counted together."""
    inside, rows = (np.sum([r[key] for r in results], axis=0) for key in ("inside", "rows"))
    return float(np.min(inside / rows))


def perfect_fifth(results: Sequence[dict]) -> float:
    """The worst fifth to expect of intervals that are right everywhere: some fifth is unlucky."""
    rows = np.sum([r["rows"] for r in results], axis=0)
    draws = np.random.default_rng(0).binomial(rows, LEVEL, size=(10_000, len(rows)))
    return float(np.mean(np.min(draws / rows, axis=1)))


def fifths(args: argparse.Namespace, seeds: int) -> None:
    """Print coverage by fifth and the rank correlation of std and error, from the same fits."""
    names = uci_and_tables(least=300)
    found = {sigma_v: on_tables(args, names, seeds, {"sigma_v": sigma_v})
             for sigma_v in ("auto", "constant")}  # fmt: skip
    if args.before:
        with Checkout(folder_of(args.before)) as before:
            found["before"] = {
                name: [before.call(fit_table, args.data, name, k, {}) for k in range(seeds)]
                for name in names
            }
    for rival in RIVALS:
        if rival != "NGBoost" or installed("ngboost"):
            found[rival] = on_tables(args, names, seeds, {}, rival)
    figures = {
        "worst fifth": worst_fifth,
        "all rows": lambda results: float(np.mean([r["coverage"] for r in results])),
        "spearman": lambda results: median(results, "spearman"),
    }
    for what, figure in figures.items():
        table = np.array([[figure(by_name[name]) for by_name in found.values()] for name in names])
        show = percent if what != "spearman" else "{:.2f}".format
        columns = list(found)
        if figure is worst_fifth:
            perfect = [perfect_fifth(found["auto"][name]) for name in names]
            table, columns = np.column_stack([table, perfect]), [*columns, "perfect intervals"]
        lines = lines_of([*names, "mean"], [*table, table.mean(axis=0)], show)
        print(markdown([what, *columns], lines), end="\n\n")


def fit_scale(data: str | None, rows: str, units: list[int], n_members: int, seed: int) -> dict:
    model = TAGIRegressor(tuple(units), n_members=n_members, random_state=seed)
    if rows == "kin8nm":
        assert data is not None
        return score(model, *inner_rows(data, rows, seed))
    old, new = made_rows(rows, 1000, seed)
    return score(model, old.X, old.y, new.X, new.y)


def scale(args: argparse.Namespace, seeds: int) -> None:
    members = (1, 2, 5, 10)
    lines, rms, covered = [], [], []
    for rows in ("friedman", "kin8nm") if args.data else ("friedman",):
        about = {"about": {"data": table_digest(args.data, rows)}} if rows in UCI else {}
        for units in ([50], [50, 50], [200, 200]):
            cells = []
            for n_members in members:
                common = {"rows": rows, "units": units, "n_members": n_members, **about}
                jobs = [{**common, "seed": seed} for seed in range(seeds)]
                found = [r["result"] for r in run("distribution scale", fit_scale, jobs, args)]
                rms.append(median(found, "rms"))
                covered.append(median(found, "coverage"))
                cells.append(f"{rms[-1]:.2f}, {percent(covered[-1])}")
            lines.append([rows, str(tuple(units)), *cells])
    print(markdown(["set", "units", *(f"{m} member{'s' * (m > 1)}" for m in members)], lines))
    print(outcome("rms from 0.92 to 1.10", rms, 0.92, 1.10))
    print(outcome("coverage from 87 to 93 %", covered, 0.87, 0.93))


def ratio(args: argparse.Namespace, seeds: int) -> None:
    """Print variance over squared error, of all rows and of those with the smallest std."""
    names, members = uci_and_tables(), (1, 2, 5, 10)
    found = [on_tables(args, names, seeds, {"sigma_v": "auto", "n_members": m}) for m in members]
    figures = {"all rows": "", f"{MOST:.0%} of the rows": "_of_most"}
    for what, key in figures.items():
        cells = np.array([[pooled(by_name[name], key) for by_name in found] for name in names])
        means = np.exp(np.mean(np.log(cells), axis=0))
        rows = [*cells, means, np.median(cells, axis=0)]
        lines = lines_of([*names, "geometric mean", "median"], rows, "{:.2f}".format)
        print(markdown([what, *(f"{m} member{'s' * (m > 1)}" for m in members)], lines))
        print(outcome("geometric mean from 0.85 to 1.15", means.tolist(), 0.85, 1.15), end="\n\n")


def pooled(results: Sequence[dict], key: str) -> float:
    """Variance over squared error, rows of all splits together."""
    variance, squares = (sum(r[a + key] for r in results) for a in ("variance", "squares"))
    return variance / squares
