"""Displays: what they draw is what was predicted."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm, uniform
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi._any_estimator import predict_dist
from sktagi.metrics import (
    calibration_error,
    interval_coverage,
    probability_integral_transform,
)

plt = pytest.importorskip("matplotlib.pyplot")

from sktagi.plotting import (  # noqa: E402  after the check for matplotlib
    ClassProbabilityDisplay,
    CoverageByGroupDisplay,
    EntropyDisplay,
    ErrorDisplay,
    IntervalCalibrationDisplay,
    KindsDisplay,
    PredictionIntervalDisplay,
    TrainingCurveDisplay,
    VarianceDisplay,
)

QUICK = {"hidden_layer_sizes": (10,), "max_iter": 8, "n_members": 2, "random_state": 0}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def one_feature(n=40):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 3, size=(n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


def many_features(n=80, targets=None):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    y = X @ rng.normal(size=(3, targets or 1)) + 0.3 * rng.normal(size=(n, targets or 1))
    return X, y if targets else y[:, 0]


def regressor(X, y, **params):
    return TAGIRegressor(**{**QUICK, **params}).fit(X, y)


def predictions(n=300, targets=None, seed=0):
    rng = np.random.default_rng(seed)
    shape = n if targets is None else (n, targets)
    mean, std = rng.normal(scale=3, size=shape), rng.uniform(0.2, 2, size=shape)
    return mean + std * rng.normal(size=shape), mean, std


def band_of(collection):
    """Lower and upper ends of what fill_between has drawn, by x."""
    vertices = collection.get_paths()[0].vertices
    x = np.unique(vertices[:, 0])
    low, high = (
        np.array([take(vertices[vertices[:, 0] == value, 1]) for value in x])
        for take in (np.min, np.max)
    )
    return x, low, high


# Prediction with interval


def test_one_feature_gives_a_curve_over_its_range_and_the_points():
    X, y = one_feature()
    model = regressor(X, y)
    display = PredictionIntervalDisplay.from_estimator(model, X, y, coverage=0.8)
    x = display.line_.get_xdata()
    assert x[0] == X.min()
    assert x[-1] == X.max()
    assert len(x) > len(X)
    assert (np.diff(x) > 0).all()
    np.testing.assert_array_equal(display.line_.get_ydata(), model.predict(x[:, None]))
    drawn, low, high = band_of(display.band_)
    np.testing.assert_allclose(drawn, x)
    interval = model.predict_interval(x[:, None], coverage=0.8)
    np.testing.assert_allclose(np.column_stack([low, high]), interval)
    np.testing.assert_array_equal(display.points_.get_xydata(), np.column_stack([X[:, 0], y]))
    assert display.ax_.get_legend_handles_labels()[1] == ["80 % interval", "mean", "observed"]
    assert display.ax_.get_xlabel() == "feature"
    assert display.figure_ is display.ax_.figure


def test_the_curve_shows_gaps_between_the_rows():
    X, y = one_feature()
    model = regressor(X, y)
    ends = np.array([[-2.0], [3.0]])
    display = PredictionIntervalDisplay.from_estimator(model, ends)
    x = display.line_.get_xdata()
    straight = np.interp(x, ends[:, 0], model.predict(ends))
    assert np.abs(display.line_.get_ydata() - straight).max() > 0.3
    assert display.points_ is None


def test_rows_of_several_features_are_ordered_by_their_prediction():
    X, y = many_features()
    model = regressor(X, y)
    display = PredictionIntervalDisplay.from_estimator(model, X, y)
    mean, _ = model.predict(X, return_std=True)
    order = np.argsort(mean, kind="stable")
    np.testing.assert_array_equal(display.line_.get_ydata(), mean[order])
    np.testing.assert_array_equal(display.points_.get_ydata(), y[order])
    np.testing.assert_array_equal(display.points_.get_xdata(), np.arange(len(y)))
    _, low, high = band_of(display.band_)
    expected = model.predict_interval(X, coverage=0.9)[order]
    np.testing.assert_allclose(np.column_stack([low, high]), expected)
    assert display.ax_.get_xlabel() == "row, ordered by prediction"


def test_predictions_are_ordered_by_x_if_it_is_given():
    y, mean, std = predictions(30)
    x = np.random.default_rng(3).normal(size=30)
    display = PredictionIntervalDisplay.from_predictions(y, mean, std, x=x)
    order = np.argsort(x)
    np.testing.assert_array_equal(display.line_.get_xydata(), np.column_stack([x, mean])[order])
    np.testing.assert_array_equal(display.points_.get_xydata(), np.column_stack([x, y])[order])
    assert PredictionIntervalDisplay.from_predictions(None, mean, std).points_ is None


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("n_features", [1, 3])
def test_frames_name_the_axes(library, n_features, recwarn):
    library = pytest.importorskip(library)
    X, y = one_feature() if n_features == 1 else many_features()
    frame = library.DataFrame({f"f{k}": X[:, k] for k in range(n_features)})
    series = library.DataFrame({"height (m)": y})["height (m)"]
    model = regressor(frame, y)
    display = PredictionIntervalDisplay.from_estimator(model, frame, series)
    assert display.ax_.get_ylabel() == "height (m)"
    assert display.ax_.get_xlabel() == ("f0" if n_features == 1 else "row, ordered by prediction")
    plain = regressor(X, y)
    expected = PredictionIntervalDisplay.from_estimator(plain, X, y)
    for mine, theirs in (("line_", "line_"), ("points_", "points_")):
        np.testing.assert_allclose(
            getattr(display, mine).get_xydata(), getattr(expected, theirs).get_xydata()
        )
    VarianceDisplay.from_estimator(model, frame)
    IntervalCalibrationDisplay.from_estimator(model, frame, series)
    error = ErrorDisplay.from_estimator(model, frame, series)
    assert error.ax_.get_ylabel() == "absolute error of height (m)"
    assert not [w for w in recwarn if "feature names" in str(w.message)]


@pytest.mark.parametrize(
    "model",
    [
        BayesianRidge(),
        GaussianProcessRegressor(alpha=0.1),
        make_pipeline(StandardScaler(), TAGIRegressor(**QUICK)),
        GridSearchCV(TAGIRegressor(**QUICK), {"sigma_v": [0.5]}, cv=2),
    ],
    ids=["ridge", "process", "pipeline", "search"],
)
def test_other_models_with_a_std_are_drawn_too(model):
    X, y = many_features()
    model.fit(X, y)
    best = getattr(model, "best_estimator_", model)
    mean, std = best.predict(X, return_std=True)
    display = PredictionIntervalDisplay.from_estimator(model, X, y)
    np.testing.assert_array_equal(display.line_.get_ydata(), np.sort(mean))
    display = IntervalCalibrationDisplay.from_estimator(model, X, y)
    assert display.error == pytest.approx(calibration_error(y, predict_dist(model, X)))
    display = ErrorDisplay.from_estimator(model, X, y)
    np.testing.assert_allclose(display.points_.get_xdata(), std)


@pytest.mark.parametrize(
    "display", [PredictionIntervalDisplay, IntervalCalibrationDisplay, ErrorDisplay]
)
def test_a_model_without_std_is_refused(display):
    X, y = many_features()
    with pytest.raises(TypeError, match=r"return_std.*LinearRegression"):
        display.from_estimator(LinearRegression().fit(X, y), X, y)


@pytest.mark.parametrize("coverage", [0, 1.2, [0.5, 0.9]])
def test_coverage_must_be_a_probability(coverage):
    with pytest.raises(ValueError, match="coverage"):
        PredictionIntervalDisplay.from_predictions(*predictions(9), coverage=coverage)


# Several targets


@pytest.mark.parametrize("target", [0, 1])
def test_one_of_several_targets_is_chosen(target):
    X, y = many_features(targets=2)
    model = regressor(X, y)
    mean, std = (values[:, target] for values in model.predict(X, return_std=True))
    order = np.argsort(mean, kind="stable")
    display = PredictionIntervalDisplay.from_estimator(model, X, y, target=target)
    np.testing.assert_array_equal(display.line_.get_ydata(), mean[order])
    np.testing.assert_array_equal(display.points_.get_ydata(), y[order, target])
    display = ErrorDisplay.from_estimator(model, X, y, target=target)
    np.testing.assert_allclose(
        display.points_.get_xydata(), np.column_stack([std, np.abs(y[:, target] - mean)])
    )
    display = IntervalCalibrationDisplay.from_estimator(model, X, y, target=target)
    pit = probability_integral_transform(y, predict_dist(model, X))[:, target]
    assert display.error == pytest.approx(calibration_error(pit, uniform(np.zeros(len(y)), 1)))
    display = VarianceDisplay.from_estimator(model, X, target=target)
    np.testing.assert_allclose(display.line_.get_ydata(), np.sort(std**2))


def test_a_target_of_one_feature_is_chosen_too():
    X, y = one_feature()
    model = regressor(X, np.column_stack([y, 5 * y]))
    display = PredictionIntervalDisplay.from_estimator(
        model, X, np.column_stack([y, 5 * y]), target=1
    )
    expected = model.predict(display.line_.get_xdata()[:, None])[:, 1]
    np.testing.assert_array_equal(display.line_.get_ydata(), expected)
    np.testing.assert_array_equal(display.points_.get_ydata(), 5 * y)


@pytest.mark.parametrize(
    "display", [PredictionIntervalDisplay, IntervalCalibrationDisplay, ErrorDisplay]
)
@pytest.mark.parametrize("target", [2, -1, "y", 0.5])
def test_a_target_that_is_not_there_is_refused(display, target):
    with pytest.raises(ValueError, match=r"target must be.* from 0 to 1"):
        display.from_predictions(*predictions(20, 2), target=target)


@pytest.mark.parametrize(
    "display", [PredictionIntervalDisplay, IntervalCalibrationDisplay, ErrorDisplay]
)
def test_predictions_that_do_not_fit_are_refused(display):
    y, mean, std = predictions(20)
    with pytest.raises(ValueError, match="std must be positive"):
        display.from_predictions(y, mean, -std)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        display.from_predictions(y[:-1], mean, std)
    with pytest.raises(ValueError, match="mean contains NaN"):
        display.from_predictions(y, mean * np.nan, std)


def test_positions_of_other_rows_are_refused():
    y, mean, std = predictions(60)
    with pytest.raises(ValueError, match="x must have a value for each of the 60 rows; got 10"):
        PredictionIntervalDisplay.from_predictions(y, mean, std, x=mean[:10])
    with pytest.raises(ValueError, match="x must have a value for each of the 2 rows; got 1"):
        VarianceDisplay.from_predictions([1, 2], [1, 2], x=[1.0])


@pytest.mark.parametrize("make", [one_feature, many_features])
def test_targets_of_other_rows_are_refused(make):
    X, y = make()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PredictionIntervalDisplay.from_estimator(regressor(X, y), X, y[:10])


def test_one_row_and_one_epoch_are_seen():
    X, y = one_feature()
    model = regressor(X, y, max_iter=1)
    interval = PredictionIntervalDisplay.from_estimator(model, X[:1], y[:1])
    assert len(interval.line_.get_xdata()) == 1
    variance = VarianceDisplay.from_predictions([1.0], [2.0])
    training = TrainingCurveDisplay.from_estimator(model)
    for line in (
        interval.line_,
        variance.line_,
        training.train_line_,
        training.validation_line_,
    ):
        assert line.get_marker() == "o"
    for area in (interval.band_, variance.aleatoric_, variance.epistemic_):
        assert area.get_linewidth()[0] > 0
    many = TrainingCurveDisplay.from_estimator(regressor(X, y))
    assert many.train_line_.get_marker() == "None"


# Targets that were not observed


def partly_observed(n=60):
    """Predictions of two targets; every fourth value of the second is NaN."""
    y, mean, std = predictions(n, 2)
    y[::4, 1] = np.nan
    return y, mean, std, ~np.isnan(y[:, 1])


@pytest.mark.parametrize("weighted", [False, True])
def test_calibration_and_errors_leave_out_rows_that_were_not_observed(weighted):
    y, mean, std, seen = partly_observed()
    rows = y[seen, 1], mean[seen, 1], std[seen, 1]
    weight = np.random.default_rng(2).uniform(size=len(y)) if weighted else None
    display = IntervalCalibrationDisplay.from_predictions(
        y, mean, std, target=1, sample_weight=weight
    )
    expected = IntervalCalibrationDisplay.from_predictions(
        *rows, sample_weight=None if weight is None else weight[seen]
    )
    np.testing.assert_array_equal(display.observed, expected.observed)
    assert display.error == expected.error
    display = ErrorDisplay.from_predictions(y, mean, std, target=1)
    expected = ErrorDisplay.from_predictions(*rows)
    np.testing.assert_array_equal(display.points_.get_xydata(), expected.points_.get_xydata())
    np.testing.assert_array_equal(display.line_.get_xydata(), expected.line_.get_xydata())


@pytest.mark.parametrize("x", [None, np.random.default_rng(3).normal(size=60)])
def test_intervals_are_drawn_for_all_rows_and_points_for_the_observed(x):
    y, mean, std, seen = partly_observed()
    display = PredictionIntervalDisplay.from_predictions(y, mean, std, x=x, target=1)
    order = np.argsort(mean[:, 1] if x is None else x)
    np.testing.assert_array_equal(display.line_.get_ydata(), mean[order, 1])
    np.testing.assert_array_equal(display.points_.get_ydata(), y[order, 1][seen[order]])
    drawn = display.line_.get_xdata()[seen[order]]
    np.testing.assert_array_equal(display.points_.get_xdata(), drawn)
    other = PredictionIntervalDisplay.from_predictions(y, mean, std, x=x)
    assert len(other.points_.get_xdata()) == len(y)


@pytest.mark.parametrize("make", [one_feature, many_features])
def test_displays_of_an_estimator_leave_out_what_was_not_observed(make):
    X, y = make()
    y = np.column_stack([y, 5 * y])
    model = GaussianProcessRegressor(alpha=0.1).fit(X, y)
    y[1::3, 1] = np.nan
    seen = ~np.isnan(y[:, 1])
    display = PredictionIntervalDisplay.from_estimator(model, X, y, target=1)
    assert sorted(display.points_.get_ydata()) == sorted(y[seen, 1])
    assert len(display.points_.get_xdata()) == seen.sum()
    if make is one_feature:
        np.testing.assert_array_equal(display.points_.get_xdata(), X[seen, 0])
    mean, std = (values[seen, 1] for values in model.predict(X, return_std=True))
    display = ErrorDisplay.from_estimator(model, X, y, target=1)
    np.testing.assert_allclose(display.points_.get_xdata(), std)
    display = IntervalCalibrationDisplay.from_estimator(model, X, y, target=1)
    assert display.error == pytest.approx(calibration_error(y[seen, 1], mean, std))


@pytest.mark.parametrize(
    "display", [PredictionIntervalDisplay, IntervalCalibrationDisplay, ErrorDisplay]
)
def test_nan_that_cannot_be_drawn_is_refused(display):
    y, mean, std, _ = partly_observed()
    with pytest.raises(ValueError, match="y_true contains NaN"):
        display.from_predictions(y[:, 1], mean[:, 1], std[:, 1])
    never = np.column_stack([y[:, 0], np.full(len(y), np.nan)])
    with pytest.raises(ValueError, match="Target 1 was not observed in any row"):
        display.from_predictions(never, mean, std, target=1)
    y[4] = np.nan
    with pytest.raises(ValueError, match=r"no observed target \(all NaN\): rows 4\."):
        display.from_predictions(y, mean, std)


def test_nan_along_one_feature_is_refused_where_it_cannot_be_drawn():
    X, y = one_feature()
    model = BayesianRidge().fit(X, y)
    y[3] = np.nan
    with pytest.raises(ValueError, match="Input y contains NaN"):
        PredictionIntervalDisplay.from_estimator(model, X, y)


# Calibration


@pytest.mark.parametrize("factor", [0.25, 1, 4])
def test_no_text_lies_on_the_curve_of_a_calibration(factor):
    y, mean, std = predictions()
    display = IntervalCalibrationDisplay.from_predictions(y, mean, factor * std)
    display.figure_.canvas.draw()
    points = display.ax_.transData.transform(display.line_.get_xydata())
    texts = [*display.ax_.texts, display.ax_.get_legend()]
    for box in (text.get_window_extent() for text in texts):
        inside = (points >= (box.x0, box.y0)) & (points <= (box.x1, box.y1))
        assert not inside.all(axis=1).any()


@pytest.mark.parametrize("weighted", [False, True])
def test_calibration_line_is_observed_coverage(weighted):
    y, mean, std = predictions()
    weight = np.random.default_rng(2).uniform(size=len(y)) if weighted else None
    display = IntervalCalibrationDisplay.from_predictions(
        y, mean, std / 2, sample_weight=weight, name="half"
    )
    nominal, observed = display.line_.get_data()
    assert observed[0] == 0
    assert observed[-1] == pytest.approx(1)
    for k in range(1, len(nominal) - 1):
        expected = interval_coverage(y, mean, std / 2, coverage=nominal[k], sample_weight=weight)
        assert observed[k] == pytest.approx(expected)
    error = calibration_error(y, mean, std / 2, sample_weight=weight)
    assert display.line_.get_label() == f"half (error {error:.2f})"
    np.testing.assert_array_equal(display.diagonal_.get_xydata(), [[0, 0], [1, 1]])
    assert (observed[5:-1] < nominal[5:-1] - 0.05).all()  # below the diagonal: too sure


def test_several_models_share_axes_and_differ_without_colour():
    y, mean, std = predictions()
    first = IntervalCalibrationDisplay.from_predictions(y, mean, std, name="one")
    others = [
        IntervalCalibrationDisplay.from_predictions(y, mean, std * k, name=str(k), ax=first.ax_)
        for k in (2, 3)
    ]
    lines = [first.line_, *(other.line_ for other in others)]
    assert len({line.get_linestyle() for line in lines}) == 3
    assert len({line.get_marker() for line in lines}) == 3
    assert first.diagonal_ is not None
    assert [other.diagonal_ for other in others] == [None, None]
    assert len(first.ax_.lines) == 4
    named = IntervalCalibrationDisplay.from_estimator(
        BayesianRidge().fit(*many_features()), *many_features()
    )
    assert named.line_.get_label().startswith("BayesianRidge (error ")


# Errors


def test_groups_of_errors_are_root_mean_squares():
    y, mean, std = predictions(60)
    display = ErrorDisplay.from_predictions(y, mean, std, n_bins=4)
    order = np.argsort(std).reshape(4, 15)
    expected = np.sqrt([[np.mean(std[o] ** 2), np.mean((y - mean)[o] ** 2)] for o in order])
    np.testing.assert_allclose(display.line_.get_xydata(), expected)
    np.testing.assert_array_equal(
        display.points_.get_xydata(), np.column_stack([std, np.abs(y - mean)])
    )
    assert (display.diagonal_.get_xdata() == display.diagonal_.get_ydata()).all()
    assert display.diagonal_.get_xdata()[-1] == std.max()


def test_errors_of_a_calibrated_model_lie_on_the_diagonal():
    display = ErrorDisplay.from_predictions(*predictions(20000), n_bins=10)
    std, error = display.line_.get_data()
    np.testing.assert_allclose(error, std, rtol=0.06)


def test_fewer_rows_than_groups():
    assert len(ErrorDisplay.from_predictions(*predictions(3)).line_.get_xdata()) == 3
    with pytest.raises(ValueError, match="n_bins"):
        ErrorDisplay.from_predictions(*predictions(9), n_bins=0)


# Training


@pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
def test_training_curves_are_the_scores_and_the_best_epochs_are_marked(estimator):
    X, y = many_features()
    y = (y > 0).astype(int)
    model = estimator(**QUICK).fit(X, y)
    display = TrainingCurveDisplay.from_estimator(make_pipeline(model))
    epochs = np.arange(1, model.n_iter_ + 1)
    np.testing.assert_array_equal(display.train_line_.get_xdata(), epochs)
    np.testing.assert_array_equal(display.train_line_.get_ydata(), model.train_scores_)
    np.testing.assert_array_equal(display.validation_line_.get_ydata(), model.validation_scores_)
    marked = [segment[0, 0] for segment in display.best_.get_segments()]
    assert marked == sorted(set(model.best_iter_.tolist()))
    assert display.train_line_.get_linestyle() != display.validation_line_.get_linestyle()
    assert display.ax_.get_xlabel() == "epoch"


def test_training_without_validation_has_one_curve():
    model = regressor(*many_features(), early_stopping=False)
    display = TrainingCurveDisplay.from_estimator(model)
    assert display.validation_line_ is display.best_ is None
    assert len(display.ax_.lines) == 1


def test_training_curves_need_epochs():
    X, y = many_features()
    with pytest.raises(ValueError, match="no epochs to show"):
        TrainingCurveDisplay.from_estimator(TAGIRegressor(**QUICK).partial_fit(X, y))
    with pytest.raises(TypeError, match="BayesianRidge has no train_scores_"):
        TrainingCurveDisplay.from_estimator(BayesianRidge().fit(X, y))
    with pytest.raises(ValueError, match="not fitted"):
        TrainingCurveDisplay.from_estimator(TAGIRegressor())


# Kinds of networks


def unlike(X, y, **params):
    return regressor(X, y, hidden_layer_sizes="auto", **params)


def widths(bars):
    return [bar.get_width() for bar in bars]


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_bars_are_the_weights_of_the_kinds_and_the_heaviest_is_on_top(in_pipeline):
    X, y = many_features()
    model = unlike(X, y)
    estimator = make_pipeline(StandardScaler(), model).fit(X, y) if in_pipeline else model
    weights = (estimator[-1] if in_pipeline else model).kinds_
    display = KindsDisplay.from_estimator(estimator)
    (bars,) = display.bars_
    assert widths(bars) == sorted(weights.values(), reverse=True)
    assert dict(zip(display.names_, widths(bars), strict=True)) == weights
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == display.names_
    low, high = display.ax_.get_ylim()
    assert low > high  # the first bar is the upper one
    assert display.ax_.get_legend() is None


def test_kinds_of_a_classifier_are_drawn_too():
    X, y = many_features()
    model = TAGIClassifier(**{**QUICK, "hidden_layer_sizes": "auto"}).fit(X, y > 0)
    display = KindsDisplay.from_estimator(model, color="red")
    assert sum(widths(display.bars_[0])) == pytest.approx(1)
    assert display.bars_[0][0].get_facecolor() == (1, 0, 0, 1)


def test_several_targets_have_a_bar_each_for_each_kind():
    model = unlike(*many_features(targets=2))
    display = KindsDisplay.from_estimator(model)
    for target, bars in enumerate(display.bars_):
        assert widths(bars) == [model.kinds_[name][target] for name in display.names_]
    means = [model.kinds_[name].mean() for name in display.names_]
    assert means == sorted(means, reverse=True)
    drawn = [bar for bars in display.bars_ for bar in bars]
    edges = sorted((bar.get_y(), bar.get_y() + bar.get_height()) for bar in drawn)
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(edges))  # none is hidden
    assert display.ax_.get_legend() is not None


def test_members_that_are_alike_have_no_kinds_to_show():
    X, y = many_features()
    streamed = TAGIRegressor(n_members=1).partial_fit(X, y)
    for model in (regressor(X, y), streamed, BayesianRidge().fit(X, y)):
        with pytest.raises(ValueError, match=f"{type(model).__name__} has no kinds to show"):
            KindsDisplay.from_estimator(model)
    with pytest.raises(ValueError, match="not fitted"):
        KindsDisplay.from_estimator(TAGIRegressor())


# Parts of the variance


def test_parts_of_the_variance_lie_one_on_the_other():
    X, y = many_features()
    model = regressor(X, y, sigma_v=0.5)
    display = VarianceDisplay.from_estimator(model, X)
    epistemic, aleatoric = model.predict_variance(X)
    order = np.argsort(epistemic + aleatoric, kind="stable")
    _, low, high = band_of(display.aleatoric_)
    np.testing.assert_allclose(low, 0)
    np.testing.assert_allclose(high, aleatoric[order])
    _, low, high = band_of(display.epistemic_)
    np.testing.assert_allclose(low, aleatoric[order])
    np.testing.assert_allclose(high, (epistemic + aleatoric)[order])
    np.testing.assert_allclose(display.line_.get_ydata(), np.sort(epistemic + aleatoric))
    assert display.aleatoric_.get_hatch() != display.epistemic_.get_hatch()


def test_variance_along_one_feature_and_in_a_pipeline():
    X, y = one_feature()
    pipe = make_pipeline(StandardScaler(), TAGIRegressor(**QUICK)).fit(X, y)
    display = VarianceDisplay.from_estimator(pipe, X)
    x, total = display.line_.get_data()
    assert (x[0], x[-1]) == (X.min(), X.max())
    np.testing.assert_allclose(total, pipe.predict(x[:, None], return_std=True)[1] ** 2)
    with pytest.raises(TypeError, match="BayesianRidge has no predict_variance"):
        VarianceDisplay.from_estimator(BayesianRidge().fit(X, y), X)


def test_given_parts_of_variance_are_ordered_by_x():
    x = np.array([3.0, 1.0, 2.0])
    display = VarianceDisplay.from_predictions([30.0, 10.0, 20.0], [3.0, 1.0, 2.0], x=x)
    np.testing.assert_array_equal(display.line_.get_xydata(), [[1, 11], [2, 22], [3, 33]])
    with pytest.raises(ValueError, match="variances of the same rows"):
        VarianceDisplay.from_predictions([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="variances of the same rows"):
        VarianceDisplay.from_predictions([1.0, -2.0], [1.0, 1.0])


# Classes


def ends_of_error_bars(display):
    (lines,) = display.errorbar_.lines[2]
    return np.array([segment[:, 0] for segment in lines.get_segments()])


def test_error_bars_are_one_std_long_and_end_at_0_and_1():
    display = ClassProbabilityDisplay.from_predictions([0.95, 0.04, 0.4], [0.1, 0.1, 0.1])
    expected = [[0.85, 1.0], [0.0, 0.14], [0.3, 0.5]]
    np.testing.assert_allclose(ends_of_error_bars(display), expected, atol=1e-12)


@pytest.mark.parametrize("library", [None, "pandas", "polars"])
def test_bars_are_the_probabilities_of_one_row(library):
    X, y = many_features()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-1, 1])]
    if library is not None:
        X = pytest.importorskip(library).DataFrame({f"f{k}": X[:, k] for k in range(3)})
    model = TAGIClassifier(**QUICK).fit(X, labels)
    display = ClassProbabilityDisplay.from_estimator(model, X, labels, row=5)
    proba, std = (values[5] for values in model.predict_proba(X, return_std=True))
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, proba, rtol=1e-6)
    ends = ends_of_error_bars(display)
    np.testing.assert_allclose(ends[:, 0], np.maximum(proba - std, 0), atol=1e-6)
    np.testing.assert_allclose(ends[:, 1], np.minimum(proba + std, 1), atol=1e-6)
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert ticks == model.classes_.tolist()
    hatched = [label for label, bar in zip(ticks, display.bars_, strict=True) if bar.get_hatch()]
    assert hatched == [labels[5]]


def test_class_probabilities_of_a_pipeline_and_without_an_observed_class():
    X, y = many_features()
    pipe = make_pipeline(StandardScaler(), TAGIClassifier(**QUICK)).fit(X, y > 0)
    display = ClassProbabilityDisplay.from_estimator(pipe, X, row=-1)
    widths = [bar.get_width() for bar in display.bars_]
    np.testing.assert_allclose(widths, pipe.predict_proba(X)[-1], rtol=1e-6)
    assert not any(bar.get_hatch() for bar in display.bars_)
    assert display.ax_.get_legend() is None


def test_class_probabilities_that_cannot_be_drawn_are_refused():
    X, y = many_features()
    model = TAGIClassifier(**QUICK).fit(X, y > 0)
    with pytest.raises(ValueError, match="row must be"):
        ClassProbabilityDisplay.from_estimator(model, X, row=len(X))
    with pytest.raises(TypeError, match=r"return_std.*LogisticRegression"):
        ClassProbabilityDisplay.from_estimator(LogisticRegression().fit(X, y > 0), X)
    with pytest.raises(ValueError, match="of one row"):
        ClassProbabilityDisplay.from_predictions([0.5, 0.5], [0.1])
    with pytest.raises(ValueError, match="of one row"):
        ClassProbabilityDisplay.from_predictions([0.5, 0.5], [0.1, 0.1], classes=["a"])


# EntropyDisplay


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_points_are_the_parts_of_the_entropy_and_wrong_rows_are_marked(in_pipeline):
    X, y = many_features()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.3, 0.3])]
    model = TAGIClassifier(**QUICK)
    model = make_pipeline(StandardScaler(), model) if in_pipeline else model
    model.fit(X, labels)
    labels = np.roll(labels, 1)
    display = EntropyDisplay.from_estimator(model, X, labels)
    last = model[-1] if in_pipeline else model
    parts = last.predict_entropy(model[:-1].transform(X) if in_pipeline else X)
    wrong = model.predict(X) != labels
    assert 0 < wrong.sum() < len(X)
    for points, rows in ((display.points_, ~wrong), (display.wrong_, wrong)):
        drawn = np.asarray(points.get_offsets())
        expected = np.column_stack([parts[1][rows], parts[0][rows]])
        np.testing.assert_allclose(drawn, expected, rtol=1e-6)
    np.testing.assert_allclose(display.bound_.get_xdata(), [0, np.log(3)])
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()][:2] == [
        "right", "wrong",
    ]  # fmt: skip


def test_entropies_without_observed_classes_are_points_of_one_kind():
    display = EntropyDisplay.from_predictions([0.1, 0.2], [0.3, 0.0])
    assert display.wrong_ is None
    assert display.bound_ is None
    assert display.ax_.get_legend() is None
    np.testing.assert_allclose(display.points_.get_offsets(), [[0.3, 0.1], [0.0, 0.2]])


def test_entropies_that_cannot_be_drawn_are_refused():
    X, y = many_features()
    with pytest.raises(TypeError, match=r"LogisticRegression has no predict_entropy"):
        EntropyDisplay.from_estimator(LogisticRegression().fit(X, y > 0), X)
    several = TAGIClassifier(**QUICK).fit(X, np.column_stack([y > 0, X[:, 0] > 0]).astype(int))
    with pytest.raises(ValueError, match="not for several labels"):
        EntropyDisplay.from_estimator(several, X)
    with pytest.raises(ValueError, match="of the same rows"):
        EntropyDisplay.from_predictions([0.1, 0.2], [0.3])
    with pytest.raises(ValueError, match="of the same rows"):
        EntropyDisplay.from_predictions([0.1, 0.2], [0.3, 0.1], is_wrong=[True])
    with pytest.raises(ValueError, match="not negative"):
        EntropyDisplay.from_predictions([-0.1, 0.2], [0.3, 0.1])


# All of them


def all_displays(ax):
    X, y = many_features()
    model = regressor(X, y)
    classifier = TAGIClassifier(**QUICK).fit(X, y > 0)
    yield lambda: PredictionIntervalDisplay.from_estimator(model, X, y, ax=ax)
    yield lambda: IntervalCalibrationDisplay.from_estimator(model, X, y, ax=ax)
    yield lambda: ErrorDisplay.from_estimator(model, X, y, ax=ax)
    yield lambda: CoverageByGroupDisplay.from_estimator(model, X, y, ax=ax)
    yield lambda: TrainingCurveDisplay.from_estimator(model, ax=ax)
    yield lambda: KindsDisplay.from_estimator(unlike(X, y), ax=ax)
    yield lambda: VarianceDisplay.from_estimator(model, X, ax=ax)
    yield lambda: ClassProbabilityDisplay.from_estimator(classifier, X, ax=ax)
    yield lambda: EntropyDisplay.from_estimator(classifier, X, ax=ax)


def test_axes_that_are_given_are_drawn_on_and_no_figure_is_made():
    figure, ax = plt.subplots()
    before = plt.get_fignums()
    for draw in all_displays(ax):
        display = draw()
        assert display.ax_ is ax
        assert display.figure_ is figure
        assert display.ax_.get_xlabel()
        assert display.ax_.get_ylabel()
        ax.clear()
    assert plt.get_fignums() == before


def test_the_figure_of_axes_in_a_subfigure_is_the_one_that_can_be_saved(tmp_path):
    figure = plt.figure()
    ax = figure.subfigures(1, 2)[0].subplots()
    display = ErrorDisplay.from_predictions(*predictions(20), ax=ax)
    assert display.figure_ is figure
    display.figure_.savefig(tmp_path / "errors.png")


def test_labels_of_any_kind_name_the_bars():
    display = ClassProbabilityDisplay.from_predictions(
        [0.3, 0.7], [0.1, 0.1], classes=[("a", 1), 2], true_class=("a", 1)
    )
    ticks = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert ticks == ["('a', 1)", "2"]
    assert [bool(bar.get_hatch()) for bar in display.bars_] == [True, False]


def test_a_display_can_be_drawn_again_elsewhere_with_other_colours():
    y, mean, std = predictions(20)
    display = PredictionIntervalDisplay.from_predictions(y, mean, std)
    first = display.ax_
    display.plot(line_kwargs={"color": "red"}, band_kwargs={"alpha": 0.1})
    assert display.ax_ is not first
    assert display.line_.get_color() == "red"
    assert display.band_.get_alpha() == 0.1


def test_matplotlib_is_imported_by_drawing_only_and_missed_with_advice():
    code = """
import sys
import sktagi, sktagi.metrics, sktagi.plotting
assert "matplotlib" not in sys.modules
sys.modules["matplotlib"] = None  # as if it were not installed
try:
    sktagi.plotting.ErrorDisplay.from_predictions([0.0, 1.0], [0.0, 0.5], [1.0, 1.0])
except ImportError as error:
    assert 'pip install "sktagi[plot]"' in str(error), error
else:
    raise AssertionError("drawn without matplotlib")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_normal_quantiles_are_those_of_the_band():
    """The half width of a 90 % band is 1.645 standard deviations."""
    display = PredictionIntervalDisplay.from_predictions(None, [0.0, 1.0], [2.0, 2.0])
    _, low, high = band_of(display.band_)
    np.testing.assert_allclose((high - low) / 4, norm.ppf(0.95))
