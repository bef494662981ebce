"""TAGIClassifier: labels of all kinds, probabilities and their std, what it learns."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier
from sktagi.engine.class_calibration import UNKNOWN_OF_SPREAD

QUICK = {"hidden_layer_sizes": (20,), "max_iter": 10, "n_members": 2, "random_state": 0}


def quick(**params):
    return TAGIClassifier(**{**QUICK, **params})


def blobs(n_classes=3, n=120, spread=0.3, seed=0):
    """Classes around points on a circle; row k has the class k modulo n_classes."""
    rng = np.random.default_rng(seed)
    number = np.arange(n) % n_classes
    angle = 2 * np.pi * number / n_classes
    X = np.column_stack([np.cos(angle), np.sin(angle)]) + spread * rng.normal(size=(n, 2))
    return X, number


LABELS = {
    "int": [0, 1, 2],
    "negative": [-5, -1, 7],
    "float": [0.0, 1.0, 2.0],
    "string": ["ham", "spam", "eggs"],
    "unicode": ["é", "ß", "日本"],
    "bytes": [b"a", b"b", b"c"],
    "tuple": [(0, 1), (0, 2), (1, 0)],
    "mixed": ["a", 1, (0, 1)],
    "mixed numbers": [1, 2.5, "x"],
    "frozenset": [frozenset({1}), frozenset({2}), frozenset({1, 2})],
}


# scikit-learn has arrays of bytes refused; NumPy has no arrays of tuples and the like.
FORMS = [
    (kind, form)
    for kind in LABELS
    for form in ("list", "object array", "array")
    if form == "object array" or kind != "bytes"
    if form != "array" or kind in ("int", "negative", "float", "string", "unicode")
]


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_any_hashable_label_can_be_learned(kind, form):
    labels = LABELS[kind]
    X, number = blobs()
    y = [labels[k] for k in number]
    if form != "list":
        array = np.empty(len(y), dtype=object)
        array[:] = y
        y = array if form == "object array" else np.array(array.tolist())
    model = quick().fit(X, y)
    predicted = model.predict(X)
    assert predicted.shape == (len(X),)
    agree = np.mean([p == labels[k] for p, k in zip(predicted.tolist(), number, strict=True)])
    assert agree > 0.9
    assert len(model.classes_) == 3
    assert set(model.classes_.tolist()) == set(labels)
    assert model.predict_proba(X).shape == (len(X), 3)
    assert model.log_likelihood(X, y) > np.log(1 / 3)
    model.partial_fit(X, y)


def test_boolean_labels_stay_boolean():
    X, number = blobs(2)
    model = quick().fit(X, number == 1)
    assert model.classes_.dtype == bool
    assert model.predict(X).dtype == bool
    assert model.score(X, number == 1) > 0.9


def test_classes_are_sorted_and_columns_follow_them():
    X, number = blobs(3)
    labels = np.array(["zebra", "ape", "newt"])[number]
    model = quick().fit(X, labels)
    assert model.classes_.tolist() == ["ape", "newt", "zebra"]
    proba = model.predict_proba(X)
    for column, name in enumerate(model.classes_):
        own = proba[labels == name].mean(axis=0)
        assert own.argmax() == column


def test_names_of_the_classes_do_not_change_what_is_learned():
    X, number = blobs(3)
    params = {"early_stopping": False}
    expected = quick(**params).fit(X, number).predict_proba(X)
    for labels in (["a", "b", "c"], [-3, 0, 99], [(0,), (1,), (2,)]):
        y = [labels[k] for k in number]
        np.testing.assert_array_equal(quick(**params).fit(X, y).predict_proba(X), expected)


def test_the_order_of_classes_given_to_partial_fit_does_not_matter():
    X, number = blobs(3)
    one = quick().partial_fit(X, number, classes=[0, 1, 2])
    two = quick().partial_fit(X, number, classes=[2, 0, 1])
    assert two.classes_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_repeated_classes_given_to_partial_fit_count_once():
    X, number = blobs(2)
    assert len(quick().partial_fit(X, number, classes=[0, 1, 1, 0]).classes_) == 2


@pytest.mark.parametrize("bad", [[[1], [2]], [{1: 2}, {3: 4}]])
def test_labels_that_cannot_be_hashed_are_refused(bad):
    y = np.empty(20, dtype=object)
    y[:] = [bad[k % 2] for k in range(20)]
    with pytest.raises(ValueError, match="hashable"):
        quick().fit(np.ones((20, 2)), y)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 10, 37])
def test_any_number_of_classes(n_classes):
    X, y = blobs(n_classes, n=8 * n_classes, spread=0.05)
    model = quick(max_iter=5, batch_size=16).fit(X, y)
    proba, std = model.predict_proba(X, return_std=True)
    assert proba.shape == std.shape == (len(X), n_classes)
    assert ((proba >= 0) & (proba <= 1)).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-12)
    assert n_classes - 1 <= model.n_outputs_ < 2 * n_classes
    assert model.score(X, y) > 2 / n_classes or n_classes == 2


@pytest.mark.filterwarnings("ignore:The number of unique classes")
def test_a_thousand_classes():
    X = np.random.default_rng(0).normal(size=(1000, 5))
    y = np.arange(1000)
    model = quick(hidden_layer_sizes=(5,), max_iter=1, n_members=1, early_stopping=False).fit(X, y)
    proba, std = model.predict_proba(X[:50], return_std=True)
    assert proba.shape == (50, 1000)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-9)
    assert (std > 0).all()
    assert np.isfinite(model.log_likelihood(X, y))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_methods_agree_with_each_other(n_classes, dtype):
    X, y = blobs(n_classes)
    X = X.astype(dtype)
    model = quick().fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba, rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(model.predict_proba(X, return_std=True)[0], proba)
    assert model.score(X, y) == accuracy_score(y, model.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_log_likelihood_is_minus_log_loss(weighted):
    X, number = blobs(3)
    y = np.array(["c", "a", "b"])[number]
    model = quick().fit(X, y)
    weight = np.linspace(0, 2, len(X)) if weighted else None
    assert model.log_likelihood(X, y, sample_weight=weight) == pytest.approx(
        -log_loss(y, model.predict_proba(X), sample_weight=weight)
    )


def test_log_probabilities_stay_finite_where_probabilities_round_to_zero():
    X, y = blobs(3, spread=0.01)
    model = quick(sigma_v=0.01, probit_scale=1e-3, max_iter=30).fit(X, y)
    log_proba = model.predict_log_proba(1e6 * X)
    assert np.isfinite(log_proba).all()
    assert (log_proba <= 0).all()


# Standard deviations


@pytest.mark.parametrize("n_members", [1, 3])
def test_std_is_that_of_a_probability(n_members):
    X, y = blobs(3)
    proba, std = quick(n_members=n_members).fit(X, y).predict_proba(X, return_std=True)
    assert (std > 0).all()
    # No variable in [0, 1] with mean p has a variance above p (1 - p).
    assert (std**2 <= proba * (1 - proba) + 1e-9).all()


def test_std_of_two_classes_is_the_same_for_both():
    X, y = blobs(2)
    std = quick().fit(X, y).predict_proba(X, return_std=True)[1]
    np.testing.assert_allclose(std[:, 0], std[:, 1], rtol=1e-9)


def test_std_agrees_with_monte_carlo():
    """One member, two classes: p = Phi(z / sqrt(alpha^2 + sigma_v^2)), z ~ N(mu, var_z).

    Of the prior, of which nothing is known but its variance.
    """
    X, number = blobs(2)
    model = quick(n_members=1, hidden_layer_sizes=(), standardize=False, sigma_v=0.4, max_iter=0)
    model.fit(X, number)
    w, S = model.coefs_[0], model.coef_vars_[0]
    mu = (X @ w + model.intercepts_[0])[:, 0]
    var = (X**2 @ S + model.intercept_vars_[0])[:, 0]
    draws = np.random.default_rng(0).normal(size=(100_000, 1)) * np.sqrt(var[:6]) + mu[:6]
    sampled = norm.cdf(draws / np.hypot(model.probit_scale, 0.4))
    proba, std = model.predict_proba(X[:6], return_std=True)
    first = 0 if np.corrcoef(sampled.mean(axis=0), proba[:, 0])[0, 1] > 0 else 1
    np.testing.assert_allclose(proba[:, first], sampled.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(std[:, first], sampled.std(axis=0), atol=0.01)


def test_input_uncertainty_draws_probabilities_together():
    X, y = blobs(2, spread=0.1)
    model = quick().fit(X, y)
    certain, uncertain = (model.predict_proba(X, X_std=s) for s in (None, 3.0))
    assert (uncertain.max(axis=1) < certain.max(axis=1)).all()
    sure = model.log_likelihood(X, y)
    assert model.log_likelihood(X, y, X_std=3.0) < sure
    assert model.predict(X, X_std=3.0).shape == y.shape


# Weights, rare classes, streams


@pytest.mark.parametrize("half_life", [None, 60.0])
@pytest.mark.parametrize("sigma_v", [0.4, "auto"])
def test_weight_k_equals_k_copies_in_the_same_batch(half_life, sigma_v):
    X, y = blobs(3, n=40)
    weight = np.random.default_rng(0).integers(1, 4, size=40)
    params = {"half_life": half_life, "sigma_v": sigma_v, "batch_size": 1000, "max_iter": 3,
              "early_stopping": False}  # fmt: skip
    one = quick(**params).fit(X, y, sample_weight=weight)
    two = quick(**params).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for name in ("coefs_", "coef_vars_", "intercepts_", "intercept_vars_"):
        for mine, theirs in zip(getattr(one, name), getattr(two, name), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(one.sigma_v_, two.sigma_v_, rtol=1e-8)


@pytest.mark.parametrize("early_stopping", [False, True])
def test_weight_zero_equals_row_left_out(early_stopping):
    X, y = blobs(3, n=60)
    weight = np.ones(60)
    weight[::5] = 0
    model = quick(early_stopping=early_stopping).fit(X, y, sample_weight=weight)
    expected = quick(early_stopping=early_stopping).fit(X[weight > 0], y[weight > 0])
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_heavier_classes_are_predicted_more_often():
    X, y = blobs(2, spread=1.5, n=300)
    light, heavy = (quick().fit(X, y, sample_weight=np.where(y == 1, w, 1.0)) for w in (0.2, 5.0))
    assert (heavy.predict(X) == 1).mean() > (light.predict(X) == 1).mean() + 0.2


def test_a_class_may_be_missing_from_a_batch_of_a_stream():
    X, y = blobs(3, n=300)
    model = quick(batch_size=10)
    model.partial_fit(X[y == 0][:50], y[y == 0][:50], classes=[0, 1, 2])
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba[:, 0].mean() > 1 / 3
    for k in (1, 2, 0, 1, 2):
        model.partial_fit(X[y == k], y[y == k])
    for _ in range(5):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.9


def test_a_class_never_seen_keeps_a_small_probability():
    X, y = blobs(2)
    model = quick().partial_fit(X, y, classes=[0, 1, 2])
    for _ in range(10):
        model.partial_fit(X, y)
    proba = model.predict_proba(X)
    assert (proba[:, 2] > 0).all()
    assert model.score(X, y) > 0.9


def test_a_single_class_is_certain():
    X, _ = blobs()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quick().fit(X, np.full(len(X), "only"))
    assert model.classes_.tolist() == ["only"]
    assert (model.predict(X) == "only").all()
    np.testing.assert_allclose(model.predict_proba(X), 1)
    assert model.log_likelihood(X, np.full(len(X), "only")) == pytest.approx(0)


@pytest.mark.parametrize("rare", [1, 2, 3])
def test_a_rare_class_survives_early_stopping(rare):
    X, y = blobs(2, n=100, spread=0.1)
    keep = np.flatnonzero(y == 0).tolist() + np.flatnonzero(y == 1)[:rare].tolist()
    model = quick(early_stopping=True, max_iter=20).fit(X[keep], y[keep])
    assert model.classes_.tolist() == [0, 1]
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert proba[y == 1, 1].mean() > proba[y == 0, 1].mean()


def test_the_hold_out_is_stratified():
    """One row in ten of a rare class: each member must meet it in training and in validation."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [180, 20])
    X = rng.normal(size=(200, 2)) + 3 * y[:, None]
    model = quick(n_members=5).fit(X, y)
    assert model.score(X, y) > 0.97
    assert model.predict_proba(X)[y == 1, 1].mean() > 0.6


