"""Checks of what may not matter: containers, units, copies, and how rows are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import Case, choose, random_case, regression_case, with_spread
from .data import as_container, classes_of, learned, make_estimator, make_rows
from .trial import Arrays, Rng, check, predicted, rounding, same, sensitivity

# The same rows in another form


def _numbers_only(rng: Rng, **more: Any) -> Case:
    return {**random_case(rng), "categories": 0, "missing": False, "container": "array", **more}


def _any_container(rng: Rng) -> Case:
    other = choose(rng, ("columns first", "strided", "read-only", "list", "pandas", "polars"))
    case = _numbers_only(rng, other=other)
    if case["dtype"] == "float32" and other in ("list", "polars"):  # which scikit-learn widens
        case["dtype"] = "float64"
    return case


@check("containers and layouts", _any_container)
def _containers(case: Case) -> None:
    rows, test = make_rows(case)
    first = learned(case, make_estimator(case), rows)
    given = rows._replace(X=as_container(rows.X, case["other"]))
    if case["other"] == "list":
        given = given._replace(y=rows.y.tolist() if case["learn"] == "fit" else rows.y)
    second = learned(case, make_estimator(case), given)
    other = as_container(test.X, case["other"])
    expected = predicted(first, test.X, test.errors)
    found = predicted(second, other, test.errors)
    same(expected, found, case["other"], rounding(case) * sensitivity(case))


def _dense_and_sparse(rng: Rng) -> Case:
    case = _numbers_only(rng, other=choose(rng, ("csr", "csc")), container="csr")
    if case["errors"] == "rows":
        case["errors"] = "none"
    return case


@check("dense and sparse", _dense_and_sparse)
def _sparse(case: Case) -> None:
    rows, test = make_rows(case)
    dense = [r._replace(X=r.X.toarray()) for r in (rows, test)]
    first = learned(case, make_estimator(case), dense[0])
    given = rows._replace(X=as_container(dense[0].X, case["other"]))
    second = learned(case, make_estimator(case), given)
    expected = predicted(first, dense[1].X, test.errors)
    tol = rounding(case) * sensitivity(case)
    same(expected, predicted(second, test.X, test.errors), "learned as sparse", tol)
    same(expected, predicted(first, test.X, test.errors), "predicted as sparse", tol)


def _frames(rng: Rng) -> Case:
    case = {**random_case(rng), "container": "pandas", "errors": "none"}
    return {**case, "categories": int(rng.integers(1, 3)), "other": "polars"}


@check("pandas and polars", _frames)
def _pandas_and_polars(case: Case) -> None:
    expected = _predicted_after(case)
    same(expected, _predicted_after({**case, "container": case["other"]}), "polars")


def _predicted_after(case: Case) -> Arrays:
    rows, test = make_rows(case)
    return predicted(learned(case, make_estimator(case), rows), test.X, test.errors)


# Weights

# All rows in one batch: copies are learned at once, as a row of more weight is.
TOGETHER = {"batch_size": 1000, "early_stopping": False, "shuffle": False}


def _copies(rng: Rng) -> Case:
    case = {**random_case(rng), "weights": "copies", "missing": False, "categories": 0}
    units = case["params"].get("standardize", True)
    case |= {"x_scale": 0, "y_scale": int(np.clip(case["y_scale"], -30, 30)) if units else 0}
    case |= {"container": "array", "learn": choose(rng, ("fit", "stream")), "outliers": False}
    case["errors"] = "none"  # those of copies are independent
    not_drawn = (*TOGETHER, "cv", "batch_inference", "weight_gain", "bias_variance", "sigma_v")
    case["params"] = {k: v for k, v in case["params"].items() if k not in not_drawn}
    return case


@check("weights and copies", _copies)
def _weights(case: Case) -> None:
    rows, test = make_rows(case)
    assert rows.weight is not None
    there = np.flatnonzero(rows.weight)
    several = np.repeat(np.arange(case["rows"]), rows.weight.astype(int))
    models = []
    for given, weight in ((rows, rows.weight), (rows.take(several), None)):
        model = make_estimator(case, **TOGETHER)
        given = given._replace(weight=weight)
        if case["learn"] == "fit":
            model.fit(**given.given("fit"))
        else:
            model.partial_fit(**given.given("partial_fit"), **classes_of(model, rows.y))
        models.append(model)
    tol = rounding(case) * sensitivity(case)
    expected = predicted(models[0], test.X, test.errors)
    same(expected, predicted(models[1], test.X, test.errors), "copies", tol)
    left_out = rows.take(there)
    model = make_estimator(case, **TOGETHER)
    if case["learn"] == "fit":
        model.fit(**left_out.given("fit"))
    else:
        model.partial_fit(**left_out.given("partial_fit"), **classes_of(model, rows.y))
    same(expected, predicted(model, test.X, test.errors), "without rows of weight 0")


# Epochs, units


# What makes fit one pass over the rows, as they come.
ONE_EPOCH = {"max_iter": 1, "early_stopping": False, "shuffle": False, "standardize": False}


def _one_epoch(rng: Rng) -> Case:
    case = {**random_case(rng), "container": "array", "missing": False, "categories": 0}
    params = {k: v for k, v in case["params"].items() if k not in ONE_EPOCH}
    params["half_life"] = choose(rng, (None, 30.0, 1000.0))  # what is chosen differs
    params["batch_size"] = int(choose(rng, (3, 10)))
    if params["hidden_layer_sizes"] == "auto":
        params["hidden_layer_sizes"] = (4,)
    for name in ("cv", "class_weight", "target_transform"):
        params.pop(name, None)
    if case["estimator"] == "TAGIRegressor":
        params["sigma_v"] = choose(rng, (0.3, 1.0, 10.0))
    case |= {"weights": "none", "x_scale": 0, "y_scale": 0, "outliers": False}
    return {**case, "params": params}


@check("an epoch is a partial_fit", _one_epoch)
def _epoch(case: Case) -> None:
    rows, test = make_rows(case)
    size = case["params"].get("batch_size", 3)
    whole = make_estimator(case, **ONE_EPOCH, batch_size=size).fit(**rows.given("fit"))
    chunks = make_estimator(case, **ONE_EPOCH, batch_size=size)
    for start in range(0, case["rows"], size):
        part = rows.take(slice(start, start + size))
        chunks.partial_fit(**part.given("partial_fit"), **classes_of(chunks, rows.y))
        if chunks._run is not None and not chunks._run.is_over:
            return  # a row surprised: a stream bounds outliers, an epoch does not
    same(
        _posterior(whole), _posterior(chunks), "posterior of fit and of partial_fit",
        1e-9 if case["dtype"] != "float32" else 1e-3,
    )  # fmt: skip
    if not hasattr(whole, "classes_"):
        expected = predicted(whole, test.X, test.errors)
        same(
            expected, predicted(chunks, test.X, test.errors), "fit and partial_fit", rounding(case)
        )


def _posterior(model: Any) -> Arrays:
    found = {}
    for name in ("coefs_", "coef_vars_"):
        found |= {f"{name}[{k}]": a for k, a in enumerate(getattr(model, name))}
    return found


def _standardized(rng: Rng, **more: Any) -> Case:
    case = {
        **random_case(rng),
        "container": "array",
        "dtype": "float64",
        "x_scale": 0,
        "y_scale": 0,
    }
    case["params"].pop("standardize", None)
    return {**case, "categories": 0, "learn": choose(rng, ("fit", "stream")), **more}


def _units_of_y(rng: Rng) -> Case:
    case = regression_case(rng)
    case |= {"container": "array", "dtype": "float64", "x_scale": 0, "y_scale": 0, "categories": 0}
    with_spread(case)
    for name in ("standardize", "target_transform"):
        case["params"].pop(name, None)
    return {**case, "power": int(choose(rng, (1, -3, 20, -20, 60, -60, 300, -300)))}


@check("units of y", _units_of_y)
def _y_units(case: Case) -> None:
    if case["rows"] < 12:
        return
    rows, test = make_rows(case)
    factor = 2.0 ** case["power"]
    first = learned(case, make_estimator(case), rows)
    second = learned(case, make_estimator(case), rows._replace(y=rows.y * factor))
    expected = predicted(first, test.X, test.errors, all_of=False)
    found = predicted(second, test.X, test.errors, all_of=False)
    same(expected, found, "y in other units", 1e-4 * sensitivity(case), factor)


def _units_of_x(rng: Rng) -> Case:
    powers = [int(k) for k in rng.integers(-60, 61, size=4)]
    return with_spread(_standardized(rng, powers=powers, errors="none"))


@check("units of X", _units_of_x)
def _x_units(case: Case) -> None:
    if case["rows"] < 12:
        return
    rows, test = make_rows(case)
    factor = 2.0 ** np.array(case["powers"][: case["features"]])
    first = learned(case, make_estimator(case), rows)
    second = learned(case, make_estimator(case), rows._replace(X=rows.X * factor))
    expected = predicted(first, test.X, test.errors)
    found = predicted(second, test.X * factor, test.errors)
    same(expected, found, "X in other units", 1e-4 * sensitivity(case))
