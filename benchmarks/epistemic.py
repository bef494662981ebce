"""Is the split of the standard deviation into network and noise right, and larger between data?

    python -m benchmarks epistemic
    python -m benchmarks epistemic --seeds 3 --params "{'n_members': 1}"

Prints the tables of doc/predictions.md. The first has data whose noise and function are known: the
mean aleatoric variance over the true one at new rows, and the network's (epistemic) standard
deviation over the error of the mean, both as root mean squares. The second has data in two clusters
along the first feature: the network's standard deviation between them over that inside, and the
error over it, beside ``GaussianProcessRegressor`` with an RBF and a WhiteKernel (up to 200 rows).
Medians over seeds, with the least and the greatest value.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sktagi import TAGIRegressor

from .harness import positive
from .markdown import markdown

NEW = 1000
MOST_OF_GP = 200
# What is known of rows: X, y; new X, their noiseless targets and their noise variance
Known = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def linear(n: int, n_features: int, seed: int) -> Known:
    """y = x0 + N(0, 1)."""
    rng = np.random.default_rng(seed)
    X, new = rng.normal(size=(n, n_features)), rng.normal(size=(NEW, n_features))
    return X, X[:, 0] + rng.normal(size=n), new, new[:, 0], np.ones(NEW)


def friedman(n: int, seed: int) -> Known:
    X, y = make_friedman1(n, noise=1, random_state=seed)
    new, mean = make_friedman1(NEW, noise=0, random_state=seed + 1000)
    return X, y, new, mean, np.ones(NEW)


def sine(n: int, varies: bool, seed: int) -> Known:
    """y = sin(2 x) and noise of the std 0.3, or from 0.1 to 0.7."""
    rng = np.random.default_rng(seed)
    X, new = rng.uniform(-3, 3, (n, 1)), rng.uniform(-3, 3, (NEW, 1))
    std, new_std = (0.4 + 0.1 * x[:, 0] if varies else np.full(len(x), 0.3) for x in (X, new))
    y = np.sin(2 * X[:, 0]) + std * rng.normal(size=n)
    return X, y, new, np.sin(2 * new[:, 0]), np.square(new_std)


SPLIT: dict[str, Callable[[int], Known]] = {
    "x0 + N(0, 1), 1 feature, 100 rows": lambda s: linear(100, 1, s),
    "x0 + N(0, 1), 1 feature, 1000 rows": lambda s: linear(1000, 1, s),
    "x0 + N(0, 1), 5 features, 100 rows": lambda s: linear(100, 5, s),
    "x0 + N(0, 1), 5 features, 1000 rows": lambda s: linear(1000, 5, s),
    "Friedman's function, 10 features, 1000 rows": lambda s: friedman(1000, s),
    "sine, 300 rows": lambda s: sine(300, False, s),
    "sine, noise that varies, 300 rows": lambda s: sine(300, True, s),
    "sine, noise that varies, 1000 rows": lambda s: sine(1000, True, s),
}


def function(X: np.ndarray) -> np.ndarray:
    return np.sin(2 * X[:, 0]) + (0.5 * X[:, 1] ** 2 if X.shape[1] > 1 else 0)


def clusters(n: int, n_features: int, seed: int) -> tuple[np.ndarray, ...]:
    """X and y with the noise 0.1, 1.5 < abs(x0) < 3; new rows inside, and with abs(x0) < 0.75."""
    rng = np.random.default_rng(seed)

    def draw(n: int, ends: list[tuple[float, float]]) -> np.ndarray:
        X = rng.uniform(-1, 1, (n, n_features))
        low, high = np.array(ends)[rng.integers(len(ends), size=n)].T
        X[:, 0] = rng.uniform(low, high)
        return X

    both = [(-3.0, -1.5), (1.5, 3.0)]
    X, inside, gap = draw(n, both), draw(NEW, both), draw(NEW, [(-0.75, 0.75)])
    return X, function(X) + 0.1 * rng.normal(size=n), inside, gap


def split_of(rows: Known, params: dict, seed: int) -> tuple[float, float]:
    X, y, new, truth, noise = rows
    model = TAGIRegressor(random_state=seed, **params).fit(X, y)
    epistemic, aleatoric = model.predict_variance(new)
    error = np.mean(np.square(model.predict(new) - truth))
    return aleatoric.mean() / noise.mean(), np.sqrt(epistemic.mean() / error)


def tagi(X: np.ndarray, y: np.ndarray, params: dict, seed: int) -> Callable:
    model = TAGIRegressor(random_state=seed, **params).fit(X, y)
    return lambda Z: (model.predict(Z), model.predict_variance(Z)[0])


def gaussian_process(X: np.ndarray, y: np.ndarray, params: dict, seed: int) -> Callable:
    scaler = StandardScaler().fit(X)
    kernel = ConstantKernel() * RBF(np.ones(X.shape[1])) + WhiteKernel()
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=1, random_state=seed
    ).fit(scaler.transform(X), y)
    noise = model.kernel_.k2.noise_level * y.var()

    def predict(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, std = model.predict(scaler.transform(Z), return_std=True)
        return mean, np.maximum(std**2 - noise, 0)

    return predict


def gap_of(fit: Callable, n: int, n_features: int, params: dict, seed: int) -> list[float]:
    """The std in the gap over that inside; the std over the error inside, and in the gap."""
    X, y, inside, gap = clusters(n, n_features, seed)
    predict, std, error = fit(X, y, params, seed), [], []
    for Z in (inside, gap):
        mean, var = predict(Z)
        std.append(np.sqrt(var.mean()))
        error.append(np.sqrt(np.mean(np.square(mean - function(Z)))))
    return [std[1] / std[0], std[0] / error[0], std[1] / error[1]]


def cells(found: list) -> list[str]:
    columns = zip(*found, strict=True)
    return [f"{np.median(a):.2f} ({min(a):.2f} to {max(a):.2f})" for a in columns]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=positive, default=6)
    parser.add_argument("--rows", type=positive, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--features", type=positive, nargs="+", default=[1, 2, 5])
    parser.add_argument(
        "--params", type=ast.literal_eval, default={}, help="of TAGIRegressor, a dict"
    )


def main(args: argparse.Namespace) -> None:
    seeds = range(args.seeds)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = []
        for name, rows in SPLIT.items():
            lines.append([name, *cells([split_of(rows(s), args.params, s) for s in seeds])])
        print(markdown(["data", "noise variance / true", "network's std / error"], lines))
        lines = []
        for n_features in args.features:
            for n in args.rows:
                for name, fit in (("TAGI", tagi), ("GP", gaussian_process)):
                    if name == "GP" and n > MOST_OF_GP:
                        continue
                    found = [gap_of(fit, n, n_features, args.params, s) for s in seeds]
                    lines.append([str(n_features), str(n), name, *cells(found)])
    header = ["features", "rows", "", "std in the gap / inside"]
    header += ["std / error inside", "std / error in the gap"]
    print("\n" + markdown(header, lines))
