"""Streams of classes row by row, each row predicted before it is learned: a case of ``classes``."""

from __future__ import annotations

import argparse
import time

import numpy as np

from sktagi import TAGIClassifier

from .checkouts import folder_of
from .classes_methods import checkout_process
from .distribution_rows import outcome, percent
from .markdown import markdown

__all__ = ["streams"]

FOREST = "river's adaptive random forest"
OF_RIVER = ("Phishing", "Bananas", "ImageSegments")
BLOBS = "40 classes"
N_ROWS = 1500  # of a stream at most


def rows_of_stream(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and class numbers: of a set of river, or of 40 Gaussian classes that overlap."""
    if name == BLOBS:
        rng = np.random.default_rng(seed)
        centres, y = 2 * rng.normal(size=(40, 10)), rng.integers(40, size=N_ROWS)
        return centres[y] + 1.2 * rng.normal(size=(N_ROWS, 10)), y
    from river import datasets

    pairs = list(getattr(datasets, name)().take(N_ROWS))
    X = np.array([list(x.values()) for x, _ in pairs], dtype=float)
    return X, np.unique([str(y) for _, y in pairs], return_inverse=True)[1]


def prequential(name: str, seed: int, n_members: int | None) -> list[float]:
    """Share of right classes, log-loss and milliseconds a row; without members, of the forest."""
    X, y = rows_of_stream(name, seed)
    classes = np.arange(y.max() + 1)
    if n_members is None:
        from river import forest

        model = forest.ARFClassifier(seed=seed)
    else:
        model = TAGIClassifier(n_members=n_members, random_state=seed)
    right, loss, start = 0, 0.0, time.process_time()
    for row in range(len(y)):
        if n_members is None:
            x = dict(enumerate(X[row]))
            found = model.predict_proba_one(x)
            proba = np.array([found.get(k, 0.0) for k in classes])
            model.learn_one(x, int(y[row]))
        else:
            x = X[row : row + 1]
            proba = model.predict_proba(x)[0] if row else np.full(len(classes), 1 / len(classes))
            model.partial_fit(x, y[row : row + 1], classes=classes)
        right += int(proba.argmax() == y[row])
        loss -= float(np.log(max(proba[y[row]], 1e-6)))
    return [right / len(y), loss / len(y), 1000 * (time.process_time() - start) / len(y)]


def streams(args: argparse.Namespace, seeds: int) -> None:
    """Print the share of right classes, the log-loss and milliseconds a row of each stream."""
    methods: dict = {
        "sktagi, 1 member": (None, 1),
        "sktagi, 5 members": (None, 5),
        FOREST: (None, None),
    }
    if args.before:
        before = str(folder_of(args.before))
        methods |= {"before, 1 member": (before, 1), "before, 5 members": (before, 5)}
    lines, gains = [], []
    for name in (*OF_RIVER, BLOBS):
        found = {}
        for method, (checkout, n_members) in methods.items():
            each = []
            for seed in range(seeds):
                given = name, seed, n_members
                if checkout is None:
                    each.append(prequential(*given))
                else:
                    each.append(checkout_process(checkout).call(prequential, *given))
            right, loss, ms = found[method] = np.mean(each, axis=0)
            lines.append([name, method, percent(right), f"{loss:.3f}", f"{ms:.2f}"])
        for members in ("1 member", "5 members") if args.before else ():
            now, before_now = found[f"sktagi, {members}"], found[f"before, {members}"]
            gains += [now[0] - before_now[0], before_now[1] - now[1]]
    print(markdown(["stream", "", "right", "log-loss", "ms a row"], lines))
    if args.before:
        print(outcome("no fewer right classes and no larger log-loss than before", gains, low=0))
