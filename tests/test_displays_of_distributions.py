"""Displays of distributions that are not Gaussian, and of coverage by group."""

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.linear_model import BayesianRidge, LinearRegression

from sktagi._any_estimator import predict_dist
from sktagi.metrics import calibration_error, interval_coverage

plt = pytest.importorskip("matplotlib.pyplot")

from sktagi.plotting import (  # noqa: E402  after the check for matplotlib
    CoverageByGroupDisplay,
    ErrorDisplay,
    IntervalCalibrationDisplay,
    PredictionIntervalDisplay,
    VarianceDisplay,
    _calibration,
    _errors,
    _groups,
    _intervals,
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def skewed(n=200):
    """Targets drawn from gamma distributions, and these."""
    dist = stats.gamma(2, scale=np.linspace(1, 4, n))
    return dist.ppf(np.random.default_rng(0).uniform(size=n)), dist


def growing(n=1000):
    """Targets whose noise grows with the mean, and stds that do not."""
    rng = np.random.default_rng(0)
    mean = rng.uniform(1, 9, size=n)
    return mean + mean * rng.normal(size=n), mean, np.full(n, 5.0)


def rows(n=200):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    return X, X @ [2.0, 1.0, 0.0] + rng.normal(size=n)


# Distributions


@pytest.mark.parametrize("by_name", [True, False])
def test_the_band_is_the_interval_of_the_distribution(by_name):
    y, dist = skewed()
    given = {"dist": dist} if by_name else {"mean": dist}
    display = PredictionIntervalDisplay.from_predictions(y, coverage=0.8, **given)
    np.testing.assert_allclose(display.interval, np.stack(dist.interval(0.8), axis=-1))
    np.testing.assert_allclose(display.line_.get_ydata(), dist.mean())
    vertices = display.band_.get_paths()[0].vertices[:, 1]
    assert vertices.max() == pytest.approx(dist.ppf(0.9).max())
    assert PredictionIntervalDisplay.from_predictions(None, dist=dist).points_ is None


def test_the_band_of_an_infinite_std_is_drawn():
    dist = stats.t(1.5, loc=np.arange(5.0))
    display = PredictionIntervalDisplay.from_predictions(np.arange(5.0), dist=dist)
    np.testing.assert_allclose(display.interval[:, 1], dist.ppf(0.95))
    with pytest.raises(ValueError, match=r"dist.std gives inf for row 0"):
        ErrorDisplay.from_predictions(np.arange(5.0), dist=dist)


def test_calibration_is_that_of_the_distribution():
    y, dist = skewed()
    display = IntervalCalibrationDisplay.from_predictions(y, dist=dist)
    assert display.error == pytest.approx(calibration_error(y, dist))
    for nominal, observed in zip(display.nominal[1:-1], display.observed[1:-1], strict=True):
        assert observed == pytest.approx(interval_coverage(y, dist, coverage=nominal))
    gaussian = IntervalCalibrationDisplay.from_predictions(y, dist.mean(), dist.std())
    assert gaussian.error != pytest.approx(display.error, rel=0.01)


def test_errors_are_those_of_mean_and_std_of_the_distribution():
    y, dist = skewed()
    display = ErrorDisplay.from_predictions(y, dist=dist)
    expected = ErrorDisplay.from_predictions(y, dist.mean(), dist.std())
    np.testing.assert_allclose(display.points_.get_xydata(), expected.points_.get_xydata())


def test_one_of_several_targets_of_a_distribution_is_chosen():
    dist = stats.gamma(np.column_stack([np.linspace(1, 3, 50), np.linspace(9, 4, 50)]))
    y = dist.ppf(np.random.default_rng(0).uniform(size=(50, 2)))
    y[::5, 1] = np.nan
    seen = ~np.isnan(y[:, 1])
    one = stats.gamma(dist.args[0][seen, 1])
    display = IntervalCalibrationDisplay.from_predictions(y, dist=dist, target=1)
    assert display.error == pytest.approx(calibration_error(y[seen, 1], one))
    display = PredictionIntervalDisplay.from_predictions(y, dist=dist, target=1)
    order = np.argsort(dist.mean()[:, 1])
    np.testing.assert_allclose(display.interval[:, 0], dist.ppf(0.05)[order, 1])
    assert len(display.points_.get_xdata()) == seen.sum()
    display = CoverageByGroupDisplay.from_predictions(y, dist=dist, target=1, n_groups=1)
    assert display.observed[0] == pytest.approx(interval_coverage(y[seen, 1], one))


@pytest.mark.parametrize(
    ("display", "module"),
    [
        (PredictionIntervalDisplay, _intervals),
        (IntervalCalibrationDisplay, _calibration),
        (ErrorDisplay, _errors),
        (CoverageByGroupDisplay, _groups),
    ],
)
def test_displays_of_an_estimator_draw_its_own_distribution(monkeypatch, display, module):
    y, dist = skewed()
    X = np.column_stack([np.arange(200.0), np.ones(200)])
    model = BayesianRidge().fit(X, y)
    monkeypatch.setattr(module, "predict_dist", lambda estimator, rows: dist)
    shown = vars(display.from_estimator(model, X, y))
    expected = vars(display.from_predictions(y, dist=dist))
    for name in ("interval", "observed", "std", "error"):
        if name in expected:
            np.testing.assert_array_equal(shown[name], expected[name])


@pytest.mark.parametrize(
    "display",
    [
        PredictionIntervalDisplay,
        IntervalCalibrationDisplay,
        ErrorDisplay,
        CoverageByGroupDisplay,
    ],
)
def test_predictions_that_are_incomplete_are_refused(display):
    y, dist = skewed(20)
    with pytest.raises(ValueError, match="not both"):
        display.from_predictions(y, dist.mean(), dist.std(), dist=dist)
    with pytest.raises(ValueError, match="mean and std, or a distribution"):
        display.from_predictions(y, dist.mean())
    with pytest.raises(ValueError, match="same shape"):
        display.from_predictions(y[:-1], dist=dist)
    with pytest.raises(TypeError, match=r"return_std.*LinearRegression"):
        display.from_estimator(LinearRegression().fit(*rows()), *rows())


# Coverage by group


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_fifths_of_the_predicted_value(weighted):
    y, mean, std = growing()
    weight = np.random.default_rng(2).uniform(size=len(y)) if weighted else None
    display = CoverageByGroupDisplay.from_predictions(y, mean, std, sample_weight=weight)
    fifths = np.argsort(mean).reshape(5, 200)
    for k, fifth in enumerate(fifths):
        part = None if weight is None else weight[fifth]
        expected = interval_coverage(y[fifth], mean[fifth], std[fifth], sample_weight=part)
        assert display.observed[k] == pytest.approx(expected)
        assert display.labels[k] == f"{mean[fifth].min():.3g}\nto {mean[fifth].max():.3g}"
    np.testing.assert_allclose(display.points_.get_ydata(), display.observed)
    assert display.observed[0] > 0.98
    assert display.observed[-1] < 0.75
    if not weighted:
        np.testing.assert_array_equal(display.n_rows, 200)
    else:  # these weights are worth three quarters of the rows
        np.testing.assert_allclose(display.n_rows, 150, rtol=0.06)


def test_ends_of_intervals_are_grouped_by_their_middle():
    y, mean, std = growing()
    low, high = stats.norm(mean, std).interval(0.9)
    display = CoverageByGroupDisplay.from_predictions(y, lower=low, upper=high)
    expected = CoverageByGroupDisplay.from_predictions(y, mean, std)
    np.testing.assert_array_equal(display.observed, expected.observed)


def test_the_range_of_chance_holds_most_groups_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(40):
        y, mean = rng.normal(size=300), rng.normal(size=300)
        display = CoverageByGroupDisplay.from_predictions(y + mean, mean, np.ones(300))
        bars = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in display.chance_]
        inside += [
            low - 1e-9 <= share <= high + 1e-9
            for share, (low, high) in zip(display.observed, bars, strict=True)
        ]
        plt.close(display.figure_)
    assert 0.93 <= np.mean(inside) <= 0.995


