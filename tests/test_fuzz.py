"""The fuzz command: a short run, and that it finds, shrinks and prints what is broken."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks" / "__main__.py").exists():
    pytest.skip("the benchmarks are part of a checkout only", allow_module_level=True)
sys.path.insert(0, str(ROOT))
from benchmarks import fuzz  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.fuzz import CHECKS, cases, describe, run, shrink, snippet  # noqa: E402
from sktagi import TAGIClassifier, TAGIRegressor  # noqa: E402

PARTS = 4  # of the short run, each with a seed of its own


@pytest.mark.parametrize("seed", range(PARTS))
def test_random_configurations_break_nothing(seed):
    found = fuzz.fuzz(seed, n_cases=8 * len(CHECKS))
    shown = [f"{run(case).what}\n{snippet(case)}" for case in found.failures.values()]
    assert not shown, "\n".join(shown)
    assert all(found.counts[name, "held"] for name in CHECKS)


def test_cases_depend_on_the_seed_alone():
    def some(seed):
        return [case for case, _ in zip(cases(seed), range(40), strict=False)]

    assert repr(some(3)) == repr(some(3)) != repr(some(4))


def with_wrong_units(monkeypatch):
    """The standard deviation grows with the square root of the units of y."""
    predict = TAGIRegressor.predict

    def wrong(self, X, return_std=False, *args, **kwargs):
        found = predict(self, X, return_std, *args, **kwargs)
        return (found[0], np.sqrt(found[1])) if return_std else found

    monkeypatch.setattr(TAGIRegressor, "predict", wrong)


def with_nan(monkeypatch):
    """A probability is NaN if there are three classes."""
    predict = TAGIClassifier.predict_proba

    def wrong(self, X, return_std=False, *args, **kwargs):
        proba, std = predict(self, X, True, *args, **kwargs)
        if proba.shape[1] == 3:
            proba[0, 0] = np.nan
        return (proba, std) if return_std else proba

    monkeypatch.setattr(TAGIClassifier, "predict_proba", wrong)


def with_written_input(monkeypatch):
    """Learning writes to the rows that it is given."""
    fit = TAGIRegressor.fit

    def wrong(self, X, y, *args, **kwargs):
        fit(self, X, y, *args, **kwargs)
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X[0] = 0
        return self

    monkeypatch.setattr(TAGIRegressor, "fit", wrong)


def with_a_warning(monkeypatch):
    """An overflow in NumPy."""
    predict = TAGIRegressor.predict

    def wrong(self, X, return_std=False, *args, **kwargs):
        np.square(np.array([1e300]))
        return predict(self, X, return_std, *args, **kwargs)

    monkeypatch.setattr(TAGIRegressor, "predict", wrong)


def with_an_unclear_error(monkeypatch):
    """A wrong parameter ends in an error from inside of NumPy."""
    monkeypatch.setattr("sktagi._base.check_params", lambda params: np.zeros(2) + np.zeros(3))


def with_a_changed_estimator(monkeypatch):
    """A failed partial_fit has learned half."""
    partial_fit = TAGIRegressor.partial_fit

    def wrong(self, *args, **kwargs):
        if hasattr(self, "n_iter_"):
            self.n_iter_ += 1
        return partial_fit(self, *args, **kwargs)

    monkeypatch.setattr(TAGIRegressor, "partial_fit", wrong)


PLANTED = {
    "units of y": (with_wrong_units, "y in other units"),
    "numbers are sound": (with_nan, "probabilities: not finite"),
    "predictions change nothing": (with_written_input, "arguments: they have been written to"),
    "blocks and order of rows": (with_a_warning, "RuntimeWarning: overflow"),
    "wrong parameters are named": (with_an_unclear_error, "error: ValueError does not name it"),
    "wrong rows are refused": (with_a_changed_estimator, "estimator: an error has changed it"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found_and_shrunk(monkeypatch, name):
    plant, what = PLANTED[name]
    plant(monkeypatch)
    found = fuzz.fuzz(0, n_cases=60, only=[name])
    assert found.counts[name, "failed"]
    case = next(case for case in found.failures.values() if what in run(case).what)
    smallest, outcome = shrink(case, seconds=10)
    assert outcome.end == "failed"
    assert outcome.kind == run(case).kind
    assert what in outcome.what
    assert smallest["rows"] * smallest["features"] <= case["rows"] * case["features"]
    assert len(smallest["params"]) <= len(case["params"])
    assert len(repr(smallest)) <= len(repr(case))
    monkeypatch.undo()
    assert run(smallest).end != "failed"


def test_a_shrunk_case_has_only_what_its_failure_needs():
    def fails(case):
        """Fail for three classes or more, read from a frame."""
        broken = case.get("classes", 0) >= 3 and case["container"] == "pandas"
        return fuzz.Outcome("failed" if broken else "held", "", "planted")

    case = next(case for case in cases(0) if fails(case).end == "failed")
    smallest, _ = shrink(case, run=fails)
    assert (smallest["rows"], smallest["features"], smallest["classes"]) == (2, 1, 3)
    assert (smallest["weights"], smallest["learn"], smallest["dtype"]) == ("none", "fit", "float64")
    plain = {"hidden_layer_sizes", "covariance_type", "max_iter", "n_members", "random_state"}
    assert set(smallest["params"]) == plain


def test_a_snippet_is_a_program():
    case = describe("wrong parameters are named", np.random.default_rng(0))
    case |= {"name": "tol", "value": float("nan")}
    done = subprocess.run(
        [sys.executable, "-c", snippet(case)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Outcome(end='held'"), done.stdout + done.stderr


def test_the_command_prints_counts_and_ends_with_1_after_a_failure(monkeypatch, capsys):
    main(["fuzz", "--cases", "4", "--only", "merging", "wrong rows are refused"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| check | held | refused | failed |"
    assert lines[-3].startswith("| all | ")
    with_a_warning(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        main(["fuzz", "--cases", "6", "--only", "blocks and order of rows"])
    assert ended.value.code == 1
    assert "from benchmarks.fuzz import run" in capsys.readouterr().out
