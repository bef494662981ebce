"""Streams that drift, or do not: the half-life that they choose, beside the best of fixed ones.

    python -m benchmarks forgetting

RMSE, or log-loss of classes, of all rows before they were learned. ``--cases`` chooses some.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

from sktagi import TAGIClassifier, TAGIRegressor

from .markdown import markdown
from .streams import drifting

__all__ = ["CASES", "Case", "loss_of_stream"]

KINDS = "stationary", "abrupt", "slow"
FIXED = 50.0, 100.0, 200.0, 400.0, 1000.0, 3000.0, None


class Case(NamedTuple):
    """How a stream is given, and to what."""

    chunk: int = 10
    hidden_layer_sizes: Any = (30,)
    n_members: int = 1
    noise: float = 0.2
    first: int = 0  # rows of a fit before
    classes: bool = False


CASES = {
    "one row a call": Case(1),
    "10 rows": Case(),
    "50 rows": Case(50),
    "500 rows": Case(500),
    "50 units": Case(hidden_layer_sizes="auto"),
    "two layers": Case(50, (50, 50)),
    "noise 0.05": Case(noise=0.05),
    "noise 0.6": Case(noise=0.6),
    "5 members": Case(50, n_members=5),
    "kinds after a fit": Case(50, "auto", first=1000),
    "classes": Case(hidden_layer_sizes="auto", classes=True),
    "classes, 50 rows": Case(50, classes=True),
}


def loss_of_stream(
    kind: str, case: Case, half_life: Any, seed: int, n_rows: int
) -> tuple[float, Any]:
    """Return the loss of the rows of a stream, and the estimator."""
    X, y = drifting(kind, n_rows, seed, case.noise)
    estimator: Any = TAGIRegressor
    if case.classes:  # three of equal size
        estimator, y = TAGIClassifier, np.digitize(y, [-0.5, 0.5])
    model = estimator(
        hidden_layer_sizes=case.hidden_layer_sizes, n_members=case.n_members, random_state=seed
    )
    known = {"classes": [0, 1, 2]} if case.classes else {}
    if case.first:
        model.fit(X[: case.first], y[: case.first])
    model.set_params(half_life=half_life)
    losses = []
    for start in range(case.first, n_rows, case.chunk):
        part = slice(start, start + case.chunk)
        if start and case.classes:
            proba = model.predict_proba(X[part])[np.arange(len(y[part])), y[part]]
            losses.append(-np.log(np.maximum(proba, 1e-6)))
        elif start:
            losses.append(np.square(model.predict(X[part]) - y[part]))
        model.partial_fit(X[part], y[part], **known)
    mean = float(np.mean(np.concatenate(losses)))
    return mean if case.classes else float(np.sqrt(mean)), model


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")


def main(args: argparse.Namespace) -> None:
    header = ["", "stream", "best half-life", "its loss", '"auto"', "ratio"]
    print(markdown(header, []), flush=True)
    for name in args.cases:
        for kind in KINDS:
            losses = {}
            for half_life in (*FIXED, "auto"):
                each = [
                    loss_of_stream(kind, CASES[name], half_life, seed, args.rows)[0]
                    for seed in range(args.seeds)
                ]
                losses[half_life] = float(np.mean(each))
            auto = losses.pop("auto")
            best = min(losses, key=losses.__getitem__)
            length = "None" if best is None else f"{best:.0f}"
            cells = [name, kind, length, f"{losses[best]:.3f}", f"{auto:.3f}"]
            print("| " + " | ".join([*cells, f"{auto / losses[best]:.3f}"]) + " |", flush=True)