def test_the_range_of_chance_is_wider_for_fewer_rows():
    y, mean, std = growing()
    by = np.where(np.arange(1000) < 40, "few", "many")
    display = CoverageByGroupDisplay.from_predictions(y, mean, std, by=by, coverage=0.8)
    few, many = (bar.get_height() for bar in display.chance_)
    assert few > 3 * many
    low, high = stats.binom.ppf([0.025, 0.975], 40, 0.8) / 40
    bar = display.chance_[0]
    assert (bar.get_y(), bar.get_y() + bar.get_height()) == pytest.approx((low, high))
    assert list(display.nominal_.get_ydata()) == [0.8, 0.8]
    ticks = [tick.get_text() for tick in display.ax_.get_xticklabels()]
    assert ticks == ["few\n40 rows", "many\n960 rows"]


@pytest.mark.parametrize(
    ("by", "labels"),
    [
        (np.tile([3, 1, 2, 1], 50), ["1", "2", "3"]),
        (np.tile([True, False], 100), ["False", "True"]),
        (np.tile(["b", "a"], 100), ["a", "b"]),
        (np.array(["b", None] * 100, dtype=object), ["None", "b"]),
        (np.r_[np.zeros(150), np.arange(50)], ["0", "1\nto 9", "10\nto 49"]),
    ],
    ids=["few numbers", "booleans", "words", "objects", "mostly zero"],
)
def test_values_of_any_kind_make_groups(by, labels):
    y, mean, std = growing(200)
    display = CoverageByGroupDisplay.from_predictions(y, mean, std, by=by)
    assert display.labels == labels
    assert display.n_rows.sum() == pytest.approx(200)


