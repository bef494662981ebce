"""Ctrl-C at random moments of fit, partial_fit, a search, and save.

A timer of the system raises KeyboardInterrupt in the handler of its signal, as Ctrl-C does.
"""

from __future__ import annotations

import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine import interrupts

from .trials import AS_BEFORE, AS_IF_NOTHING, blas_threads, check_sound, make_rows, require

Rng = np.random.Generator
BEST_SO_FAR = "with what was learned so far, and a warning"
X, Y = make_rows(80)


class Pressed(NamedTuple):
    """What came of a call with Ctrl-C in it."""

    raised: bool
    warned: list[str]

    @property
    def told(self) -> bool:
        """Whether a warning says so."""
        return any("interrupted" in text for text in self.warned)


def press(call: Callable[[], Any], seconds: float, again: float = 0.0) -> Pressed:
    """Call with Ctrl-C after some seconds, and again, if it is still there."""
    raised = False
    before = blas_threads()
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6), again)
                call()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raised = True
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    require(blas_threads() == before, "BLAS threads are not as before")
    return Pressed(raised, [str(one.message) for one in caught])


def seconds_of(call: Callable[[], Any]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call()
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def models(rng: Rng) -> Iterator[tuple[Any, np.ndarray]]:
    """Give estimators of both classes, of one kind of networks and of several."""
    while True:
        params: dict[str, Any] = {"n_members": 2, "max_iter": 8}
        params["random_state"] = int(rng.integers(1000))
        if rng.random() < 0.7:
            params["hidden_layer_sizes"] = (8,)
        yield TAGIRegressor(**params), Y
        yield TAGIClassifier(**params), np.digitize(Y, [1.0, 2.0])


def copied(model: Any) -> Any:
    return type(model).from_bytes(model.to_bytes())


def judged(model: Any, pressed: Pressed, before: bytes, after: bytes) -> str | None:
    """Tell what a model is like; None if it is neither as before nor as without Ctrl-C."""
    found = model.to_bytes()
    if found == before:
        require(pressed.raised, "nothing was learned, and nothing raised")
        return AS_BEFORE
    return AS_IF_NOTHING if found == after else None


def of_fit(rng: Rng, *, twice: bool) -> Iterator[str]:
    for start, y in models(rng):
        if rng.random() < 0.5:
            start.fit(X[::2], y[::2])
        before, undisturbed = start.to_bytes(), copied(start)
        takes = seconds_of(partial(undisturbed.fit, X, y))
        for _ in range(4):
            interrupts._last = -np.inf  # an interrupt of another fit was long ago
            model, first = copied(start), rng.uniform(0, 1.1) * takes
            again = rng.uniform(0.02, 0.5) * takes if twice else 0.0
            pressed = press(partial(model.fit, X, y), first, again)
            end = judged(model, pressed, before, undisturbed.to_bytes())
            if end is None:
                require(pressed.told and not pressed.raised, "half learned, without a warning")
                require(len(model.train_scores_) == model.n_iter_, "n_iter_ is wrong")
                check_sound(model, X, y)
                end = BEST_SO_FAR
            yield end


def in_fit(rng: Rng) -> Iterator[str]:
    return of_fit(rng, twice=False)


def twice_in_fit(rng: Rng) -> Iterator[str]:
    return of_fit(rng, twice=True)


def of_partial_fit(rng: Rng, rows: slice, tries: int) -> Iterator[str]:
    for model, y in models(rng):
        model.fit(X, y)
        takes = seconds_of(partial(copied(model).partial_fit, X[rows], y[rows]))
        for _ in range(tries):
            before, undisturbed = model.to_bytes(), copied(model).partial_fit(X[rows], y[rows])
            seconds = rng.uniform(0, 1.2) * takes
            pressed = press(partial(model.partial_fit, X[rows], y[rows]), seconds)
            end = judged(model, pressed, before, undisturbed.to_bytes())
            require(end is not None, "half learned")
            yield str(end)
            check_sound(model, X, y)


def in_partial_fit(rng: Rng) -> Iterator[str]:
    return of_partial_fit(rng, slice(None), 10)


def in_a_row(rng: Rng) -> Iterator[str]:
    return of_partial_fit(rng, slice(1), 30)


def in_a_search(rng: Rng) -> Iterator[str]:
    for model, y in models(rng):
        model.set_params(hidden_layer_sizes=(4,), max_iter=4)
        grid = {"sigma_v": [0.1, 0.3]} if y is Y else {"probit_scale": [0.5, 1.0]}
        before, undisturbed = model.to_bytes(), GridSearchCV(model, grid, cv=2)
        takes = seconds_of(partial(undisturbed.fit, X, y))
        for _ in range(4):
            interrupts._last = -np.inf
            search = GridSearchCV(model, grid, cv=2)
            pressed = press(partial(search.fit, X, y), rng.uniform(0, 1.05) * takes)
            require(model.to_bytes() == before, "the estimator of a search has changed")
            if pressed.raised:
                yield "raised"
                continue
            scores, expected = (a.cv_results_["mean_test_score"] for a in (search, undisturbed))
            check_sound(search.best_estimator_, X, y)
            seen = f"{scores}, not {expected}; {pressed.warned}"
            if not pressed.told:
                same = np.array_equal(scores, expected)
                require(same, f"other scores, and no word of an interrupt: {seen}")
                yield AS_IF_NOTHING
                continue
            require(bool(np.isfinite(scores).all()), f"a score is not finite: {seen}")
            yield BEST_SO_FAR


def in_save(rng: Rng) -> Iterator[str]:
    model = TAGIRegressor((60,), n_members=2, random_state=0).partial_fit(X, Y)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        takes = seconds_of(partial(model.save, path))
        while True:
            before = model.to_bytes()
            model.partial_fit(X[:1], Y[:1])
            pressed = press(partial(model.save, path), rng.uniform(0, 1.2) * takes)
            found = TAGIRegressor.load(path).to_bytes()
            require(pressed.raised or found == model.to_bytes(), "not saved, and nothing raised")
            require(found in (before, model.to_bytes()), "neither the old nor the new model")
            require([one.name for one in path.parent.iterdir()] == ["model"], "a file is left")
            yield AS_BEFORE if found == before else AS_IF_NOTHING
            model.save(path)
