"""Seconds of a fit beside MLPRegressor's: the same network, rows, batches and epochs.

    python -m benchmarks.speed

Medians over interleaved repeats in one run, on made data with the shape of the concrete set.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

from sktagi import TAGIRegressor


def seconds(model, X, y) -> float:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return time.perf_counter() - start


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args(argv)
    X, y = make_friedman1(927, n_features=8, random_state=0)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    models = {
        "MLPRegressor, batches of 10": MLPRegressor(
            hidden_layer_sizes=(50,), batch_size=10, max_iter=40, tol=0, n_iter_no_change=100
        ),
        "TAGIRegressor, the paper's setting": TAGIRegressor(
            sigma_v=0.32, batch_size=10, batch_inference="independent", half_life=None,
            n_members=1, early_stopping=False, max_iter=40,
        ),
        "TAGIRegressor, default": TAGIRegressor(),
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(args.repeats):
        for name, model in models.items():
            times[name].append(seconds(model, X, y))
    base = np.median(next(iter(times.values())))
    for name, taken in times.items():
        median = np.median(taken)
        print(f"{name:36s} {median:6.2f} s   {median / base:5.2f} of MLPRegressor")


if __name__ == "__main__":
    main()
