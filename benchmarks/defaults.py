"""How the defaults were chosen: each variant on inner splits of the training parts.

    python -m benchmarks defaults --data FOLDER
    python -m benchmarks defaults --data FOLDER --variants default "n_members=5" "without pieces"
    python -m benchmarks defaults --data FOLDER --sets boston pendulum --splits 5 --rows 1000

The test rows of a split are not used: its training part is divided again, nine tenths to fit and
one tenth to compare. (Splits are independent draws, so a row compared here is a test row of other
splits.) A variant changes one thing in the defaults: a parameter, or something inside the package
that has no parameter, which is then replaced while that variant is fitted. Prints the RMSE relative
to that of the first variant (geometric mean over sets) and the difference in log-likelihood (mean
over sets), then RMSE/log-likelihood of each set. FOLDER holds uci/<name>.npz and
tables/<name>.npz; without it the sets of uci are fetched from OpenML.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from sktagi import TAGIRegressor, _base
from sktagi.engine import encoding, kinds, learning, training

from .data import UCI, add_data_option, digest
from .distribution_rows import inner_rows, n_splits, uci_and_tables
from .harness import add_run_options, evaluate, positive, run
from .markdown import markdown

SETS = ["boston", "concrete", "energy", "yacht", "wine", "kin8nm", "naval", "pendulum"]


class Variant(NamedTuple):
    """What is changed: parameters, or something inside that has a name in ``INSIDE``."""

    params: dict[str, Any] = {}
    inside: str | None = None


def _kinds_without(name: str):
    """The kinds that are tried, without one of them."""
    return lambda *rows, **about: [k for k in kinds.kinds_for(*rows, **about) if k.name != name]


def _kinds_with(**fields):
    """The kinds that are tried, all with other settings."""
    return lambda *rows, **about: [k._replace(**fields) for k in kinds.kinds_for(*rows, **about)]


def _accept_uncalibrated(model, net) -> None:
    """Predict with variances and noise as they were learned."""
    net.calibration = None
    model._net = net


# (where, name, value) of what is replaced while a variant is fitted
INSIDE: dict[str, tuple[Any, str, Any]] = {
    **{f"without {name}": (_base, "kinds_for", _kinds_without(name))
       for name in ("linear", "smooth", "pieces", "deep")},
    "no whitening": (kinds, "find_whitening", lambda x, weight: None),
    "4 pieces": (encoding, "N_PIECES", 4),
    "16 pieces": (encoding, "N_PIECES", 16),
    "no race": (training, "LEAST_IN_RACE", 0.0),
    "biases of kinds 0.01": (_base, "kinds_for", _kinds_with(bias_variance=0.01)),
    "no annealing": (learning.Settings, "forgetting_left", lambda settings, done: 1.0),
    "double precision": (_base, "SINGLE_PRECISION_ROWS", np.inf),
    "not calibrated": (_base.BaseTAGI, "_accept", _accept_uncalibrated),
}  # fmt: skip


def _alone(*sizes: int) -> Variant:
    """One kind of network: its sizes are given."""
    return Variant({"hidden_layer_sizes": list(sizes)})


VARIANTS: dict[str, Variant] = {
    "default": Variant(),
    "hidden_layer_sizes=()": _alone(),
    "hidden_layer_sizes=(50,)": _alone(50),
    "hidden_layer_sizes=(50, 50)": _alone(50, 50),
    "n_members=5": Variant({"n_members": 5}),
    "n_members=10": Variant({"n_members": 10}),
    "max_iter=20": Variant({"max_iter": 20}),
    "max_iter=40": Variant({"max_iter": 40}),
    "max_iter=100": Variant({"max_iter": 100}),
    "half_life=None": Variant({"half_life": None}),
    **{name: Variant(inside=name) for name in INSIDE},
    "n_iter_no_change=10": Variant({"n_iter_no_change": 10}),
    "batch_size=32": Variant({"batch_size": 32}),
    "batch_size=128": Variant({"batch_size": 128}),
    "validation_fraction=0.2": Variant({"validation_fraction": 0.2}),
    "early_stopping=False": Variant({"early_stopping": False}),
    "weight_gain=0.5": Variant({"weight_gain": 0.5}),
    "weight_gain=2": Variant({"weight_gain": 2.0}),
}


@contextmanager
def replaced(name: str | None) -> Iterator[None]:
    """Replace something inside the package, by its name in ``INSIDE``, while the context lasts."""
    with ExitStack() as stack:
        if name is not None:
            stack.enter_context(mock.patch.object(*INSIDE[name]))
        yield


def fit_inner(
    data: str | None, name: str, split: int, rows: int, params: dict, inside: str | None
) -> dict:
    """Scores of a variant on an inner split."""
    with replaced(inside):
        return evaluate(
            TAGIRegressor(random_state=split, **params), *inner_rows(data, name, split, rows)
        )


def report(names: list[str], variants: list[str], results: list[dict]) -> str:
    """A line for each variant, compared with the first."""
    table = {}
    for variant in variants:
        settings = VARIANTS[variant]._asdict()
        of_variant = [r for r in results if settings.items() <= r["job"].items()]
        table[variant] = np.array([
            np.mean([
                [r["result"][key] for key in ("rmse", "log_likelihood", "seconds")]
                for r in of_variant if r["job"]["name"] == name
            ], axis=0)
            for name in names
        ])  # fmt: skip
    base = table[variants[0]]
    lines = []
    for variant, cells in table.items():
        ratio = np.exp(np.mean(np.log(cells[:, 0] / base[:, 0])))
        gain = np.mean(cells[:, 1] - base[:, 1])
        lines.append(
            [variant, f"{ratio:.3f}", f"{gain:+.3f}", f"{cells[:, 2].mean():.1f}"]
            + [f"{rmse:.4g}/{log_lik:.3f}" for rmse, log_lik, _ in cells]
        )
    return markdown(["variant", "RMSE ratio", "LL difference", "seconds", *names], lines)


def options(parser: argparse.ArgumentParser) -> None:
    add_data_option(parser, "uci/ and tables/")
    parser.add_argument(
        "--sets", nargs="+", default=SETS, choices=uci_and_tables(), metavar="NAME",
        help=f"data sets; default: {', '.join(SETS)}",
    )  # fmt: skip
    parser.add_argument(
        "--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="NAME",
        help=f"of {', '.join(VARIANTS)}; others are compared with the first; default: all",
    )  # fmt: skip
    parser.add_argument(
        "--splits", type=positive, default=2, metavar="N", help="the first N; default: %(default)s"
    )
    parser.add_argument(
        "--rows", type=positive, default=2000, metavar="N",
        help="rows to learn from, at most; default: %(default)s",
    )  # fmt: skip
    add_run_options(parser, "defaults")


def main(args: argparse.Namespace) -> None:
    variants, sets = list(dict.fromkeys(args.variants)), list(dict.fromkeys(args.sets))
    if args.data is None:  # OpenML has the sets of uci
        sets = [name for name in sets if name in UCI]
    if not sets:
        raise SystemExit("there is nothing to fit")
    jobs, costs = [], []
    for name in sets:
        rows = inner_rows(args.data, name, 0, args.rows)
        jobs += [
            {"name": name, "split": split, "rows": args.rows, **VARIANTS[variant]._asdict(),
             "about": {"data": digest(*rows)}}
            for split in range(min(args.splits, n_splits(args.data, name)))
            for variant in variants
        ]  # fmt: skip
        costs += [float(len(rows[0]))] * (len(jobs) - len(costs))
    print(report(sets, variants, run("defaults", fit_inner, jobs, args, costs)))
