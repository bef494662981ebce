"""How the defaults were chosen: each variant on inner splits of the training parts.

    python -m benchmarks defaults --data FOLDER
    python -m benchmarks defaults --data FOLDER --variants default "n_members=5"

The test rows of a split are not used: its training part is divided again, nine tenths to fit and
one tenth to compare. (Splits are independent draws, so a row compared here is a test row of other
splits.) A variant changes one thing in the defaults. Prints the RMSE relative to that of the first
variant (geometric mean over sets) and the difference in log-likelihood (mean over sets), then the
figures of each set.
"""

from __future__ import annotations

import argparse

import numpy as np

from sktagi import TAGIRegressor

from .data import UCI, add_data_option, load_uci, uci_digest
from .harness import add_run_options, evaluate, run

SETS = {"boston": 5, "concrete": 4, "energy": 4, "kin8nm": 1, "wine": 4, "yacht": 5,
        "power": 1, "naval": 1}  # fmt: skip
ROWS_PER_PARAMETER = "rows_per_parameter"
CALIBRATED = "calibrated"
VARIANTS: dict[str, dict] = {
    "default": {},
    "not calibrated": {CALIBRATED: False},
    "half_life=1 per parameter": {ROWS_PER_PARAMETER: 1},
    "half_life=3 per parameter": {ROWS_PER_PARAMETER: 3},
    "half_life=10 per parameter": {ROWS_PER_PARAMETER: 10},
    "half_life=None": {"half_life": None},
    "batch_size=32": {"batch_size": 32},
    "batch_size=128": {"batch_size": 128},
    "n_members=1": {"n_members": 1},
    "n_members=3": {"n_members": 3},
    "n_members=5": {"n_members": 5},
    "n_iter_no_change=10": {"n_iter_no_change": 10},
    "max_iter=300, n_iter_no_change=40": {"max_iter": 300, "n_iter_no_change": 40},
    "validation_fraction=0.2": {"validation_fraction": 0.2},
    "early_stopping=False": {"early_stopping": False},
    "activation=relu_exact": {"activation": "relu_exact"},
    "weight_gain=0.5": {"weight_gain": 0.5},
    "weight_gain=2": {"weight_gain": 2.0},
    "hidden_layer_sizes=(100,)": {"hidden_layer_sizes": [100]},
    "hidden_layer_sizes=(50, 50)": {"hidden_layer_sizes": [50, 50]},
}


def inner_split(data: str | None, name: str, split: int):
    """Nine tenths and one tenth of the training part of a standard split."""
    X, y, tests = load_uci(data, name)
    train = np.setdiff1d(np.arange(len(y)), tests[split])
    order = np.random.RandomState(100 + split).permutation(train)
    held = max(len(order) // 10, 30)
    return X[order[held:]], y[order[held:]], X[order[:held]], y[order[:held]]


def fit_inner(data: str | None, name: str, split: int, params: dict) -> dict:
    rows = inner_split(data, name, split)
    params = dict(params)
    per_parameter = params.pop(ROWS_PER_PARAMETER, None)
    calibrated = params.pop(CALIBRATED, True)
    if per_parameter is not None:
        n_features = rows[0].shape[1]
        params["half_life"] = per_parameter * (n_features * 50 + 50 + 50 + 1)
    model = TAGIRegressor(random_state=split, **params)
    return evaluate(model if calibrated else _Uncalibrated(model), *rows)


class _Uncalibrated:
    """A regressor whose predictions use variances and noise as they were learned."""

    def __init__(self, model):
        self.model = model

    def fit(self, X, y):
        self.model.fit(X, y)
        self.model._net.calibration = None

    def __getattr__(self, name):
        return getattr(self.model, name)


def report(names: list[str], variants: list[str], results: list[dict]) -> str:
    lines = [
        "| variant | RMSE ratio | LL difference | seconds | " + " | ".join(names) + " |",
        "|---" * (4 + len(names)) + "|",
    ]
    table = {}
    for variant in variants:
        params = VARIANTS[variant]
        cells = []
        for name in names:
            rows = [
                r["result"]
                for r in results
                if r["job"]["name"] == name and r["job"]["params"] == params
            ]
            cells.append(
                [np.mean([row[k] for row in rows]) for k in ("rmse", "log_likelihood", "seconds")]
            )
        table[variant] = np.array(cells)
    base = table[variants[0]]
    for variant, cells in table.items():
        ratio = np.exp(np.mean(np.log(cells[:, 0] / base[:, 0])))
        gain = np.mean(cells[:, 1] - base[:, 1])
        lines.append(
            f"| {variant} | {ratio:.3f} | {gain:+.3f} | {cells[:, 2].mean():.1f} | "
            + " | ".join(f"{rmse:.4g}/{log_lik:.3f}" for rmse, log_lik, _ in cells)
            + " |"
        )
    return "\n".join(lines)


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser)
    parser.add_argument(
        "--sets", nargs="+", default=list(SETS), choices=list(UCI), metavar="NAME", help="data sets"
    )
    parser.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME",
        help="variants to compare, the first of them with the others",
    )  # fmt: skip
    add_run_options(parser, "defaults")


def main(args: argparse.Namespace) -> None:
    sets, variants = list(dict.fromkeys(args.sets)), list(dict.fromkeys(args.variants))
    about = {name: {"data": uci_digest(args.data, name)} for name in sets}
    n_splits = {name: min(SETS.get(name, 1), len(load_uci(args.data, name)[2])) for name in sets}
    jobs = [
        {"name": name, "split": split, "params": params, "about": about[name]}
        for name in sets
        for split in range(n_splits[name])
        for params in (VARIANTS[variant] for variant in variants)
    ]
    print(report(sets, variants, run("defaults", fit_inner, jobs, args)))