def test_warm_start_needs_the_same_classes():
    X, y = blobs(3)
    model = quick(warm_start=True).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"warm_start.*classes.*\[0, 1, 2\].*\[0, 1\]"):
        model.fit(X[y < 2], y[y < 2])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.fit(X, y).classes_.tolist() == [0, 1, 2]


# Members and noise


def test_probabilities_are_averaged_over_the_members():
    X, y = blobs(3)
    params = {"early_stopping": False, "class_coding": "one_of_k", "max_iter": 3}
    stack = quick(n_members=3, **params).fit(X, y)
    # The network of each member alone, with its parameters put into a single one.
    alone = []
    for member in range(3):
        single = quick(n_members=1, **params).fit(X, y)
        for name in ("coefs_", "intercepts_", "coef_vars_", "intercept_vars_"):
            for mine, theirs in zip(getattr(single, name), getattr(stack, name), strict=True):
                mine[...] = theirs[member]
        alone.append(single.predict_proba(X, return_std=True))
    proba, std = np.array([a[0] for a in alone]), np.array([a[1] for a in alone])
    mean, spread = stack.predict_proba(X, return_std=True)
    np.testing.assert_allclose(mean, proba.mean(axis=0), rtol=1e-9)
    total = (std**2).mean(axis=0) + UNKNOWN_OF_SPREAD * proba.var(axis=0)
    np.testing.assert_allclose(spread**2, total, rtol=1e-9)


