"""Whether two states of the package compute the same: random configurations of both estimators.

    python -m benchmarks agreement --before FOLDER
    python -m benchmarks agreement --before FOLDER --configurations 1000 --seed 1
    python -m benchmarks agreement --before FOLDER --only 17    # one configuration, in full

FOLDER is a checkout of the earlier state; the other is this one. Each has a process of its own and
is used by public names only. A difference is the largest of an array, relative to the largest entry
of the array: max |a - b| / max |a|; log-likelihoods are compared as |a - b| if they are below 1.

Rounding errors grow, in some configurations a lot: the last table sets a difference beside that of
the earlier state with itself, with features that differ in their last bit. Where a different epoch
was kept, or training ended in another, the rest cannot agree: such configurations are listed and
are not part of the tables.
"""

from __future__ import annotations

import argparse
import pprint
from collections import Counter
from copy import deepcopy
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

import sktagi
from sktagi.merging import fork, merge

from .checkouts import ROOT, Checkout, folder_of

KINDS = ("fit", "refit", "stream", "fit and stream", "merge")
ACTIVATIONS = ("relu", "relu_exact", "leaky_relu", "tanh", "logistic", "softplus", "identity")
EPOCHS = ("n_iter_", "best_iter_")
LOGS = (
    "log_likelihood", "train_scores_", "validation_scores_", "prequential_log_likelihood_",
    "recent_log_likelihood_",
)  # fmt: skip
LEVELS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, np.inf)
N_TEST = 25


# Configurations: plain values, from which a process makes data and estimators


def configuration(seed: int, number: int) -> dict[str, Any]:
    """The configuration with a number: always the same."""
    rng = np.random.default_rng([seed, number])
    kind = KINDS[number % len(KINDS)]
    # Full covariances cannot be merged; layers of many parameters are learned block by block.
    size = _draw(rng, ["small"] * 16 + ["wide"] + ["small" if kind == "merge" else "full"] * 3)
    full, is_classifier = size == "full", bool(rng.random() < 0.45)
    n_rows = int(rng.integers(20, 151 if size == "small" else 61))
    data = {
        "rows": n_rows,
        "features": int(rng.integers(1, 5 if full else _draw(rng, (9, 9, 9, 70)))),
        "dtype": _draw(rng, ("float64", "float32")),
        "sparse": bool(rng.random() < 0.2),
        "predicted as": _draw(rng, ["as learned"] * 7 + ["sparse or dense, the other"]),
        "copies": bool(rng.random() < 0.25),
        "constant feature": bool(rng.random() < 0.1),
        "weights": _draw(rng, ("none", "none", "positive", "some are zero")),
        # Of the features; a diagonal posterior predicts with matrices, but does not learn so.
        "errors": _draw(rng, ["none"] * 5 + ["number", "features", "rows", "matrix", "matrices"]),
    }
    if is_classifier:
        data["classes"] = int(rng.integers(2, 13 if not full else 5))
        data["labels"] = _draw(rng, ("numbers", "strings"))
    else:
        data["targets"] = _draw(rng, ("one", "one", "a column", "two", "four"))
    params = _params(rng, size, is_classifier)
    params["warm_start"] = kind == "refit"
    return {
        "seed": seed, "number": number, "kind": kind,
        "estimator": "TAGIClassifier" if is_classifier else "TAGIRegressor",
        "data": data, "params": params, **_steps(rng, kind, n_rows),
    }  # fmt: skip


def _draw(rng, values) -> Any:
    return values[rng.integers(len(values))]


def _params(rng, size: str, is_classifier: bool) -> dict[str, Any]:
    full = size == "full"
    depth, widest = int(rng.integers(3)), 4 if full else _draw(rng, (3, 12, 12, 40))
    hidden = tuple(int(n) for n in rng.integers(1, widest + 1, size=depth))
    params = {
        "hidden_layer_sizes": (400, 350) if size == "wide" else hidden,
        "activation": _draw(rng, ("relu", *ACTIVATIONS)),
        "sigma_v": _draw(rng, ("auto", "auto", 0.2, 1.0)),
        "batch_size": _draw(rng, ("auto", 1, 2, 5, 10, 16, 33, 64)),
        "batch_inference": _draw(rng, ("joint", "independent")),
        "covariance_type": "full" if full else "diag",
        "max_iter": int(rng.integers(1, 9 if size == "small" else 4)),
        "half_life": _draw(rng, ("auto", "auto", None, 20.0, 500.0, 0.5)),
        "early_stopping": bool(rng.random() < 0.6),
        "validation_fraction": _draw(rng, (0.1, 0.3)),
        "n_iter_no_change": int(rng.integers(1, 6)),
        "n_members": int(rng.integers(1, 6 if size == "small" else 3)),
        "standardize": bool(rng.random() < 0.8),
        "weight_gain": _draw(rng, (1.0, 1.0, 0.5)),
        "bias_variance": _draw(rng, (0.01, 0.01, 0.5)),
        "shuffle": bool(rng.random() < 0.8),
        "random_state": int(rng.integers(1000)),
    }
    if is_classifier:
        params["probit_scale"] = _draw(rng, (1 / 3, 0.7))
    return params


