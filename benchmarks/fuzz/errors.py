"""Checks of what must be refused, and leave the estimator as it was."""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from .cases import INVALID, OF_CLASSIFIER, OF_REGRESSOR, WRONG_INPUT, Case, choose, random_case
from .data import classes_of, learned, make_estimator, make_rows, spoil
from .trial import Broken, Rng, check, is_clear, predicted, same, state


def _invalid(rng: Rng) -> Case:
    case = random_case(rng)
    not_ours = OF_CLASSIFIER if case["estimator"] == "TAGIRegressor" else OF_REGRESSOR
    name = choose(rng, [name for name in INVALID if name not in not_ours])
    value = choose(rng, INVALID[name])
    case["params"].pop("class_weight", None)
    return {**case, "container": "array", "missing": False, "categories": 0, "errors": "none",
            "x_scale": 0, "y_scale": 0, "weights": "none", "outliers": False, "constant": False,
            "rows": max(20, case["rows"]), "learn": "fit", "name": name, "value": value,
            "method": choose(rng, ("fit", "partial_fit", "partial_fit after fit"))}  # fmt: skip


@check("wrong parameters are named", _invalid)
def _wrong_params(case: Case) -> None:
    rows, _ = make_rows(case)
    model = make_estimator(case)
    if case["method"] == "partial_fit after fit":
        learned(case, model, rows)
    model.set_params(**{case["name"]: case["value"]})
    before = state(model)
    ignored = {"cv", "random_state", "categorical_features"}
    try:
        if case["method"] == "fit":
            model.fit(**rows.given("fit"))
        else:
            model.partial_fit(**rows.given("partial_fit"), **classes_of(model, rows.y))
    except ValueError as error:
        if type(error) is not ValueError or case["name"] not in str(error):
            raise Broken(f"error: {type(error).__name__} does not name it: {error}") from error
        if state(model) != before:
            raise Broken("estimator: an error has changed it") from error
        return
    if not (case["method"] != "fit" and case["name"] in ignored) and not _unused(case):
        raise Broken(f"{case['name']}: {case['value']!r} is accepted")


def _unused(case: Case) -> bool:
    """Tell whether a parameter has no meaning for a case."""
    several = case.get("labels") == "several"
    needs_held_out = case["name"] == "cv" and not case["params"].get("early_stopping", True)
    return needs_held_out or (several and case["name"] in ("class_weight", "class_coding"))


def _wrong(rng: Rng) -> Case:
    case = {**random_case(rng), "what": choose(rng, WRONG_INPUT), "rows": 20, "outliers": False}
    case |= {"container": "array", "missing": False, "categories": 0, "errors": "none"}
    if case["estimator"] == "TAGIClassifier":
        case["labels"] = choose(rng, ("numbers", "text", "several"))
    else:
        case["missing targets"] = False
    case["dtype"] = choose(rng, ("float64", "float32"))
    case |= {"x_scale": 0, "y_scale": 0, "weights": choose(rng, ("none", "some"))}
    case["method"] = choose(rng, ("fit", "partial_fit", "predict"))
    return case


@check("wrong rows are refused", _wrong)
def _wrong_rows(case: Case) -> None:
    rows, _ = make_rows(case)
    is_classifier, what, method = "classes" in case, case["what"], case["method"]
    model = learned(case, make_estimator(case), rows)
    if what == "y has another target" and (method == "fit" or np.ndim(rows.y) > 1):
        return
    if method == "fit":
        if what in ("another column", *(["y is text"] if is_classifier else [])):
            return
        model = make_estimator(case)
    before = state(model)
    given = spoil(rows, what, is_classifier)
    if method == "predict":
        given = {k: v for k, v in given.items() if k in ("X", "X_std", "X_cov")}
        if not what.startswith(("X", "no rows", "another")):
            return
    try:
        getattr(model, method)(**given)
    except Exception as error:
        is_type = type(error) is TypeError and what in ("X is text", "X has dates", "y is None")
        if not (is_clear(error) or is_type):
            raise
        if state(model) != before:
            raise Broken(f"estimator: an error has changed it: {error}") from error
    else:
        is_nothing = what == "all weights are zero" and method == "partial_fit"
        if is_nothing and state(model) == before:  # as doc/streams.md says
            return
        raise Broken(f"{what}: accepted by {method}")


@check("a failed partial_fit leaves the model", _wrong)
def _failed(case: Case) -> None:
    rows, test = make_rows(case)
    model = learned(case, make_estimator(case), rows)
    undisturbed = deepcopy(model)
    try:
        model.partial_fit(**spoil(rows, case["what"], "classes" in case))
    except Exception as error:
        if isinstance(error, Broken):
            raise
    else:
        return  # it was no error
    good = rows.given("partial_fit")
    first = predicted(undisturbed.partial_fit(**good), test.X)
    same(first, predicted(model.partial_fit(**good), test.X), "after an error")