@pytest.mark.parametrize("kind", ["array", "sparse", "pandas", "polars"])
def test_groups_by_a_column_of_X(kind):
    X, y = rows()
    model = BayesianRidge().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    expected = CoverageByGroupDisplay.from_predictions(y, mean, std, by=X[:, 1], n_groups=3)
    given, by, name = X, 1, "feature 1"
    model.predict = lambda rows, return_std: (mean, std)  # of any rows: BayesianRidge wants arrays
    if kind == "sparse":
        given = sparse.csr_array(X)
    elif kind != "array":
        library = pytest.importorskip(kind)
        given = library.DataFrame({f"f{k}": X[:, k] for k in range(3)})
        name = "f1"
        shown = CoverageByGroupDisplay.from_estimator(model, given, y, by="f1", n_groups=3)
        np.testing.assert_array_equal(shown.observed, expected.observed)
    display = CoverageByGroupDisplay.from_estimator(model, given, y, by=by, n_groups=3)
    np.testing.assert_array_equal(display.observed, expected.observed)
    assert display.ax_.get_xlabel() == name
    assert display.points_.get_label() == "BayesianRidge"


def test_rows_that_were_not_observed_or_have_no_weight_are_in_no_group():
    y, mean, std = growing(200)
    y = np.column_stack([y, y])
    y[::2, 1] = np.nan
    weight = np.repeat([0.0, 1.0], 100)
    display = CoverageByGroupDisplay.from_predictions(
        y, np.column_stack([mean, mean]), np.column_stack([std, std]), target=1,
        sample_weight=weight,
    )  # fmt: skip
    kept = slice(101, 200, 2)
    expected = CoverageByGroupDisplay.from_predictions(y[kept, 0], mean[kept], std[kept])
    np.testing.assert_array_equal(display.observed, expected.observed)
    assert display.labels == expected.labels