def _steps(rng, kind: str, n_rows: int) -> dict[str, Any]:
    """What an estimator is given: names of methods with the first row and the one after the last.

    ``shards``, if any, go on from ``steps`` each for itself and are merged, for each round.
    """
    half = n_rows // 2
    if kind == "fit":
        return {"steps": [("fit", 0, n_rows)]}
    if kind == "refit":
        return {"steps": [("fit", 0, n_rows), ("fit", 0, _draw(rng, (n_rows, n_rows, half)))]}
    if kind == "stream":
        return {"steps": _stream(rng, 0, n_rows)}
    if kind == "fit and stream":
        return {"steps": [("fit", 0, half), *_stream(rng, half, n_rows)]}
    third = max(n_rows // 3, 14)
    start = _draw(
        rng,
        ([("fit", 0, third)], [("partial_fit", 0, third)], [("prior", 0, third)],
         [("fit", 0, third), ("warm fit", 0, third)], [("fit", 0, third), ("fork", 0, 0)]),
    )  # fmt: skip
    n_shards = int(rng.integers(2, 4))
    bounds = np.linspace(third, n_rows, n_shards * 2 + 1).astype(int).tolist()
    parts = list(pairwise(bounds))
    rounds = [parts[:n_shards], parts[n_shards:]][: int(rng.integers(1, 3))]
    shards = [[_stream(rng, *part) for part in parts] for parts in rounds]
    after = _stream(rng, 0, 5) if rng.random() < 0.3 else []
    return {"steps": start, "shards": shards, "after": after}


def _stream(rng, start: int, stop: int) -> list[tuple[str, int, int]]:
    """Calls of partial_fit with one row each, at most 25 of them, with chunks, or with both."""
    sizes = {"rows": [1] * 25, "chunks": [_draw(rng, (3, 10, 40))] * 50, "both": [1, 7, 1, 1, 20]}
    steps = []
    for size in sizes[_draw(rng, list(sizes))]:
        if start < stop:
            steps.append(("partial_fit", start, min(start + size, stop)))
            start += size
    return steps


# In the process of a checkout


def run(c: dict[str, Any], nudged: bool = False) -> dict[str, Any]:
    """Arrays by name, or what was raised."""
    try:
        with np.errstate(all="ignore"):
            train, test = make_data(c, nudged)
            return quantities(learn(c, train), test)
    except Exception as error:
        return {"raised": f"{type(error).__name__}: {error}"}


def make_data(c: dict[str, Any], nudged: bool = False) -> tuple[dict, dict]:
    """Arguments of the methods: rows to learn, and other rows to predict."""
    d = c["data"]
    rng = np.random.default_rng([c["seed"], c["number"], 1])
    n_rows, n_features = d["rows"] + N_TEST, d["features"]
    X = rng.standard_normal((n_rows, n_features))
    if d["sparse"]:
        X *= rng.random(X.shape) < 0.5
    source = np.arange(n_rows)
    if d["copies"]:
        source[: d["rows"]] = rng.integers(max(2, d["rows"] // 4), size=d["rows"])
    X = X[source]
    if d["constant feature"]:
        X[:, -1] = 1
    signal = np.sin(2 * X[:, 0]) + X @ rng.standard_normal(n_features)
    X = (X * np.exp(rng.standard_normal(n_features))).astype(d["dtype"])
    if not d["sparse"]:
        X += rng.standard_normal(n_features).astype(d["dtype"])
    if nudged:  # copies of a row alike; a feature without spread keeps none
        up = np.random.default_rng(0).random(X.shape)[source] < 0.5
        nearby = np.nextafter(X, np.where(up, np.inf, -np.inf).astype(X.dtype))
        X = np.where((X == 0) | (np.ptp(X, axis=0) == 0), X, nearby)
    given: dict[str, Any] = {"X": sparse.csr_array(X) if d["sparse"] else X}
    noise = rng.standard_normal((n_rows, 4))
    if "classes" in d:
        ranks = np.argsort(np.argsort(signal + 0.5 * noise[:, 0]))
        given["y"] = _labels(ranks * d["classes"] // n_rows, d)
    else:
        y = 3 + signal[:, None] * [1, -2, 0.5, 3] + 0.3 * noise
        n_targets = {"one": 1, "a column": 1, "two": 2, "four": 4}[d["targets"]]
        given["y"] = y[:, 0] if d["targets"] == "one" else y[:, :n_targets]
    if d["weights"] != "none":
        given["sample_weight"] = rng.uniform(0.2, 3, n_rows)
        if d["weights"] != "positive":
            given["sample_weight"][1::7] = 0
    given |= _uncertainty(d, X, rng)
    train, test = _take(given, slice(d["rows"])), _take(given, slice(d["rows"], None))
    if c["params"]["covariance_type"] != "full":
        train.pop("X_cov", None)
    if d["predicted as"] != "as learned":
        other = sparse.issparse(test["X"])
        test["X"] = test["X"].toarray() if other else sparse.csr_array(test["X"])
    return train, test


def _labels(numbers: np.ndarray, d: dict[str, Any]) -> np.ndarray:
    """Labels of classes; the first rows have one of each, so that no call misses one."""
    numbers[: d["classes"]] = np.arange(d["classes"])
    return np.array([f"class {k:02}" for k in numbers]) if d["labels"] == "strings" else numbers


def _uncertainty(d: dict[str, Any], X: np.ndarray, rng) -> dict[str, Any]:
    n_rows, n_features = X.shape
    kind = d["errors"]
    if kind == "number":
        return {"X_std": 0.2}
    if kind == "features":
        return {"X_std": rng.uniform(0, 0.5, n_features)}
    if kind == "rows":
        X_std = rng.uniform(0, 0.5, X.shape)
        return {"X_std": sparse.csr_array(X_std * (X != 0)) if d["sparse"] else X_std}
    if kind in ("matrix", "matrices"):
        shape = (n_features, n_features) if kind == "matrix" else (n_rows, n_features, n_features)
        root = 0.3 * rng.standard_normal(shape)
        return {"X_cov": root @ np.swapaxes(root, -1, -2)}
    return {}


def _take(given: dict[str, Any], rows: slice) -> dict[str, Any]:
    """The arguments for some rows: those that have an entry for each row are cut."""
    n_rows = given["X"].shape[0]
    cut = {}
    for name, value in given.items():
        by_row = name in ("X", "y", "sample_weight") or np.ndim(value) == 3
        by_row |= name == "X_std" and len(getattr(value, "shape", ())) == 2
        assert not by_row or value.shape[0] == n_rows
        cut[name] = value[rows] if by_row else value
    return cut


def learn(c: dict[str, Any], train: dict[str, Any]) -> Any:
    """The estimator after all steps."""
    model = getattr(sktagi, c["estimator"])(**c["params"])
    classes = {"classes": np.unique(train["y"])} if "classes" in c["data"] else {}
    model = _follow(model, c["steps"], train, classes)
    for shards in c.get("shards", ()):
        model = merge([_follow(deepcopy(model), steps, train, classes) for steps in shards])
    return _follow(model, c.get("after", ()), train, classes)


def _follow(model: Any, steps, train: dict[str, Any], classes: dict[str, Any]) -> Any:
    for method, start, stop in steps:
        rows = _take(train, slice(start, stop))
        weight = rows.get("sample_weight")
        if weight is not None and not weight.any():  # refused
            rows["sample_weight"] = weight + 1
        if method == "fork":
            model = fork(model)
        elif method == "partial_fit":
            model.partial_fit(**rows, **classes)
        elif method == "prior":
            max_iter = model.max_iter
            model.set_params(max_iter=0).fit(**rows).set_params(max_iter=max_iter)
        else:
            model.set_params(warm_start=method == "warm fit" or model.warm_start).fit(**rows)
    return model


def quantities(model: Any, test: dict[str, Any]) -> dict[str, Any]:
    """What a fitted estimator says, by name: arrays, or lists of arrays."""
    X, y, weight = test["X"], test["y"], test.get("sample_weight")
    errors = {name: test[name] for name in ("X_std", "X_cov") if name in test}
    found: dict[str, Any] = {}
    for end, more in (("", {}), (" of uncertain rows", errors)) if errors else (("", {}),):
        if hasattr(model, "classes_"):
            found["proba" + end], found["proba_std" + end] = model.predict_proba(
                X, return_std=True, **more
            )
            found["log_proba" + end] = model.predict_log_proba(X, **more)
        else:
            found["mean" + end], found["std" + end] = model.predict(X, return_std=True, **more)
            found["interval" + end] = model.predict_interval(X, **more)
            found["quantiles" + end] = model.predict_quantiles(X, [0.01, 0.3, 0.8], **more)
            epistemic, aleatoric = model.predict_variance(X, **more)
            found["samples" + end] = model.sample_y(X, 3, **more)
            found["epistemic" + end], found["aleatoric" + end] = epistemic, aleatoric
        found["log_likelihood" + end] = model.log_likelihood(X, y, sample_weight=weight, **more)
    found["prediction of one row"] = (
        model.predict_proba(X[:1]) if hasattr(model, "classes_") else model.predict(X[:1])
    )
    # A bias may be all rounding errors where the data are centred: it has the scale of its layer.
    for means, biases in (("coefs_", "intercepts_"), ("coef_vars_", "intercept_vars_")):
        layers = zip(getattr(model, means), getattr(model, biases), strict=True)
        found[f"{means}, {biases}"] = [np.concatenate([w, b[..., None, :]], -2) for w, b in layers]
    if model.covariance_type == "full":
        found["layer_covariances_"] = list(model.layer_covariances_)
    for name in ("sigma_v_", "train_scores_", "prequential_log_likelihood_",
                 "recent_log_likelihood_", *EPOCHS):  # fmt: skip
        found[name] = np.asarray(getattr(model, name))
    scores = model.validation_scores_
    found["validation_scores_"] = np.array([np.nan] if scores is None else scores)
    return found


# Comparison


def difference(name: str, a: Any, b: Any) -> float:
    """The largest difference, relative to the largest entry of ``a``; infinite for other shapes."""
    if isinstance(a, list) and isinstance(b, list):  # of layers
        if len(a) != len(b):
            return np.inf
        return max(difference(name, *pair) for pair in zip(a, b, strict=True))
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if np.array_equal(a, b, equal_nan=True):
        return 0.0
    finite = np.isfinite(a)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    gap = np.abs(np.subtract(a, b, dtype=np.float64))[finite].max()
    scale = np.abs(a)[finite].max()
    if name.startswith(LOGS):
        scale = max(scale, 1.0)
    return float(gap / scale) if scale else np.inf


def compare(first: dict[str, Any], second: dict[str, Any]) -> dict[str, float]:
    """The difference of each quantity."""
    names = dict.fromkeys([*first, *second])
    both = {name: (first.get(name), second.get(name)) for name in names}
    return {name: difference(name, *pair) for name, pair in both.items()}


class Comparison:
    """What was found out about all configurations."""

    def __init__(self) -> None:
        self.configurations: dict[int, dict[str, Any]] = {}
        self.differences: dict[int, dict[str, float]] = {}  # by number of the configuration
        self.by_rounding: dict[int, float] = {}  # the largest of a configuration
        self.other_epochs: dict[int, dict[str, float]] = {}
        self.raised: dict[int, tuple[str | None, str | None]] = {}

    def add(self, c: dict[str, Any], before: dict, nudged: dict, now: dict) -> None:
        number = c["number"]
        self.configurations[number] = c
        if "raised" in before or "raised" in now:
            self.raised[number] = before.get("raised"), now.get("raised")
            return
        found = compare(before, now)
        epochs_agree = not any(found[name] for name in EPOCHS)
        (self.differences if epochs_agree else self.other_epochs)[number] = found
        self.by_rounding[number] = max(compare(before, nudged).values())

    def numbers(self, dtype: str) -> list[int]:
        """Configurations of a precision that were compared."""
        return [n for n in self.differences if self.configurations[n]["data"]["dtype"] == dtype]

    def worst(self, dtype: str, name: str | None = None) -> tuple[float, int] | None:
        """The largest difference of a quantity, or of all, and where it is."""
        found = []
        for number in self.numbers(dtype):
            parts = self.differences[number]
            values = parts.values() if name is None else [parts[n] for n in (name,) if n in parts]
            found += [(value, -number) for value in values]
        return (max(found)[0], -max(found)[1]) if found else None


DTYPES = "float64", "float32"


def print_counts(done: Comparison) -> None:
    counts = Counter((c["kind"], c["estimator"]) for c in done.configurations.values())
    estimators = "TAGIRegressor", "TAGIClassifier"
    print("| kind |", " | ".join(estimators), "|\n|---|---|---|")
    for kind in KINDS:
        print(f"| {kind} |", *(f"{counts[kind, estimator]} |" for estimator in estimators))
    equal = sum(not any(parts.values()) for parts in done.differences.values())
    print(f"\n{equal} of {len(done.configurations)} are equal to the last bit.")
    refused = sum(first == second for first, second in done.raised.values())
    if refused:
        print(f"{refused} are refused by both with the same message.")


def print_differences(done: Comparison) -> None:
    print("\nLargest relative differences, and the configurations that have them:\n")
    print("| quantity | float64 | | float32 | |\n|---|---|---|---|---|")
    names = dict.fromkeys(name for parts in done.differences.values() for name in parts)
    for name in [*sorted(names), None]:
        cells = []
        for dtype in DTYPES:
            worst = done.worst(dtype, name)
            cells += ["", ""] if worst is None else [f"{worst[0]:.1e}", f"{worst[1]}"]
            if worst is not None and worst[0] == 0:
                cells[-2:] = ["0", ""]
        print(f"| {name or 'all'} |", *(f"{cell} |" for cell in cells))
    print("\nConfigurations by their largest difference:\n")
    print("| up to |", " | ".join(DTYPES), "|\n|---|---|---|")
    tops = {
        dtype: [max(done.differences[number].values()) for number in done.numbers(dtype)]
        for dtype in DTYPES
    }
    for low, high in pairwise((-1.0, *LEVELS)):
        counts = [sum(low < top <= high for top in tops[dtype]) for dtype in DTYPES]
        level = f"{high:g}" if high in (0, np.inf) else f"{high:.0e}"
        print(f"| {level} |", *(f"{count} |" for count in counts))


def print_beyond_rounding(done: Comparison) -> None:
    rows = []
    for number, parts in done.differences.items():
        name, top = max(parts.items(), key=lambda part: part[1])
        eps = np.finfo(done.configurations[number]["data"]["dtype"]).eps
        rounding = max(done.by_rounding[number], float(eps))
        if top > 0:
            rows.append((top / rounding, number, name, top, rounding))
    if not rows:
        return
    print("\nThe largest beside what rounding does to the same configuration:\n")
    print("| configuration | quantity | difference | by rounding | ratio |\n|---|---|---|---|---|")
    for ratio, number, name, top, rounding in sorted(rows, reverse=True)[:5]:
        print(f"| {number} | {name} | {top:.1e} | {rounding:.1e} | {ratio:.2g} |")


def print_exceptions(done: Comparison) -> None:
    """What the tables leave out."""
    if done.other_epochs:
        print("\nA different epoch was kept, or training ended in another:")
        for number, parts in done.other_epochs.items():
            names = " and ".join(name for name in EPOCHS if parts[name])
            rest = max(value for name, value in parts.items() if name not in EPOCHS)
            rounding = f"{done.by_rounding[number]:.1e} by rounding"
            print(f"  configuration {number}: {names}; the rest differs by {rest:.1e}, {rounding}")
    for number, (first, second) in done.raised.items():
        if first != second:
            print(f"\nConfiguration {number}: before, {first or 'nothing was raised'}")
            print(f"  and now, {second or 'nothing is raised'}")


def print_worst(done: Comparison) -> None:
    for dtype in DTYPES:
        worst = done.worst(dtype)
        if worst is not None and worst[0] > 0:
            print(f"\nThe worst of {dtype} is configuration {worst[1]}:\n")
            pprint.pp(done.configurations[worst[1]], width=100)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--before", required=True, help="a checkout of the earlier state")
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="only these")


def main(args: argparse.Namespace) -> None:
    folders = folder_of(args.before), ROOT
    done = Comparison()
    one_thread = {"OPENBLAS_NUM_THREADS": "1"}
    with Checkout(folders[0], **one_thread) as before, Checkout(folders[1], **one_thread) as now:
        for number in args.only or range(args.configurations):
            c = configuration(args.seed, number)
            before.send(run, c)
            now.send(run, c)
            first, second = before.receive(), now.receive()
            done.add(c, first, before.call(run, c, True), second)
    print_counts(done)
    print_differences(done)
    print_beyond_rounding(done)
    print_exceptions(done)
    if not args.only:
        print_worst(done)
        return
    for c in done.configurations.values():
        pprint.pp(c, width=100)
