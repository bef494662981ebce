"""Stream river's data sets of classes through `sktagi.river`, with classes declared and without.

    python -m benchmarks rivers

Each row is predicted before it is learned; the first ones are not scored.
"""

from __future__ import annotations

import argparse
import math

from .markdown import markdown

DATASETS = "Phishing", "Bananas", "ImageSegments"
UNSCORED = 50


def score(name: str, n_rows: int, *, declared: bool) -> tuple[float, float]:
    """Return the share of errors and the log-loss of a data set."""
    from river import datasets

    from sktagi.river import TAGIClassifier

    dataset = getattr(datasets, name)
    classes = sorted({y for _, y in dataset()}) if declared else None
    model = TAGIClassifier(n_members=2, seed=0, classes=classes)
    n_wrong = n_scored = 0
    loss = 0.0
    for place, (x, y) in enumerate(dataset().take(n_rows)):
        proba = model.predict_proba_one(x)
        if place >= UNSCORED:
            n_scored += 1
            n_wrong += max(proba, key=proba.__getitem__) != y
            loss -= math.log(max(proba.get(y, 0), 1e-3))
        model.learn_one(x, y)
    return n_wrong / n_scored, loss / n_scored


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1250, help="of each data set, at most")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)


def main(args: argparse.Namespace) -> None:
    rows = []
    for name in args.datasets:
        for declared in (True, False):
            errors, loss = score(name, args.rows, declared=declared)
            rows.append([name, "yes" if declared else "no", f"{errors:.1%}", f"{loss:.3f}"])
    print(markdown(["stream", "classes declared", "errors", "log-loss"], rows))
