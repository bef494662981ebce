"""The faults command: a short run of what is quick, and that it finds what is broken."""

import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "benchmarks" / "__main__.py").exists():
    pytest.skip("the benchmarks are part of a checkout only", allow_module_level=True)
sys.path.insert(0, str(ROOT))
from benchmarks import faults  # noqa: E402
from benchmarks.__main__ import main  # noqa: E402
from benchmarks.faults.trials import TRIALS, Broken, load, missing  # noqa: E402
from sktagi import TAGIRegressor  # noqa: E402

QUICK = {
    "Ctrl-C in fit": 8,
    "Ctrl-C twice in fit": 8,
    "Ctrl-C in partial_fit": 20,
    "Ctrl-C in partial_fit of a row": 40,
    "Ctrl-C in a search": 6,
    "Ctrl-C in save": 20,
    "too little memory": 4,
    "too little memory in partial_fit": 4,
}


def skip_if_missing(name):
    if what := missing(name):
        pytest.skip(what)


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_at_a_random_moment_leaves_a_whole_estimator(name):
    skip_if_missing(name)
    found = faults.try_again(name, seed=0, times=QUICK[name])
    assert not found.broken
    assert found.times == QUICK[name]


def test_every_trial_is_there():
    for name in TRIALS:
        assert missing(name) or callable(load(name))


def learns_in_place(monkeypatch):
    """An interrupted partial_fit leaves what it did so far."""
    from contextlib import nullcontext

    unchanged = lambda self: nullcontext()  # noqa: E731
    monkeypatch.setattr(TAGIRegressor, "_unchanged_if_it_fails", unchanged)


def says_nothing(monkeypatch):
    """An interrupted fit does not warn."""
    silent = staticmethod(lambda *args, **kwargs: None)
    monkeypatch.setattr(TAGIRegressor, "_warn_if_interrupted", silent)


PLANTED = {
    "Ctrl-C in partial_fit": (learns_in_place, "half learned"),
    "Ctrl-C in fit": (says_nothing, "half learned, without a warning"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found(monkeypatch, name):
    skip_if_missing(name)
    plant, what = PLANTED[name]
    plant(monkeypatch)
    with pytest.raises(Broken, match=what):
        list(islice(load(name)(np.random.default_rng(0)), 60))


def test_a_process_that_ends_or_does_not_answer_is_broken(monkeypatch):
    process = faults.Process("Ctrl-C in save", 0)
    process._process.kill()
    assert "ended with" in process.answer()["ended"]
    monkeypatch.setattr(faults, "PATIENCE", 0.01)
    assert "no answer" in faults.try_again("Ctrl-C in save", seed=0, times=1).broken[0]


def test_the_command_prints_a_table_and_ends_with_1_if_something_is_broken(monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.faults.trials.importlib.util.find_spec", lambda name: None)
    main(["faults", "--times", "2", "--only", "Ctrl-C in save", "no dask workers"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "| trial | times | held | broken | what came of it |"
    assert lines[2].startswith("| Ctrl-C in save | 2 | 2 | 0 | ")
    assert lines[3] == "| no dask workers | 0 | 0 | 0 | skipped: no distributed |"
    monkeypatch.setattr(faults, "PATIENCE", 0.01)
    with pytest.raises(SystemExit) as ended:
        main(["faults", "--times", "1", "--only", "Ctrl-C in save"])
    assert ended.value.code == 1
    assert "Ctrl-C in save: no answer" in capsys.readouterr().out
