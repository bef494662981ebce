"""What goes in: refusals that name the culprit, nothing lost on failure, containers and dtypes."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi import _base as base
from sktagi import _streaming as streaming
from sktagi.engine import learning, predicting

ESTIMATORS = [TAGIRegressor, TAGIClassifier]
both = pytest.mark.parametrize("estimator", ESTIMATORS)
QUICK = {"hidden_layer_sizes": (6,), "max_iter": 3, "n_members": 2, "random_state": 0}
NAN, INF = np.nan, np.inf


def quick(estimator, **params):
    return estimator(**{**QUICK, **params})


def make_data(n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.1 * rng.normal(size=n) > 0).astype(int)


X, Y = make_data()


def first_call(model, *args, **kwargs):
    """partial_fit of a model that has seen nothing."""
    if is_classifier(model):
        kwargs.setdefault("classes", [0, 1])
    return model.partial_fit(*args, **kwargs)


def spread(model, X, **kwargs):
    method = model.predict_proba if is_classifier(model) else model.predict
    return method(X, return_std=True, **kwargs)


def spoiled(values, entry):
    values = np.array(values, dtype=float)
    values.flat[values.size // 2] = entry
    return values


def state(model):
    """All that a fitted model knows, as bytes."""
    return pickle.dumps(model)


# Refusals


BAD_CALLS = {
    "X inf": ((spoiled(X, INF), Y), {}, r"X contains infinity"),
    "X -inf": ((spoiled(X, -INF), Y), {}, r"X contains infinity"),
    "X text": ((np.full((40, 3), "a"), Y), {}, r"could not convert string"),
    "X complex": ((X + 1j, Y), {}, r"[Cc]omplex"),
    "X 1-D": ((X[:, 0], Y), {}, r"2D array"),
    "X 3-D": ((X[:, :, None], Y), {}, r"dim 3"),
    "X no rows": ((X[:0], Y[:0]), {}, r"0 sample"),
    "X no columns": ((X[:, :0], Y), {}, r"0 feature"),
    "y nan": ((X, spoiled(Y, NAN)), {}, r"\by\b.*NaN"),
    "y inf": ((X, spoiled(Y, INF)), {}, r"\by\b.*infinity"),
    "y short": ((X, Y[:-1]), {}, r"inconsistent numbers of samples.*40, 39"),
    "y None": ((X, None), {}, r"requires y"),
    "y empty": ((X, []), {}, r"0 sample|samples"),
    "y 3-D": ((X, np.zeros((40, 1, 1))), {}, r"\by\b|dim 3|shape"),
    "weight nan": ((X, Y), {"sample_weight": spoiled(np.ones(40), NAN)}, r"sample_weight"),
    "weight inf": ((X, Y), {"sample_weight": spoiled(np.ones(40), INF)}, r"sample_weight"),
    "weight negative": ((X, Y), {"sample_weight": spoiled(np.ones(40), -1)}, r"sample_weight"),
    "weight zeros": ((X, Y), {"sample_weight": np.zeros(40)}, r"sample_weight"),
    "weight short": ((X, Y), {"sample_weight": np.ones(39)}, r"sample_weight.*\(39,\).*\(40,\)"),
    "weight 2-D": ((X, Y), {"sample_weight": np.ones((40, 1))}, r"sample_weight.*\(40, 1\)"),
    "weight text": ((X, Y), {"sample_weight": ["a"] * 40}, r"sample_weight"),
    "X_std nan": ((X, Y), {"X_std": spoiled(np.ones((40, 3)), NAN)}, r"X_std"),
    "X_std inf": ((X, Y), {"X_std": spoiled(np.ones((40, 3)), INF)}, r"X_std"),
    "X_std negative": ((X, Y), {"X_std": spoiled(np.ones((40, 3)), -0.1)}, r"X_std.*negative"),
    "X_std shape": ((X, Y), {"X_std": np.ones((40, 2))}, r"X_std.*\(40, 2\).*\(40, 3\)"),
    "X_std rows": ((X, Y), {"X_std": np.ones((39, 3))}, r"X_std.*\(39, 3\).*\(40, 3\)"),
    "X_std 3-D": ((X, Y), {"X_std": np.ones((1, 40, 3))}, r"X_std.*\(1, 40, 3\)"),
    "X_std per row, flat": ((X, Y), {"X_std": np.ones(40)}, r"X_std.*\(40,\)"),
    "X_std text": ((X, Y), {"X_std": "a"}, r"X_std"),
    "X sparse inf": ((sparse.csr_array(spoiled(X, INF)), Y), {}, r"X contains infinity"),
    "X dates": ((np.full((40, 3), "2020-01-01", dtype="M8[D]"), Y), {}, r"X holds dates or times"),
    "X_std sparse negative": ((X, Y), {"X_std": sparse.csr_array(spoiled(X * 0, -1))}, r"X_std"),
    "X too large": ((X * 1e200, Y), {}, r"X .*too large"),
}
bad_calls = pytest.mark.parametrize("bad", BAD_CALLS)


@both
@bad_calls
def test_fit_and_partial_fit_refuse(estimator, bad):
    args, kwargs, message = BAD_CALLS[bad]
    with pytest.raises(ValueError, match=message):
        quick(estimator).fit(*args, **kwargs)
    with pytest.raises(ValueError, match=message):
        first_call(quick(estimator), *args, **kwargs)


@both
@bad_calls
def test_a_refused_first_call_leaves_the_estimator_unfitted(estimator, bad):
    args, kwargs, _ = BAD_CALLS[bad]
    model = quick(estimator)
    before = dict(vars(model))
    with pytest.raises(ValueError):
        model.fit(*args, **kwargs)
    assert vars(model) == before
    with pytest.raises(ValueError):
        first_call(model, *args, **kwargs)
    assert vars(model) == before
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(NotFittedError):
        model.predict(X)


@both
@bad_calls
def test_a_refused_call_loses_nothing_of_a_fitted_model(estimator, bad):
    args, kwargs, _ = BAD_CALLS[bad]
    model = quick(estimator).fit(X, Y)
    before = state(model)
    if bad == "weight zeros":  # nothing to learn, as in other estimators that learn streams
        model.partial_fit(*args, **kwargs)
    else:
        with pytest.raises(ValueError):
            model.partial_fit(*args, **kwargs)
    assert state(model) == before
    with pytest.raises(ValueError):
        model.fit(*args, **kwargs)
    assert state(model) == before


@pytest.mark.parametrize("y", [Y * 1e200, spoiled(Y, 1e308)])
def test_targets_too_large_to_square_are_refused(y):
    with pytest.raises(ValueError, match=r"y .*too large"):
        quick(TAGIRegressor).fit(X, y)


@both
@pytest.mark.parametrize("n_columns", [2, 4])
def test_another_number_of_features_is_refused(estimator, n_columns):
    model = quick(estimator).fit(X, Y)
    before = state(model)
    other = np.ones((5, n_columns))
    message = rf"{n_columns} features.*expecting 3 features"
    with pytest.raises(ValueError, match=message):
        model.partial_fit(other, Y[:5])
    with pytest.raises(ValueError, match=message):
        model.predict(other)
    assert state(model) == before
    with pytest.raises(ValueError, match=message):
        model.set_params(warm_start=True).fit(other, Y[:5])


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1), (3, 2)])
def test_another_number_of_targets_is_refused(first, then):
    model = quick(TAGIRegressor).fit(X, np.tile(X[:, :1], first))
    before = state(model)
    with pytest.raises(ValueError, match=rf"{then} targets.*{first}"):
        model.partial_fit(X, np.tile(X[:, :1], then))
    assert state(model) == before
    with pytest.raises(ValueError, match=rf"{then} targets.*{first}"):
        model.set_params(warm_start=True).fit(X, np.tile(X[:, :1], then))


def test_an_unseen_label_is_refused_and_named():
    model = quick(TAGIClassifier).fit(X, np.where(Y, "spam", "ham"))
    before = state(model)
    with pytest.raises(ValueError, match=r"classes.*'ham', 'spam'.*'eggs'"):
        model.partial_fit(X[:2], ["spam", "eggs"])
    assert state(model) == before
    with pytest.raises(ValueError, match=r"'eggs'"):
        model.log_likelihood(X[:2], ["spam", "eggs"])


def test_a_label_that_is_not_among_the_classes_is_refused_at_first():
    model = quick(TAGIClassifier)
    with pytest.raises(ValueError, match=r"classes.*\[0, 1\].*\[7\]"):
        model.partial_fit(X, np.where(Y, 7, 0), classes=[0, 1])
    assert not hasattr(model, "classes_")


def test_classes_are_needed_at_the_first_partial_fit_only():
    model = quick(TAGIClassifier)
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        model.partial_fit(X, Y)
    model.partial_fit(X, Y, classes=[1, 0]).partial_fit(X, Y).partial_fit(X, Y, classes=[0, 1])
    before = state(model)
    with pytest.raises(ValueError, match=r"classes.*is not the same"):
        model.partial_fit(X, Y, classes=[0, 1, 2])
    assert state(model) == before


def test_a_classifier_refuses_a_continuous_target_and_several_targets():
    with pytest.raises(ValueError, match="continuous"):
        quick(TAGIClassifier).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="indicator matrix"):
        quick(TAGIClassifier).fit(X, np.column_stack([Y, Y]) + 1)


@pytest.mark.parametrize(
    ("estimator", "method", "args"),
    [
        (TAGIRegressor, "predict", ()),
        (TAGIRegressor, "predict_variance", ()),
        (TAGIRegressor, "predict_interval", ()),
        (TAGIRegressor, "predict_quantiles", ([0.5],)),
        (TAGIRegressor, "sample_y", ()),
        (TAGIRegressor, "log_likelihood", (Y,)),
        (TAGIRegressor, "score", (Y,)),
        (TAGIClassifier, "predict", ()),
        (TAGIClassifier, "predict_proba", ()),
        (TAGIClassifier, "predict_log_proba", ()),
        (TAGIClassifier, "log_likelihood", (Y,)),
        (TAGIClassifier, "score", (Y,)),
    ],
)
def test_predicting_before_fit_raises_not_fitted(estimator, method, args):
    with pytest.raises(NotFittedError, match=f"{estimator.__name__} instance is not fitted"):
        getattr(estimator(), method)(X, *args)


@both
@pytest.mark.parametrize("entry", [NAN, INF])
def test_prediction_refuses_what_is_not_finite(estimator, entry):
    model = quick(estimator).fit(X, Y)
    if entry == INF:  # NaN in X is a missing value
        with pytest.raises(ValueError, match="X contains"):
            model.predict(spoiled(X, entry))
    with pytest.raises(ValueError, match="X_std"):
        spread(model, X, X_std=entry)
    with pytest.raises(ValueError, match=r"X_std .*negative"):
        spread(model, X, X_std=-1.0)
    with pytest.raises(ValueError, match=r"X_std .*\(39, 3\)"):
        spread(model, X, X_std=np.ones((39, 3)))
    with pytest.raises(ValueError, match="y"):
        model.log_likelihood(X, spoiled(Y, entry))
    with pytest.raises(ValueError, match="sample_weight"):
        model.log_likelihood(X, Y, sample_weight=spoiled(Y, entry))


@both
def test_log_likelihood_refuses_another_length(estimator):
    model = quick(estimator).fit(X, Y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.log_likelihood(X, Y[:-1])


@pytest.mark.parametrize("bad", [0, 1, -0.1, 1.5, NAN, [0.5, 1.0], [[0.5]], "half", None])
def test_quantiles_and_coverage_outside_zero_and_one_are_refused(bad):
    model = quick(TAGIRegressor).fit(X, Y)
    with pytest.raises(ValueError, match="quantiles"):
        model.predict_quantiles(X, bad)
    with pytest.raises(ValueError, match="coverage"):
        model.predict_interval(X, coverage=bad)


@pytest.mark.parametrize("bad", [-1, 2.5, "3", None])
def test_n_samples_of_sample_y_is_checked(bad):
    model = quick(TAGIRegressor).fit(X, Y)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample_y(X, n_samples=bad)


# Failures inside


class FailAfter:
    """Stands in for a function: works ``good`` times, then raises."""

    def __init__(self, function, good, error):
        self.function, self.left, self.error = function, good, error

    def __call__(self, *args, **kwargs):
        if self.left == 0:
            raise self.error
        self.left -= 1
        return self.function(*args, **kwargs)


FAILURES = [
    (learning, "forward", 0), (learning, "forward", 1), (learning, "backward", 1),
    (learning, "forget", 0), (learning, "learn_noise", 1), (streaming, "learn_stream", 0),
]  # fmt: skip
ERRORS = [KeyboardInterrupt(), MemoryError(), RuntimeError("broken"), np.linalg.LinAlgError("no")]


@both
@pytest.mark.parametrize(("module", "name", "good"), FAILURES)
@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_partial_fit_that_fails_inside_changes_nothing(
    estimator, module, name, good, error, monkeypatch
):
    if name == "learn_noise" and estimator is TAGIClassifier:
        module, name = learning, "joint_of_batch"  # signs have no noise to learn
    model = quick(estimator, batch_size=10).fit(X, Y)
    before, predicted = state(model), spread(model, X)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, FailAfter(getattr(module, name), good, error))
        with pytest.raises(type(error)):
            model.partial_fit(*make_data(seed=1))
    assert state(model) == before
    for mine, theirs in zip(predicted, spread(model, X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@both
def test_first_partial_fit_that_fails_inside_leaves_the_model_unfitted(estimator, monkeypatch):
    model = quick(estimator, batch_size=10)
    before = dict(vars(model))
    with monkeypatch.context() as patch:
        failing = FailAfter(learning.backward, 2, KeyboardInterrupt())
        patch.setattr(learning, "backward", failing)
        with pytest.raises(KeyboardInterrupt):
            first_call(model, X, Y)
    assert vars(model) == before


@both
@pytest.mark.parametrize("warm_start", [False, True])
def test_fit_that_fails_inside_changes_nothing(estimator, warm_start, monkeypatch):
    model = quick(estimator, batch_size=10, warm_start=warm_start).fit(X, Y)
    before = state(model)
    with monkeypatch.context() as patch:
        failing = FailAfter(learning.backward, 7, MemoryError())
        patch.setattr(learning, "backward", failing)
        with pytest.raises(MemoryError):
            model.fit(*make_data(seed=1))
    assert state(model) == before
    model.partial_fit(X, Y)


@both
def test_interrupt_before_anything_is_learned_leaves_the_estimator_unfitted(estimator, monkeypatch):
    model = quick(estimator)
    before = dict(vars(model))
    monkeypatch.setattr(base, "draw_prior", FailAfter(None, 0, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == before


# Containers


def pandas_frame(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


def polars_frame(X):
    return pl.DataFrame(X, schema=["a", "b", "c"])


frames = pytest.mark.parametrize("frame", [pandas_frame, polars_frame])


@both
@frames
def test_frames_learn_as_arrays_do_and_keep_their_names(estimator, frame):
    expected = quick(estimator).fit(X, Y)
    model = quick(estimator).fit(frame(X), Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(spread(model, frame(X)), spread(expected, X), rtol=1e-9)
    model.partial_fit(frame(X), Y)
    expected.partial_fit(X, Y)
    np.testing.assert_allclose(spread(model, frame(X)), spread(expected, X), rtol=1e-9)


@both
@frames
def test_columns_in_another_order_or_of_another_name_are_refused(estimator, frame):
    model = quick(estimator).fit(frame(X), Y)
    before = state(model)
    shuffled = frame(X)[["b", "a", "c"]]
    for call in (model.predict, lambda X: model.partial_fit(X, Y)):
        with pytest.raises(ValueError, match="feature names should match"):
            call(shuffled)
        with pytest.raises(ValueError, match="feature names should match"):
            call(shuffled.rename(columns={"a": "z"}) if frame is pandas_frame else
                 shuffled.rename({"a": "z"}))  # fmt: skip
    assert state(model) == before


@both
def test_an_array_after_a_frame_warns_about_names(estimator):
    model = quick(estimator).fit(pandas_frame(X), Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@both
@pytest.mark.parametrize("series", [pd.Series, pl.Series, list])
def test_y_and_weights_may_be_series_or_lists(estimator, series):
    weight = np.linspace(0.5, 2, len(Y))
    expected = quick(estimator).fit(X, Y, sample_weight=weight)
    model = quick(estimator).fit(X, series(Y), sample_weight=series(weight))
    np.testing.assert_array_equal(spread(model, X), spread(expected, X))
    assert model.log_likelihood(X, series(Y)) == expected.log_likelihood(X, Y)


@frames
def test_X_std_may_be_a_frame(frame):
    X_std = np.abs(X) / 10
    expected = quick(TAGIRegressor).fit(X, Y, X_std=X_std)
    model = quick(TAGIRegressor).fit(frame(X), Y, X_std=frame(X_std))
    np.testing.assert_allclose(
        model.predict(frame(X), return_std=True, X_std=frame(X_std)),
        expected.predict(X, return_std=True, X_std=X_std),
        rtol=1e-9,
    )


@both
def test_pandas_labels_of_nullable_and_categorical_kinds(estimator):
    expected = quick(estimator).fit(X, Y).predict(X)
    model = quick(estimator).fit(pandas_frame(X), pd.Series(Y, dtype="Int64"))
    np.testing.assert_allclose(model.predict(pandas_frame(X)), expected, rtol=1e-9)
    if estimator is TAGIClassifier:
        labels = pd.Series(np.where(Y, "yes", "no"), dtype="category")
        model = quick(estimator).fit(X, labels)
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.predict(X).tolist() == np.where(expected, "yes", "no").tolist()


@both
def test_lists_learn_as_arrays_do(estimator):
    model = quick(estimator).fit(X.tolist(), Y.tolist())
    expected = quick(estimator).fit(X, Y)
    np.testing.assert_array_equal(spread(model, X.tolist()), spread(expected, X))


@both
@pytest.mark.parametrize("kind", ["fortran", "read-only", "strided", "reversed", "big-endian"])
def test_memory_layout_does_not_matter(estimator, kind):
    X_other = {
        "fortran": lambda: np.asfortranarray(X),
        "read-only": lambda: X.copy(),
        "strided": lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        "reversed": lambda: X[::-1, ::-1].copy()[::-1, ::-1],
        "big-endian": lambda: X.astype(">f8"),
    }[kind]()
    y = Y.copy()
    weight, X_std = np.ones(len(X)), np.full(X.shape, 0.1)
    if kind == "read-only":
        for values in (X_other, y, weight, X_std):
            values.flags.writeable = False
    model = quick(estimator).fit(X_other, y, sample_weight=weight, X_std=X_std)
    model.partial_fit(X_other, y)
    expected = quick(estimator).fit(X, Y, X_std=0.1).partial_fit(X, Y)
    np.testing.assert_allclose(spread(model, X_other), spread(expected, X), rtol=1e-9, atol=1e-12)


# Sparse


def sparse_data(n=60, d=30, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.2, random_state=rng, format="csr")
    return X, (X.sum(axis=1) > np.median(X.sum(axis=1))).astype(int)


FORMATS = [
    sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.lil_array,
    sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix,
]  # fmt: skip


@both
@pytest.mark.parametrize("format", FORMATS)
def test_all_sparse_formats_learn_the_same(estimator, format):
    X, y = sparse_data()
    expected = quick(estimator).fit(X, y).partial_fit(X, y)
    model = quick(estimator).fit(format(X), y).partial_fit(format(X), y)
    np.testing.assert_array_equal(spread(model, format(X)), spread(expected, X))


@both
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
def test_sparse_equals_dense_without_standardisation(estimator, batch_inference):
    X, y = sparse_data()
    params = {"standardize": False, "batch_inference": batch_inference}
    dense = quick(estimator, **params).fit(X.toarray(), y)
    model = quick(estimator, **params).fit(X, y)
    np.testing.assert_allclose(spread(model, X), spread(dense, X.toarray()), rtol=1e-7, atol=1e-9)


@both
def test_sparse_X_std_equals_dense(estimator):
    X, y = sparse_data()
    X_std = abs(X) * 0.3
    dense = quick(estimator).fit(X, y, X_std=X_std.toarray())
    model = quick(estimator).fit(X, y, X_std=X_std)
    np.testing.assert_allclose(
        spread(model, X, X_std=X_std), spread(dense, X, X_std=X_std.toarray()), rtol=1e-7
    )


@both
def test_explicit_zeros_and_duplicate_entries_are_the_same_matrix(estimator):
    X, y = sparse_data()
    coo = X.tocoo()
    doubled = sparse.coo_array(
        (np.tile(coo.data / 2, 2), (np.tile(coo.row, 2), np.tile(coo.col, 2))), shape=X.shape
    )
    zeros = X.copy()
    zeros[:, 0] = 0.0
    zeros = (zeros + X).tocsr() - zeros
    expected = quick(estimator).fit(X, y)
    for other in (doubled, zeros):
        model = quick(estimator).fit(other, y)
        np.testing.assert_allclose(spread(model, other), spread(expected, X), rtol=1e-9)


@both
@pytest.mark.parametrize("standardize", [True, False])
def test_sparse_is_never_densified(estimator, standardize, monkeypatch):
    n, d = 2000, 1500
    X = sparse.random_array(
        (n, d), density=0.002, random_state=np.random.default_rng(0), format="csr"
    )
    y = (np.asarray(X.sum(axis=1)).ravel() > 1.5).astype(int)

    def refuse(function):
        def guarded(self, *args, **kwargs):
            assert self.shape[0] * self.shape[1] < n * d / 10, f"{self.shape} made dense"
            return function(self, *args, **kwargs)

        return guarded

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, refuse(getattr(kind, name)))
    model = quick(estimator, standardize=standardize, max_iter=1, n_members=1).fit(X, y, X_std=X)
    model.partial_fit(X, y)
    assert np.isfinite(spread(model, X)).all()


@both
def test_sparse_features_are_scaled_but_not_centred(estimator):
    X, y = sparse_data()
    scale = 10.0 ** np.random.default_rng(0).integers(-4, 5, size=X.shape[1])
    scaled = (X @ sparse.diags_array(scale)).tocsr()
    np.testing.assert_allclose(
        spread(quick(estimator).fit(scaled, y), scaled),
        spread(quick(estimator).fit(X, y), X),
        rtol=1e-7,
    )


@both
def test_a_model_of_dense_rows_takes_sparse_rows_and_the_reverse(estimator):
    X, y = sparse_data()
    for fitted, other in ((X, X.toarray()), (X.toarray(), X)):
        model = quick(estimator).fit(fitted, y)
        np.testing.assert_allclose(spread(model, other), spread(model, fitted), rtol=1e-9)
        one, two = pickle.loads(state(model)), pickle.loads(state(model))
        one.partial_fit(fitted, y)
        two.partial_fit(other, y)
        np.testing.assert_allclose(spread(one, fitted), spread(two, fitted), rtol=1e-7)


# Types


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make_sparse", [False, True])
def test_the_floating_type_is_kept(estimator, dtype, make_sparse):
    X_in = sparse.csr_array(X.astype(dtype)) if make_sparse else X.astype(dtype)
    model = quick(estimator).fit(X_in, Y)
    model.partial_fit(X_in.astype(np.float64), Y, X_std=0.1, sample_weight=np.ones(len(Y)))
    arrays = [*model.coefs_, *model.intercepts_, *model.coef_vars_, *model.intercept_vars_]
    arrays += [*spread(model, X_in), *spread(model, X), *spread(model, X_in, X_std=0.1)]
    if estimator is TAGIClassifier:
        arrays += [model.predict_log_proba(X_in)]
    else:
        arrays += [model.predict_interval(X_in), model.predict_noise_std(X_in)]
        assert {a.dtype for a in model.predict_variance(X_in)} == {np.dtype(np.float64)}
        arrays += [model.predict_quantiles(X_in, [0.1])]
    assert {a.dtype for a in arrays} == {np.dtype(dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_samples_have_the_type_of_predictions(dtype):
    model = quick(TAGIRegressor).fit(X.astype(dtype), Y)
    assert model.sample_y(X).dtype == dtype


@both
@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, object])
def test_integers_become_float64(estimator, dtype):
    counts = np.abs(X * 10).astype(dtype)
    model = quick(estimator).fit(counts, Y)
    expected = quick(estimator).fit(counts.astype(np.float64), Y)
    assert model.coefs_[0].dtype == np.float64
    np.testing.assert_array_equal(spread(model, counts), spread(expected, counts))


@both
def test_float32_and_float64_agree(estimator):
    single = spread(quick(estimator).fit(X.astype(np.float32), Y), X)
    double = spread(quick(estimator).fit(X, Y), X)
    np.testing.assert_allclose(single, double, rtol=5e-3, atol=5e-3)


# Shapes at the edge


@both
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_one_row_can_be_learned(estimator, how):
    model = quick(estimator)
    if how == "fit":
        model.fit(X[:1], Y[:1])
    else:
        first_call(model, X[:1], Y[:1])
    mean, std = spread(model, X)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert model.n_samples_seen_ == 1


@both
@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_rows_can_be_learned(estimator, n):
    y = np.arange(n) % 2
    mean, std = spread(quick(estimator).fit(X[:n], y), X)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


@both
def test_one_column_can_be_learned(estimator):
    model = quick(estimator).fit(X[:, :1], Y)
    assert np.isfinite(spread(model, X[:, :1])).all()
    assert model.coefs_[0].shape == (2, 1, 6)


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 1.0, 0.998, -1e8, 1e-8, 0.1])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_a_constant_column_is_harmless(estimator, dtype, value, how):
    """Means of repeated values are rounded, so their computed std need not be zero."""
    n = 998
    rng = np.random.default_rng(0)
    free = rng.normal(size=(n, 1))
    y = (free[:, 0] > 0).astype(int)
    X = np.hstack([free, np.full((n, 1), value)]).astype(dtype)
    model = quick(estimator, max_iter=1, n_members=1, sigma_v=0.5)
    if how == "fit":
        model.fit(X, y)
    else:
        for part in np.array_split(np.arange(n), 7):
            first_call(model, X[part], y[part])
    mean, std = spread(model, X)
    assert model.score(X, y) > (0.6 if estimator is TAGIClassifier else 0.3)
    assert np.isfinite(std).all()
    nearly = X.copy()
    nearly[:, 1] *= 1 + 4 * np.finfo(np.float64).eps
    np.testing.assert_allclose(spread(model, nearly)[0], mean, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("value", [0.0, 0.998, 5.0, -1e8])
@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_a_constant_target_is_predicted(value, how):
    model = quick(TAGIRegressor, max_iter=30)
    y = np.full(len(X), value)
    for _ in range(1 if how == "fit" else 30):
        getattr(model, how)(X, y)
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, value, atol=0.5)
    assert np.isfinite(std).all()
    assert (std > 0).all()
    assert std.max() < 2 + 1e-4 * abs(value)  # a stream knows no other unit than the value's own


def test_a_column_vector_keeps_its_shape():
    y = X[:, :1] * 2
    column = quick(TAGIRegressor).fit(X, y)
    flat = quick(TAGIRegressor).fit(X, y[:, 0])
    for mine, theirs in zip(spread(column, X), spread(flat, X), strict=True):
        assert mine.shape == (40, 1)
        np.testing.assert_array_equal(mine[:, 0], theirs)


def test_a_flat_stream_after_a_column_keeps_the_column():
    model = quick(TAGIRegressor).partial_fit(X, Y[:, None]).partial_fit(X, Y)
    assert model.predict(X).shape == (40, 1)


def test_a_column_of_labels_warns_and_learns():
    with pytest.warns(UserWarning, match="column-vector y"):
        model = quick(TAGIClassifier).fit(X, Y[:, None])
    expected = quick(TAGIClassifier).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@both
def test_prediction_of_many_rows_equals_prediction_one_by_one(estimator):
    model = quick(estimator).fit(X, Y)
    together = np.array(spread(model, X))
    alone = np.concatenate([np.array(spread(model, row[None])) for row in X], axis=1)
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@both
def test_prediction_in_blocks_equals_prediction_at_once(estimator, monkeypatch):
    model = quick(estimator).fit(X, Y)
    X_std = np.abs(X) / 5
    expected = spread(model, X, X_std=X_std)
    monkeypatch.setattr(predicting, "BLOCK_ELEMENTS", 100)
    np.testing.assert_allclose(spread(model, X, X_std=X_std), expected, rtol=1e-12)


def test_columns_of_X_std_are_those_of_X():
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30.0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = TAGIRegressor((4,), max_iter=1, n_members=1).fit(frame, y, X_std=frame.abs())
    with pytest.raises(ValueError, match=r"X_std has names \['b', 'a'\]"):
        model.predict(frame, X_std=frame.abs()[["b", "a"]])


@both
def test_sparse_deviations_of_dense_features_are_the_same_numbers(estimator):
    X_std = np.abs(X) * 0.1
    thin = quick(estimator).fit(X, Y, X_std=sparse.csr_array(X_std))
    full = quick(estimator).fit(X, Y, X_std=X_std)
    for mine, theirs in zip(thin.coefs_, full.coefs_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@both
def test_named_deviations_must_have_the_names_of_the_features(estimator):
    names = [f"f{k}" for k in range(X.shape[1])]
    frame, std = pd.DataFrame(X, columns=names), pd.Series(0.1, index=names)
    model = quick(estimator).fit(frame, Y, X_std=std)
    predict = model.predict_proba if is_classifier(model) else model.predict
    with pytest.raises(ValueError, match="X_std has names"):
        quick(estimator).fit(frame, Y, X_std=std.iloc[::-1])
    with pytest.raises(ValueError, match="X_std has names"):
        predict(frame, X_std=std.iloc[::-1])
    cov = pd.DataFrame(np.eye(len(names)), index=names, columns=names)
    assert np.isfinite(predict(frame, X_cov=cov)).all()
    with pytest.raises(ValueError, match="X_cov has names"):
        predict(frame, X_cov=cov.iloc[::-1, ::-1])


# None among targets and classes

Y_NONE = [None if k in (3, 7) else float(v) for k, v in enumerate(Y)]
LABELS_NONE = ["a", "b", None] * (len(Y) // 3) + ["a"] * (len(Y) % 3)


@pytest.mark.parametrize("form", [list, lambda y: np.array(y, dtype=object)])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_target_that_is_none_is_refused_and_its_row_is_named(form, method):
    with pytest.raises(ValueError, match=r"y has no value \(None\) in rows 3, 7: a target"):
        getattr(TAGIRegressor((3,), n_members=1, max_iter=1), method)(X, form(Y_NONE))
    column = np.array(Y_NONE, dtype=object)[:, None]
    with pytest.raises(ValueError, match=r"None\) in rows 3, 7"):
        getattr(TAGIRegressor((3,), n_members=1, max_iter=1), method)(X, column)


def test_none_among_several_targets_is_one_that_was_not_observed():
    params = {"hidden_layer_sizes": (3,), "n_members": 1, "max_iter": 2, "random_state": 0}
    given = np.column_stack([1.0 * Y, -1.0 * Y])
    given[3, 0] = np.nan
    expected = TAGIRegressor(**params).fit(X, given).predict(X)
    for missing in (None, pd.NA):
        objects = given.astype(object)
        objects[3, 0] = missing
        np.testing.assert_array_equal(TAGIRegressor(**params).fit(X, objects).predict(X), expected)


@pytest.mark.parametrize("form", [list, lambda y: np.array(y, dtype=object)])
def test_a_class_that_is_none_is_refused_and_its_row_is_named(form):
    model = TAGIClassifier((3,), n_members=1, max_iter=1)
    with pytest.raises(ValueError, match=r"None\) in rows 2, 5, 8, 11, 14, \.\.\.: a class"):
        model.fit(X, form(LABELS_NONE))
    with pytest.raises(ValueError, match=r"None\) in rows 2, 5"):
        model.partial_fit(X, form(LABELS_NONE), classes=["a", "b"])
    with pytest.raises(ValueError, match="classes must not contain None"):
        model.partial_fit(X, ["a"] * len(X), classes=["a", None])


@pytest.mark.parametrize("form", [lambda y: np.array(y, dtype=object), pd.Categorical])
def test_a_class_that_is_nan_is_refused_and_its_row_is_named(form):
    labels = form([np.nan if label is None else label for label in LABELS_NONE])
    model = TAGIClassifier((3,), n_members=1, max_iter=1)
    for learn in (model.fit, partial(model.partial_fit, classes=["a", "b"])):
        with pytest.raises(ValueError, match=r"y has no value \(nan\) in rows 2, 5.*: a class"):
            learn(X, pd.Series(labels))
