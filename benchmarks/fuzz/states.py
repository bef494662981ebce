"""Checks of saved, copied and merged estimators."""

from __future__ import annotations

import pickle
from copy import deepcopy

from joblib import parallel_config
from sklearn.base import clone

from sktagi.merging import fork, merge

from .cases import Case, choose, random_case, with_spread
from .data import learned, make_estimator, make_rows
from .trial import Broken, Rng, check, is_finite, predicted, rounding, same, sensitivity, state


@check("saved and read again")
def _saved(case: Case) -> None:
    rows, test = make_rows(case)
    model = learned(case, make_estimator(case), rows)
    expected = predicted(model, test.X, test.errors)
    copies = {"pickle": pickle.loads(pickle.dumps(model)), "deepcopy": deepcopy(model)}
    if hasattr(model, "to_bytes"):
        copies["to_bytes"] = type(model).from_bytes(model.to_bytes())
    more = rows.take(slice(0, max(3, case["rows"] // 3)))
    if more.weight is not None and not more.weight.any():
        more = more._replace(weight=None)
    more_given = more.given("partial_fit")
    for name, copied in copies.items():
        same(expected, predicted(copied, test.X, test.errors), name)
    model.partial_fit(**more_given)
    expected = predicted(model, test.X, test.errors)
    for name, copied in copies.items():
        copied.partial_fit(**more_given)
        same(expected, predicted(copied, test.X, test.errors), f"{name} that goes on")


@check("clone, seed and n_jobs")
def _clone(case: Case) -> None:
    rows, test = make_rows(case)
    model = make_estimator(case)
    learned(case, model, rows)
    expected = predicted(model, test.X, test.errors)
    cloned = clone(model)
    if cloned.get_params() != model.get_params():
        raise Broken("clone: other parameters")
    if hasattr(cloned, "n_features_in_") or hasattr(cloned, "_net"):
        raise Broken("clone: it is fitted")
    cloned.set_params(**{k: v for k, v in make_estimator(case).get_params().items()})
    same(expected, predicted(learned(case, cloned, rows), test.X, test.errors), "clone")
    with parallel_config(backend="threading", n_jobs=2):
        parallel = learned(case, make_estimator(case), rows)
    same(expected, predicted(parallel, test.X, test.errors), "n_jobs")


def _fewest(case: Case) -> int:
    """Return how many rows are enough to merge.

    A third of them is the start, of which half may be held out, and a third be of no weight. Units
    that fewer than ten rows tell are a guess, and shards guess differently.
    """
    fewest = 60 if "cv" in case["params"] else 45
    return fewest * 3 // 2 if case["weights"] == "some are zero" else fewest


def _for_merging(rng: Rng) -> Case:
    case = with_spread(random_case(rng))
    case["params"]["covariance_type"] = "diag"
    return {
        **case,
        "rows": max(_fewest(case), case["rows"]),
        "learn": choose(rng, ("fit", "stream")),
    }


@check("merging", _for_merging)
def _merging(case: Case) -> None:
    if case["rows"] < _fewest(case):
        return
    rows, test = make_rows(case)
    n = case["rows"]
    start = fork(learned(case, make_estimator(case), rows.take(slice(n // 3))))
    expected = predicted(start, test.X, test.errors)
    same(expected, predicted(merge([start]), test.X, test.errors), "merge of one", rounding(case))
    shards = []
    for part in (slice(n // 3, n // 2), slice(n // 2, n)):
        given = rows.take(part)
        if given.weight is not None and not given.weight.any():
            given = given._replace(weight=None)
        shards.append(deepcopy(start).partial_fit(**given.given("partial_fit")))
    before = [state(shard) for shard in shards]
    merged = merge(shards)
    found = predicted(merged, test.X, test.errors)
    is_finite(found, "merged")
    turned = predicted(merge(shards[::-1]), test.X, test.errors)
    tol = rounding(case) * 1e2 * sensitivity(case)
    same(found, turned, "shards in another order", tol)
    if [state(shard) for shard in shards] != before:
        raise Broken("shards: merge has changed them")
    added = sum(s.n_samples_seen_ - start.n_samples_seen_ for s in shards)
    if merged.n_samples_seen_ != start.n_samples_seen_ + added:
        raise Broken("n_samples_seen_: not that of all shards")