def test_probabilities_follow_the_overlap_of_the_classes():
    clear, blurred = blobs(2, spread=0.1, n=200), blobs(2, spread=2.0, n=200)
    models = [quick(max_iter=20).fit(*rows) for rows in (clear, blurred)]
    sure, unsure = (
        model.predict_proba(X).max(axis=1).mean()
        for model, (X, _) in zip(models, (clear, blurred), strict=True)
    )
    assert sure > 0.97
    assert unsure < 0.85
    assert models[0].sigma_v_ == models[0].probit_scale  # a class is not a number with noise


def test_scores_are_mean_log_likelihoods():
    X, y = blobs(3)
    model = quick(max_iter=8).fit(X, y)
    assert len(model.train_scores_) == len(model.validation_scores_) == model.n_iter_ == 8
    assert model.train_scores_[-1] > model.train_scores_[0]
    assert all(score < 0 for score in model.train_scores_ + model.validation_scores_)


# Quality of the default


def test_default_on_digits():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y)
    model = TAGIClassifier(max_iter=15, random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.95
    assert model.log_likelihood(X_test, y_test) > -0.25


def test_default_on_iris():
    X, y = load_iris(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0, stratify=y, test_size=0.4)
    model = TAGIClassifier(random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > 0.9
    assert model.log_likelihood(X_test, y_test) > -0.35


def test_default_learns_a_curved_boundary_with_honest_probabilities():
    X, y = make_moons(600, noise=0.25, random_state=0)
    model = TAGIClassifier(n_members=2, max_iter=40, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.9
    proba = model.predict_proba(X[300:])[:, 1]
    for low, high in ((0.0, 0.3), (0.7, 1.0)):
        part = (proba >= low) & (proba <= high)
        assert y[300:][part].mean() == pytest.approx(proba[part].mean(), abs=0.1)


@pytest.mark.parametrize("sigma_v", [1e-3, 1e-2, 0.1, 1.0])
@pytest.mark.parametrize("batch_inference", ["joint", "independent"])
@pytest.mark.parametrize("hidden_layer_sizes", [(), (20,)])
def test_parameters_stay_of_the_size_of_the_problem(sigma_v, batch_inference, hidden_layer_sizes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4))
    y = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=100), [-0.5, 0.5])
    params = {"sigma_v": sigma_v, "batch_inference": batch_inference, "batch_size": 10,
              "hidden_layer_sizes": hidden_layer_sizes}  # fmt: skip
    model = quick(**params, n_members=1, early_stopping=False).fit(X, y)
    assert max(np.abs(w).max() for w in model.coefs_) < 100
    assert model.score(X, y) > 0.6


