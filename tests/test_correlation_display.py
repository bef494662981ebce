"""CorrelationDisplay draws the sorted correlations of each layer."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sktagi import TAGIRegressor
from sktagi.plotting import CorrelationDisplay

plt = pytest.importorskip("matplotlib.pyplot")


def fitted(**params):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    defaults = {"covariance_type": "full", "n_members": 1, "max_iter": 2, "random_state": 0}
    return TAGIRegressor((4,), **{**defaults, **params}).fit(X, X[:, 0] - X[:, 1])


@pytest.fixture(autouse=True)
def _no_window(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("agg")
    yield
    plt.close("all")


def test_lines_are_the_correlations_of_the_layers():
    model = fitted()
    display = CorrelationDisplay.from_estimator(model)
    assert [len(line.get_ydata()) for line in display.lines_] == [12 * 11 / 2, 5 * 4 / 2]
    for cov, line in zip(model.layer_covariances_, display.lines_, strict=True):
        std = np.sqrt(np.diag(cov))
        expected = sorted((cov / np.outer(std, std))[np.triu_indices(len(cov), 1)])
        np.testing.assert_allclose(line.get_ydata(), expected)
        assert (np.diff(line.get_xdata()) > 0).all()
    assert [line.get_label() for line in display.lines_] == ["layer 0 (input)", "layer 1 (output)"]
    assert display.figure_ is display.ax_.figure
    assert display.ax_.get_ylabel()


def test_it_draws_on_axes_given_with_the_style_given():
    figure, ax = plt.subplots()
    display = CorrelationDisplay.from_estimator(fitted(), ax=ax, color="red")
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert {line.get_color() for line in display.lines_} == {"red"}
    other = display.plot()
    assert other.ax_ is not ax


def test_a_member_is_chosen():
    model = fitted(n_members=3)
    for member in range(3):
        display = CorrelationDisplay.from_estimator(model, member=member)
        cov = model.layer_covariances_[1][member]
        std = np.sqrt(np.diag(cov))
        lowest = (cov / np.outer(std, std)).min()
        assert display.lines_[1].get_ydata()[0] == pytest.approx(lowest)
    for model_of_few in (model, fitted()):
        for member in (9, -1, "first"):
            with pytest.raises(ValueError, match=r"member must be.* from 0 to [02]"):
                CorrelationDisplay.from_estimator(model_of_few, member=member)


def test_millions_of_pairs_are_a_short_line():
    values = np.sort(np.random.default_rng(0).uniform(-1, 1, size=10**6))
    (line,) = CorrelationDisplay(correlations=[values], names=["wide"]).plot().lines_
    drawn = line.get_ydata()
    assert len(drawn) == 1000
    assert (drawn[0], drawn[-1]) == (values[0], values[-1])
    np.testing.assert_allclose(np.interp([25, 75], line.get_xdata(), drawn), [-0.5, 0.5], atol=0.01)


def test_what_it_cannot_draw():
    with pytest.raises(AttributeError, match="covariance_type='diag'"):
        CorrelationDisplay.from_estimator(fitted(covariance_type="diag"))
    with pytest.raises(NotFittedError):
        CorrelationDisplay.from_estimator(TAGIRegressor(covariance_type="full"))


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    model = fitted()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="pip install"):
        CorrelationDisplay.from_estimator(model)