def test_models_on_the_same_axes_share_what_is_expected():
    X, y = rows()
    first = CoverageByGroupDisplay.from_estimator(BayesianRidge().fit(X, y), X, y, by=0)
    second = CoverageByGroupDisplay.from_predictions(
        y, y * 0, np.full(200, 2.0), by=X[:, 0], name="nothing learned", ax=first.ax_
    )
    assert second.nominal_ is second.chance_ is None
    assert first.points_.get_marker() != second.points_.get_marker()
    assert (first.points_.get_xdata() != second.points_.get_xdata()).all()
    labels = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert labels == [
        "nominal: 90 %", "range of chance (95 %)", "BayesianRidge", "nothing learned"
    ]  # fmt: skip
    low, high = first.ax_.get_ylim()
    for display in (first, second):
        assert low < display.observed.min()
        assert display.observed.max() < high


def test_groups_that_cannot_be_made_are_refused():
    X, y = rows()
    model = BayesianRidge().fit(X, y)
    with pytest.raises(ValueError, match="by must be an integer from 0 to 2"):
        CoverageByGroupDisplay.from_estimator(model, X, y, by=3)
    with pytest.raises(ValueError, match="by must be the name of a column of X; 'bmi'"):
        CoverageByGroupDisplay.from_estimator(model, X, y, by="bmi")
    with pytest.raises(ValueError, match=r"a value for each of the 200 rows.*\(10,\)"):
        CoverageByGroupDisplay.from_estimator(model, X, y, by=X[:10, 0])
    with pytest.raises(ValueError, match="by must be finite"):
        CoverageByGroupDisplay.from_estimator(model, X, y, by=X[:, 0] * np.nan)
    with pytest.raises(ValueError, match="n_groups"):
        CoverageByGroupDisplay.from_estimator(model, X, y, n_groups=0)
    with pytest.raises(ValueError, match="coverage"):
        CoverageByGroupDisplay.from_estimator(model, X, y, coverage=90)
    with pytest.raises(ValueError, match="target must be"):
        CoverageByGroupDisplay.from_estimator(model, X, y, target=1)


def test_the_axes_that_are_given_are_drawn_on():
    figure, ax = plt.subplots()
    display = CoverageByGroupDisplay.from_predictions(*growing(50), ax=ax, color="red")
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert display.points_.get_color() == "red"
    assert display.plot().ax_ is not ax


# Noise that varies from row to row


def test_the_areas_of_varying_noise_are_mean_shares_and_say_so():
    rng = np.random.default_rng(0)
    epistemic, aleatoric = rng.gamma(3, size=100), rng.gamma(2, size=100)
    display = VarianceDisplay.from_predictions(epistemic, aleatoric)
    order = np.argsort(epistemic + aleatoric)
    total = (epistemic + aleatoric)[order]
    np.testing.assert_allclose(display.line_.get_ydata(), total)
    border = display.aleatoric_.get_paths()[0].vertices
    for k in (10, 50, 80):
        near = slice(k - 2, k + 3)
        expected = total[k] * aleatoric[order][near].sum() / total[near].sum()
        assert border[border[:, 0] == k, 1].max() == pytest.approx(expected)
    labels = display.ax_.get_legend_handles_labels()[1]
    assert labels[0] == "aleatoric: noise (mean share of 5 rows)"
    np.testing.assert_array_equal(display.aleatoric, aleatoric[order])


@pytest.mark.parametrize("x", [None, np.arange(100.0)])
def test_the_areas_of_one_noise_or_along_an_axis_are_exact(x):
    rng = np.random.default_rng(0)
    epistemic = rng.gamma(3, size=100)
    aleatoric = np.full(100, 2.0) if x is None else rng.gamma(2, size=100)
    display = VarianceDisplay.from_predictions(epistemic, aleatoric, x=x)
    assert display.window == 1
    order = np.argsort(epistemic) if x is None else np.arange(100)
    vertices = display.aleatoric_.get_paths()[0].vertices
    found = [vertices[vertices[:, 0] == k, 1].max() for k in range(100)]
    np.testing.assert_allclose(found, aleatoric[order])


def test_a_gaussian_is_what_other_estimators_predict():
    X, y = rows()
    model = BayesianRidge().fit(X, y)
    mean, std = model.predict(X, return_std=True)
    dist = predict_dist(model, X)
    np.testing.assert_allclose(dist.ppf(0.9), stats.norm(mean, std).ppf(0.9))