@pytest.mark.parametrize(
    "labels", [[("a", 1), ("b", 2)], ["a", 1], [(0,), "x"], [b"u", b"v"]], ids=repr
)
def test_score_and_cross_validation_take_the_labels_that_fit_takes(labels):
    X, y = blobs(2)
    named = np.empty(len(y), dtype=object)
    named[:] = [labels[k] for k in y]
    model = quick().fit(X, named)
    assert model.score(X, named) == pytest.approx(
        np.mean([a == b for a, b in zip(model.predict(X), named, strict=True)])
    )
    assert model.score(X, named) > 0.8
    assert model.score(X, np.array(["new"] * len(y), dtype=object)) == 0


def test_probit_scale_applies_to_the_next_call():
    X, y = blobs(3)
    model = quick(warm_start=True).fit(X, y)
    before = model.predict_proba(X).max(axis=1).mean()
    model.set_params(probit_scale=10.0, max_iter=0).fit(X, y)  # nothing is learned anew
    assert model.predict_proba(X).max(axis=1).mean() < before - 0.1


@pytest.mark.parametrize("classes", [[], 2, [0.0, 1.0, np.nan]])
def test_bad_classes_are_refused_by_name(classes):
    X, y = blobs(2)
    with pytest.raises(ValueError, match="classes"):
        quick().partial_fit(X, y, classes=classes)
