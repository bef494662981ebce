"""Checks of predictions: they are numbers, one distribution, and depend on nothing else."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import numpy as np

from .cases import Case, choose, random_case, regression_case
from .data import Rows, classes_of, learned, make_estimator, make_rows, take
from .trial import (
    Arrays,
    Broken,
    Rng,
    check,
    is_clear,
    is_finite,
    is_known,
    is_positive,
    predicted,
    rounding,
    same,
    sensitivity,
    state,
)


@check("numbers are sound")
def _sound(case: Case) -> None:
    rows, test = make_rows(case)
    model = learned(case, make_estimator(case), rows)
    for name in ("coefs_", "intercepts_"):
        is_finite(getattr(model, name), name)
    for name in ("coef_vars_", "intercept_vars_"):
        is_positive(getattr(model, name), name)
    is_positive(model.sigma_v_, "sigma_v_")
    is_finite(model.train_scores_, "train_scores_")
    is_finite(model.validation_scores_ or [], "validation_scores_")
    for X, errors in ((test.X, {}), (test.X, test.errors), (take(rows.X, slice(3)), {})):
        found = predicted(model, X, errors)
        if hasattr(model, "classes_"):
            _sound_classes(model, X, found)
            continue
        is_finite(found["mean"], "mean")
        for name in ("std", "epistemic", "aleatoric"):
            is_positive(found[name], name)
        is_finite(found["quantiles"], "quantiles")
        if (np.diff(found["quantiles"], axis=-1) < 0).any():
            raise Broken("quantiles: not in order")
        is_finite(model.sample_y(X, 3), "sample_y")
        is_finite(model.predict_interval(X, 0.999), "interval")
        is_positive(model.predict_noise_std(X), "noise std")
        if not model._transforms:
            _sound_covariances(model.predict(X, return_cov=True, **errors)[1], found["std"])
    log_lik = model.log_likelihood(test.X, test.y) if is_known(test.y) else 0.0
    if np.isnan(log_lik) or log_lik == np.inf:
        raise Broken(f"log_likelihood: {log_lik}")


def _sound_covariances(cov: np.ndarray, std: np.ndarray) -> None:
    variance = np.einsum("ii...->i...", cov)
    is_positive(variance, "covariance")
    limits = np.finfo(std.dtype)  # of standard deviations, not of variances
    expected = np.sqrt(variance).clip(limits.tiny, limits.max)
    if (np.abs(std.astype(np.float64) / expected - 1) > 1e-3).any():
        raise Broken("covariance: its diagonal is not the square of std")


def _sound_classes(model: Any, X: Any, found: Arrays) -> None:
    proba, std = found["proba"].astype(np.float64), found["proba std"]
    is_finite(found, "probabilities")
    if (proba < 0).any() or (proba > 1 + 1e-6).any():
        raise Broken("probabilities: not between 0 and 1")
    if not getattr(model, "_is_multilabel", False):
        if np.abs(proba.sum(axis=1) - 1).max() > 1e-4:
            raise Broken("probabilities: their sum is not 1")
        is_finite(model.predict_log_proba(X), "log_proba")
    if (std < 0).any() or (std > 0.5 + 1e-6).any():
        raise Broken("std of probabilities: not between 0 and 0.5")
    for part in model.predict_entropy(X):
        is_finite(part, "entropy")
        if (part < -1e-6).any():
            raise Broken("entropy: negative")


@check("distribution is one", regression_case)
def _distribution(case: Case) -> None:
    rows, test = make_rows(case)
    model = learned(case, make_estimator(case), rows)
    dist = model.predict_dist(test.X)
    mean, std = model.predict(test.X, return_std=True)
    tol, largest = (1e-5, 1e300) if mean.dtype == np.float64 else (1e-3, 1e37)
    moments = {"mean": dist.mean().clip(-largest, largest), "std": dist.std().clip(0, largest)}
    clipped = {"mean": mean.clip(-largest, largest), "std": std.clip(0, largest)}
    same(clipped, moments, "moments", tol)
    for q in (0.001, 0.2, 0.5, 0.97):
        found = dist.cdf(dist.ppf(q))
        # A quantile in 53 bits cannot be nearer where the spread is lost beside the mean.
        sharp = std > 1e-7 * np.abs(mean)
        if np.abs(found - q)[sharp].max(initial=0) > 1e-4 and not model._transforms:
            raise Broken(f"cdf of a quantile: {found} for {q}")
    if (np.abs(dist.cdf(mean) + dist.sf(mean) - 1) > 1e-9).any():
        raise Broken("cdf and sf: their sum is not 1")
    interval = model.predict_interval(test.X, 0.8)
    quantiles = model.predict_quantiles(test.X, [0.1, 0.9])
    same({"ends": interval}, {"ends": quantiles}, "interval and quantiles", 1e-9)


@check("blocks and order of rows")
def _blocks(case: Case) -> None:
    rows, test = make_rows(case)
    model = learned(case, make_estimator(case), rows)
    at_once, n = predicted(model, test.X, test.errors), len(test.y)
    tol = rounding(case) * sensitivity(case)
    order = np.random.default_rng(case["seed"]).permutation(n)
    turned = test.take(order)
    shuffled = predicted(model, turned.X, turned.errors)
    same({k: v[order] for k, v in at_once.items()}, shuffled, "order of rows", tol)
    parts = [test.take(part) for part in (slice(0, 1), slice(1, 3), slice(3, n))]
    found = [predicted(model, part.X, part.errors) for part in parts]
    joined = {name: np.concatenate([f[name] for f in found]) for name in at_once}
    same(at_once, joined, "blocks of rows", tol)


@check("predictions change nothing")
def _unchanged(case: Case) -> None:
    rows, test = make_rows(case)
    copies = deepcopy((rows, test))
    model = make_estimator(case)
    learned(case, model, rows)
    before = state(model)
    first = predicted(model, test.X, test.errors)
    if is_known(test.y):
        model.log_likelihood(test.X, test.y)
        model.score(test.X, test.y)
    if not hasattr(model, "classes_"):
        draws = [model.sample_y(test.X, 2, random_state=1) for _ in range(2)]
        same({"draws": draws[0]}, {"draws": draws[1]}, "two draws of one seed")
    same(first, predicted(model, test.X, test.errors), "the same prediction twice")
    if state(model) != before:
        raise Broken("state: predictions have changed it")
    for given, copy in zip((rows, test), copies, strict=True):
        if pickle.dumps(_plain(given)) != pickle.dumps(_plain(copy)):
            raise Broken("arguments: they have been written to")


def _plain(rows: Rows) -> list[Any]:
    X = rows.X
    if hasattr(X, "tocoo"):
        X = X.toarray()
    elif hasattr(X, "to_dict"):
        X = str(X.to_dict())
    return [np.array(X).tolist() if isinstance(X, np.ndarray) else X, np.array(rows.y).tolist(),
            None if rows.weight is None else rows.weight.tolist(), str(rows.errors)]  # fmt: skip


def _wild(rng: Rng) -> Case:
    case = {**random_case(rng), "container": "array", "missing": False, "categories": 0}
    case |= {"errors": "none", "learn": "stream", "copies": False}
    scales = [[float(choose(rng, (0, 0, 3, 10, 30, -30))) for _ in range(2)] for _ in range(4)]
    return {**case, "chunks": scales}


@check("streams of anything", _wild)
def _stream(case: Case) -> None:
    rows, test = make_rows(case)
    model = make_estimator(case)
    n = case["rows"]
    for k, (x_power, y_power) in enumerate(case["chunks"]):
        part = rows.take(slice(k * n // 4, max((k + 1) * n // 4, k * n // 4 + 1)))
        if part.weight is not None and not part.weight.any():
            continue
        with np.errstate(over="ignore"):
            X = (np.asarray(part.X, dtype=float) * 10.0**x_power).clip(-1e300, 1e300)
            if case["dtype"] == "float32":
                X = X.clip(-1e37, 1e37).astype(np.float32)
            y = part.y
            if "classes" not in case:
                y = (y * 10.0**y_power).clip(-1e300, 1e300)
        before = state(model)
        try:
            given = part._replace(X=X, y=y).given("partial_fit")
            model.partial_fit(**given, **classes_of(model, rows.y))
        except ValueError as error:
            if state(model) != before:
                raise Broken(f"estimator: an error has changed it: {error}") from error
            if not is_clear(error):
                raise
            continue
        found = predicted(model, test.X)
        is_finite(found, f"after a chunk: {k}")
        if "std" in found:
            is_positive({k: found[k] for k in ("std", "epistemic", "aleatoric")}, "variances")
