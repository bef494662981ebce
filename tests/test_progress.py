"""What ``verbose`` shows, on a terminal and in a log."""

import io
import re
from contextlib import redirect_stdout, suppress
from types import SimpleNamespace

import numpy as np
import pytest

from sktagi import TAGIClassifier, TAGIRegressor, _progress
from sktagi._progress import Progress, duration
from sktagi.engine.training import History


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def screen(self):
        """What one sees: a carriage return goes back, what follows overwrites."""
        lines = []
        for line in self.getvalue().split("\n"):
            seen = ""
            for part in line.split("\r"):
                seen = part + seen[len(part) :]
            lines.append(seen.rstrip())
        return lines


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_UPDATES", 0.0)
    monkeypatch.setenv("COLUMNS", "200")
    out = Terminal()
    monkeypatch.setattr(_progress, "sys", SimpleNamespace(stdout=out))
    return out


def fit(estimator=TAGIRegressor, **params):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] > 0).astype(int)
    quick = {"hidden_layer_sizes": (8,), "max_iter": 7, "n_members": 2, "random_state": 0}
    return estimator(**{**quick, **params}).fit(X, y)


def numbers(line, name):
    return float(re.search(rf"{name} (-?[\d.]+)", line).group(1))


def test_silence_is_the_default(capsys):
    fit()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_a_terminal_shows_one_line_that_ends_as_the_summary(terminal, estimator):
    model = fit(estimator, verbose=1)
    updates = terminal.getvalue().split("\r")
    assert len(updates) == 1 + 7 + 1
    for epoch, line in enumerate(updates[1:-1]):
        assert f"{estimator.__name__} | epoch {epoch + 1}/7 " in line
        assert numbers(line, "train") == pytest.approx(model.train_scores_[epoch], abs=1e-4)
        assert numbers(line, "valid") == pytest.approx(model.validation_scores_[epoch], abs=1e-4)
        assert re.search(r"best \d(-\d)? \| < [\d.]+ s left *$", line)
    assert len(terminal.screen) == 2  # one line, and the empty one below it
    assert terminal.screen[0].startswith(f"{estimator.__name__} all epochs done after 7 epochs")
    first, last = model.best_iter_.min(), model.best_iter_.max()
    kept = f"{first}" if first == last else f"{first}-{last}"
    assert terminal.screen[0].endswith(f"kept epoch {kept}")
    assert terminal.screen[1] == ""


@pytest.mark.parametrize("columns", [20, 30, 40, 60, 80, 120])
def test_an_updating_line_never_wraps_and_always_says_the_epoch(terminal, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    fit(verbose=1)
    lines = [line.rstrip() for line in terminal.getvalue().split("\r")[1:-1]]
    assert max(map(len, lines)) < columns
    assert all("epoch" in line and "/7" in line for line in lines)
    if columns >= 80:
        assert len(terminal.screen[0]) < columns  # the summary
        assert all("train" in line and "valid" in line and "left" in line for line in lines)


@pytest.mark.parametrize("verbose", [1, 2])
def test_a_stdout_that_only_writes_gets_plain_lines(monkeypatch, verbose):
    lines = []
    tee = SimpleNamespace(write=lines.append, flush=lambda: None)
    monkeypatch.setattr(_progress, "sys", SimpleNamespace(stdout=tee))
    fit(verbose=verbose)
    assert len(lines) == {1: 4, 2: 8}[verbose]
    assert all(line.endswith("\n") and "\r" not in line for line in lines)


def test_a_shorter_line_leaves_nothing_of_the_longer_one_before(terminal):
    progress = Progress("Model", 3, 1, True)
    progress(History([-1234.5678], [-1234.5678], np.array([1])))
    progress(History([-1234.5678, 1.0], [-1234.5678, 2.0], np.array([2])))
    assert re.fullmatch(
        r"Model \| epoch 2/3 \| loglik train 1\.0000 \| valid 2\.0000 \| best 2 \| < 0\.0 s left",
        terminal.screen[0],
    )


def test_fast_epochs_do_not_flood_a_terminal(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_UPDATES", 1000.0)
    fit(verbose=1)
    assert terminal.getvalue().count("\r") == 2  # the first epoch and the summary


def test_an_error_begins_on_a_line_of_its_own(terminal):
    with suppress(ZeroDivisionError), Progress("Model", 3, 1, False) as progress:
        progress(History([-1.0]))
        raise ZeroDivisionError
    assert terminal.screen[-1] == ""
    assert terminal.getvalue().count("\n") == 1


def test_a_log_gets_few_lines_at_growing_intervals(capsys):
    model = fit(verbose=1, max_iter=60, early_stopping=False)
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert "\r" not in out
    epochs = [int(re.search(r"epoch +(\d+)/60", line).group(1)) for line in lines[:-1]]
    assert epochs == [1, 2, 5, 10, 20, 50]
    for epoch, line in zip(epochs, lines, strict=False):
        assert numbers(line, "train") == pytest.approx(model.train_scores_[epoch - 1], abs=1e-4)
        assert "valid" not in line
        assert "best" not in line
        assert "<" not in line
    assert lines[-1].startswith("TAGIRegressor all epochs done after 60 epochs")
    assert numbers(lines[-1], "train") == pytest.approx(model.train_scores_[-1], abs=1e-4)


def test_slow_epochs_get_a_line_a_minute_in_a_log(capsys, monkeypatch):
    clock = 0.0
    monkeypatch.setattr(_progress.time, "perf_counter", lambda: clock)
    progress = Progress("Model", 30, 1, False)
    for epoch in range(1, 16):
        clock += 45.0
        progress(History([0.0] * epoch))
    epochs = re.findall(r"epoch +(\d+)/30", capsys.readouterr().out)
    assert list(map(int, epochs)) == [1, 2, 4, 5, 7, 9, 10, 12, 14]


@pytest.mark.parametrize("tty", [False, True])
def test_verbose_2_writes_a_line_for_each_epoch(tty):
    out = Terminal() if tty else io.StringIO()
    with redirect_stdout(out):
        fit(verbose=2)
    lines = out.getvalue().splitlines()
    assert "\r" not in out.getvalue()
    assert len(lines) == 7 + 1
    assert all(f"epoch {k + 1}/7" in line for k, line in enumerate(lines[:-1]))


def test_the_last_line_says_why_training_ended(capsys):
    fit(verbose=True, max_iter=50, n_iter_no_change=2, tol=1e6, sigma_v="constant")
    assert "no further gain after 3 epochs" in capsys.readouterr().out
    fit(verbose=1, max_iter=0)
    assert "all epochs done after 0 epochs" in capsys.readouterr().out
    progress = Progress("Model", 5, 1, True)
    net = TAGIRegressor((3,), max_iter=0).fit([[0.0], [1.0]], [0.0, 1.0])._net
    progress.close(History([0.0], interrupted=True), net)
    assert "interrupted after 1 epochs" in capsys.readouterr().out
    progress.close(History([0.0], stopped=True), net)
    assert "stopped by a callback after 1 epochs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (3599.7, "1 h 00 min"),
        (7384, "2 h 03 min"),
    ],
)
def test_durations_are_short_to_read(seconds, text):
    assert duration(seconds) == text
