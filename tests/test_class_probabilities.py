"""Class probabilities, what is not known of them, weights of classes, codings, several labels."""

import pickle
import tracemalloc
from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from sktagi import TAGIClassifier
from sktagi.engine.tree import ClassTree
from sktagi.merging import fork, merge

SETTINGS = {"n_members": 3, "random_state": 0, "max_iter": 30}


def logistic_rows(n, seed=0):
    """Two classes; p = sigmoid(3 x) is the probability of the second."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 1))
    p = expit(3 * X[:, 0])
    return X, (rng.uniform(size=n) < p).astype(int), p


def blobs(n_classes, n=40, spread=0.3, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-3, 3, size=(n_classes, 2))
    y = np.arange(n * n_classes) % n_classes
    return centres[y] + spread * rng.normal(size=(len(y), 2)), y


# Probabilities that are known


def test_reported_probabilities_are_the_true_ones():
    X, y, _ = logistic_rows(4000)
    X_new, _, p = logistic_rows(2000, seed=1)
    model = TAGIClassifier(random_state=0).fit(X, y)
    found = model.predict_proba(X_new)[:, 1]
    assert np.sqrt(np.mean((found - p) ** 2)) < 0.025
    grid = np.linspace(-2, 2, 41)[:, None]
    at_grid = model.predict_proba(grid)[:, 1]
    assert (np.diff(at_grid) > -0.01).all()
    assert at_grid[0] < 0.02
    assert at_grid[-1] > 0.98


def test_std_holds_the_true_probability_and_falls_with_data():
    X_new, _, p = logistic_rows(1000, seed=7)
    means = []
    for n in (200, 3200):
        found, std = [], []
        for seed in range(3):
            X, y, _ = logistic_rows(n, seed=seed)
            model = TAGIClassifier(random_state=seed).fit(X, y)
            proba, of_proba = model.predict_proba(X_new, return_std=True)
            found.append(np.abs(proba[:, 1] - p) < 2 * of_proba[:, 1])
            std.append(of_proba[:, 1].mean())
        assert np.mean(found) > 0.75
        means.append(np.mean(std))
    assert means[1] < means[0] * 16**-0.4


def test_what_is_by_chance_stays_and_what_is_unknown_falls():
    X_new = np.array([[0.0]])  # nobody can tell the class
    parts = []
    for n in (100, 4000):
        X, y, _ = logistic_rows(n)
        parts.append(np.ravel(TAGIClassifier(random_state=0).fit(X, y).predict_entropy(X_new)))
    (few_unknown, few_chance), (many_unknown, many_chance) = parts
    assert many_unknown < 0.3 * few_unknown
    assert few_chance == pytest.approx(np.log(2), abs=0.1)
    assert many_chance == pytest.approx(np.log(2), abs=0.02)


@pytest.mark.parametrize("kind", ["two", "softmax", "tree", "labels", "paper", "float32"])
def test_entropies_add_up(kind):
    X, y = blobs(2 if kind == "two" else 5)
    params = {"tree": {"class_coding": "tree"}, "paper": {"sigma_v": 0.3}}.get(kind, {})
    if kind == "labels":
        y = np.stack([y == 0, y < 2, y > 3], axis=1).astype(int)
    X = X.astype(np.float32) if kind == "float32" else X
    model = TAGIClassifier(**SETTINGS, **params).fit(X, y)
    epistemic, aleatoric = model.predict_entropy(X)
    proba = model.predict_proba(X).astype(np.float64)
    if kind == "labels":
        proba = np.stack([proba, 1 - proba], axis=-1)
    expected = -(proba * np.log(np.maximum(proba, 1e-300))).sum(axis=-1)
    tolerance = 1e-5 if kind == "float32" else 1e-10
    np.testing.assert_allclose(epistemic + aleatoric, expected, atol=tolerance)
    assert (epistemic >= 0).all()
    assert (aleatoric >= 0).all()
    assert epistemic.dtype == X.dtype


def test_unlike_rows_are_not_classified_with_confidence():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, train_size=900, random_state=0)
    model = TAGIClassifier(n_members=5, max_iter=40, random_state=0).fit(X_train, y_train)
    noise = np.random.default_rng(0).uniform(0, 16, size=(300, 64))
    assert model.predict_proba(X_test).max(axis=1).mean() > 0.9
    for unlike in (noise, 16 - X_test):
        assert model.predict_proba(unlike).max(axis=1).mean() < 0.3
        assert model.predict_entropy(unlike)[0].mean() > 1


def test_rows_that_are_equal_but_for_their_class_are_not_held_out_together():
    """A table of two binary features: what is held out must not say that a class is impossible."""
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(1500, 2)).astype(float)
    p = 0.2 + 0.3 * X[:, 0] + 0.2 * X[:, 1]
    y = (rng.uniform(size=1500) < p).astype(int)
    model = TAGIClassifier(random_state=0).fit(X, y)
    cells = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    shares = [y[(cell == X).all(axis=1)].mean() for cell in cells]
    np.testing.assert_allclose(model.predict_proba(cells)[:, 1], shares, atol=0.03)


def test_wrong_labels_make_less_sure():
    X, y = blobs(3, n=150)
    wrong = np.random.default_rng(1).uniform(size=len(y)) < 0.2
    flipped = np.where(wrong, (y + 1) % 3, y)
    model = TAGIClassifier(random_state=0).fit(X, flipped)
    top = model.predict_proba(X).max(axis=1).mean()
    assert 0.7 < top < 0.9
    assert model.score(X, y) > 0.97


# Codings


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7])
@pytest.mark.parametrize("coding", ["auto", "tree", "one_of_k"])
@pytest.mark.parametrize("sigma_v", ["auto", 0.3])
def test_every_coding_learns(n_classes, coding, sigma_v):
    X, y = blobs(n_classes)
    model = TAGIClassifier(**SETTINGS, class_coding=coding, sigma_v=sigma_v).fit(X, y)
    assert model.score(X, y) > 0.8
    proba, std = model.predict_proba(X, return_std=True)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (std >= 0).all()
    assert np.isfinite(std).all()
    assert model.sigma_v_ > 0
    is_tree = coding == "tree" or (coding == "auto" and sigma_v != "auto")
    nodes = ClassTree(n_classes).n_outputs
    assert model.n_outputs_ == (nodes if is_tree or n_classes < 3 else n_classes)


def test_two_classes_are_one_output_in_any_coding():
    X, y = blobs(2, spread=1.5)
    found = [
        TAGIClassifier(**SETTINGS, class_coding=coding).fit(X, y).predict_proba(X)
        for coding in ("auto", "tree", "one_of_k")
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


def test_names_of_classes_do_not_matter_but_for_their_prior():
    """With equal parameters for equal classes, permuted labels give permuted probabilities."""
    X, y = blobs(5, spread=1.0)
    losses = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(5)
        model = TAGIClassifier(**SETTINGS).fit(X, order[y])
        losses.append(log_loss(order[y], model.predict_proba(X)))
    seeds = [
        log_loss(y, TAGIClassifier(**{**SETTINGS, "random_state": seed}).fit(X, y).predict_proba(X))
        for seed in range(1, 4)
    ]
    assert np.ptp(losses) < 0.05 + np.ptp(seeds)


def test_members_have_different_trees():
    X, y = blobs(6)
    model = TAGIClassifier(**SETTINGS, class_coding="tree").fit(X, y)
    order = model._net.outputs.order
    np.testing.assert_array_equal(order[0], np.arange(6))  # the paper's
    assert (order[1] != order[2]).any()
    assert (np.sort(order, axis=1) == np.arange(6)).all()
    assert TAGIClassifier(n_members=1, class_coding="tree").fit(X, y)._net.outputs.order is None
    # The probabilities of each member alone, put together by hand.
    mu, var = next(model._moments(X, None, None))
    trees = [model._net.outputs.members(m) for m in range(3)]
    alone = [np.exp(t.log_proba(mu[m], var[m])) for m, t in enumerate(trees)]
    np.testing.assert_allclose(model.predict_proba(X), np.mean(alone, axis=0).T, rtol=1e-9)


@pytest.mark.parametrize("covariance_type", ["diag", "full"])
@pytest.mark.parametrize("form", ["dense", "sparse", "stream"])
def test_trees_of_members_learn_in_all_ways(covariance_type, form):
    X, y = blobs(5)
    params = {
        "hidden_layer_sizes": (6,),
        "class_coding": "tree",
        "covariance_type": covariance_type,
    }
    model = TAGIClassifier(**{**SETTINGS, "max_iter": 15}, **params)
    if form == "stream":
        for start in range(0, 200, 20):
            model.partial_fit(X[start : start + 20], y[start : start + 20], classes=range(5))
    else:
        model.fit(sparse.csr_array(X) if form == "sparse" else X, y)
    assert model.score(X, y) > 0.6


def test_a_coding_cannot_change_in_a_fit_that_goes_on():
    X, y = blobs(4)
    model = TAGIClassifier(**SETTINGS).fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="class_coding"):
        model.set_params(class_coding="tree").partial_fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), before)
    model.set_params(class_coding="one_of_k").partial_fit(X, y)


def test_many_classes_are_learned():
    X, y = blobs(60, n=12, spread=0.02)
    model = TAGIClassifier(n_members=2, max_iter=60, random_state=0).fit(X, y)
    assert model.n_outputs_ == 60
    assert model.score(X, y) > 0.9
    assert model.log_likelihood(X, y) > -0.5


def test_independent_batches_of_many_classes_need_little_memory():
    """One covariance of the rows serves all classes where the sum of rows would overshoot."""
    X, y = blobs(40, n=4)
    model = TAGIClassifier(
        n_members=4, max_iter=2, batch_size=160, batch_inference="independent", random_state=0,
        early_stopping=False,
    )  # fmt: skip
    tracemalloc.start()
    try:
        model.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 40 * 160**2 * 8 / 2  # half of a matrix for each class
    assert model.score(X, y) > 1.5 / 40


# Weights of classes


def test_balanced_weights_are_those_of_the_rows():
    X, y = blobs(3, spread=1.5)
    rows = np.concatenate([np.flatnonzero(y == k)[: 30 // (k + 1)] for k in range(3)])
    X, y = X[rows], y[rows]
    counts = np.bincount(y)
    weights = (len(y) / (3 * counts))[y]
    model = TAGIClassifier(**SETTINGS, class_weight="balanced").fit(X, y)
    expected = TAGIClassifier(**SETTINGS).fit(X, y, weights)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-9)
    as_dict = dict(enumerate(len(y) / (3 * counts)))
    again = TAGIClassifier(**SETTINGS, class_weight=as_dict).fit(X, y)
    np.testing.assert_allclose(again.predict_proba(X), expected.predict_proba(X), rtol=1e-9)


def test_class_weight_multiplies_sample_weight():
    X, y = blobs(2, spread=1.5)
    sample_weight = np.random.default_rng(0).uniform(0.5, 2, size=len(y))
    labels = np.array(["no", "yes"])[y]
    model = TAGIClassifier(**SETTINGS, class_weight={"yes": 3.0})
    model.fit(X, labels, sample_weight)
    expected = TAGIClassifier(**SETTINGS).fit(X, labels, sample_weight * np.where(y, 3.0, 1.0))
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-9)


def test_class_weight_in_a_stream_is_a_dict():
    X, y = blobs(2, spread=1.5)
    with pytest.raises(ValueError, match="class_weight='balanced'"):
        TAGIClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    weighted = TAGIClassifier(**SETTINGS, class_weight={1: 3.0}).partial_fit(X, y, classes=[0, 1])
    expected = TAGIClassifier(**SETTINGS)
    expected.partial_fit(X, y, [0, 1], np.where(y, 3.0, 1.0))
    np.testing.assert_allclose(weighted.predict_proba(X), expected.predict_proba(X), rtol=1e-9)


def test_balanced_weights_never_continue_in_a_stream():
    X, y = blobs(3, spread=1.5)
    for before in ("balanced", {0: 5.0}):
        model = TAGIClassifier(**SETTINGS, class_weight=before).fit(X, y)
        with pytest.raises(ValueError, match="class_weight='balanced'"):
            model.set_params(class_weight="balanced").partial_fit(X, y)


@pytest.mark.parametrize("times", [0, 2])
def test_balanced_weights_count_rows_as_they_weigh(times):
    X, y = blobs(3, spread=1.5)
    weight = np.where(np.arange(len(y)) < 50, times, 1)
    rows = np.repeat(np.arange(len(y)), weight)
    params = {**SETTINGS, "class_weight": "balanced", "batch_size": 1000, "shuffle": False}
    model = TAGIClassifier(**params).fit(X, y, weight)
    expected = TAGIClassifier(**params).fit(X[rows], y[rows])
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-8)


def test_weights_that_leave_nothing_are_refused():
    X, y = blobs(3)
    with pytest.raises(ValueError, match="class_weight leaves no row"):
        TAGIClassifier(class_weight={0: 0, 1: 0, 2: 0}).fit(X, y)
    with pytest.raises(ValueError, match="class_weight times sample_weight"):
        TAGIClassifier(class_weight={0: 1e300}).fit(X, y, np.full(len(y), 1e20))
    model = TAGIClassifier(**SETTINGS, class_weight={2: 0.0}).partial_fit(X, y, range(3))
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="class_weight leaves no row"):
        model.partial_fit(X[y == 2], y[y == 2])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_class_that_has_no_weight_is_not_learned():
    X, y = blobs(3)
    model = TAGIClassifier(**SETTINGS, class_weight={2: 0.0}).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.predict_proba(X[y != 2])[:, 2].max() < 0.2


def test_labels_that_are_not_classes_are_named():
    X, y = blobs(2)
    with pytest.raises(ValueError, match="class_weight has labels that are not classes"):
        TAGIClassifier(class_weight={0: 1.0, "one": 2.0}).fit(X, y)
    TAGIClassifier(**SETTINGS, class_weight={0: 1.0, 1: 2.0, 2: 3.0}).fit(X, y)  # as in a fold


def test_balanced_weights_hold_for_validation_rows_too():
    X, y = blobs(2, spread=1.5)
    rows = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:8]]
    model = TAGIClassifier(**SETTINGS, class_weight="balanced")
    model.fit(X[rows], y[rows], X_val=X, y_val=y)
    weight = np.where(y == 0, 48 / 80, 48 / 16)
    expected = TAGIClassifier(**SETTINGS)
    expected.fit(X[rows], y[rows], weight[rows], X_val=X, y_val=y, sample_weight_val=weight)
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-9)


# Several labels


def labelled(n=400, seed=0):
    return make_multilabel_classification(
        n_samples=n, n_features=8, n_classes=4, random_state=seed, allow_unlabeled=True
    )


def test_several_labels_are_learned():
    X, Y = labelled(800)
    model = TAGIClassifier(n_members=5, random_state=0).fit(X[:600], Y[:600])
    X_new, Y_new = X[600:], Y[600:]
    proba, std = model.predict_proba(X_new, return_std=True)
    assert proba.shape == std.shape == Y_new.shape
    predicted = model.predict(X_new)
    np.testing.assert_array_equal(predicted, (proba > 0.5).astype(int))
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.score(X_new, Y_new) == np.mean((predicted == Y_new).all(axis=1))
    each = [
        LogisticRegression(max_iter=1000).fit(X[:600], Y[:600, k]).score(X_new, Y_new[:, k])
        for k in range(4)
    ]
    assert np.mean(predicted == Y_new) > np.mean(each) - 0.03
    expected = np.log(np.where(Y_new, proba, 1 - proba)).sum(axis=1).mean()
    assert model.log_likelihood(X_new, Y_new) == pytest.approx(expected)


@pytest.mark.parametrize(
    "how", ["lists", "sparse", "bool", "float32", "sparse X", "full", "X_std", "weights"]
)
def test_several_labels_in_all_ways(how):
    X, Y = labelled(200)
    model = TAGIClassifier(**{**SETTINGS, "max_iter": 10}, hidden_layer_sizes=(8,))
    given, target, others = X, Y, {}
    if how == "lists":
        target = Y.tolist()
    elif how == "sparse":
        target = sparse.csr_array(Y)
    elif how == "bool":
        target = Y.astype(bool)
    elif how == "float32":
        given = X.astype(np.float32)
    elif how == "sparse X":
        given = sparse.csr_array(X)
    elif how == "full":
        model.set_params(covariance_type="full")
    elif how == "X_std":
        others["X_std"] = 0.1
    elif how == "weights":
        others["sample_weight"] = np.linspace(0.5, 2, 200)
    proba = model.fit(given, target, **others).predict_proba(given)
    assert proba.shape == Y.shape
    assert np.mean((proba > 0.5) == Y) > 0.7
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(given), proba)


def test_labels_of_another_number_are_not_scored():
    X, Y = labelled(100)
    model = TAGIClassifier(**{**SETTINGS, "max_iter": 2}).fit(X, Y)
    for score in (model.score, model.log_likelihood):
        for n_labels in (1, 2):
            with pytest.raises(ValueError, match=f"y has {n_labels} labels, 4 are fitted"):
                score(X, Y[:, :n_labels])
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            score(X, Y[:10])


def test_tags_say_that_there_may_be_several_labels():
    assert TAGIClassifier().__sklearn_tags__().classifier_tags.multi_label


def test_several_labels_in_a_stream():
    X, Y = labelled(400)
    model = TAGIClassifier(**SETTINGS)
    for start in range(0, 400, 50):
        model.partial_fit(X[start : start + 50], Y[start : start + 50])
    assert np.mean(model.predict(X) == Y) > 0.75
    with pytest.raises(ValueError, match="2 labels, 4 are fitted"):
        model.partial_fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="indicator matrix"):
        model.partial_fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="classes must be the numbers of the columns"):
        TAGIClassifier(**SETTINGS).partial_fit(X, Y, classes=[3, 4])
    TAGIClassifier(**SETTINGS).partial_fit(X, Y, classes=range(4))


@pytest.mark.parametrize("bad", [2, 0.5, np.nan])
def test_an_indicator_matrix_has_zeros_and_ones(bad):
    X, Y = labelled(50)
    Y = Y.astype(float)
    Y[3, 1] = bad
    with pytest.raises(ValueError, match="indicator matrix"):
        TAGIClassifier(**SETTINGS).fit(X, Y)


def test_class_weight_is_not_for_several_labels():
    X, Y = labelled(50)
    with pytest.raises(ValueError, match="class_weight"):
        TAGIClassifier(class_weight="balanced").fit(X, Y)


def test_estimators_of_several_labels_can_be_merged():
    X, Y = labelled(300)
    start = fork(TAGIClassifier(**SETTINGS).fit(X[:100], Y[:100]))
    parts = [deepcopy(start).partial_fit(X[k::2], Y[k::2]) for k in range(2)]
    merged = merge(parts)
    assert np.mean(merged.predict(X) == Y) > 0.75


# Streams


def test_a_label_outside_the_classes_is_refused_with_a_way_out():
    X, y = blobs(2)
    model = TAGIClassifier(**SETTINGS).partial_fit(X, y, classes=[0, 1, "spare"])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"not in classes.*spare"):
        model.partial_fit(X, y + 5)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_stream_is_calibrated_by_its_own_predictions():
    """Single rows of a clear function: probabilities that are too cautious become sharper."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = (X[:, 0] > 0).astype(int)
    model = TAGIClassifier(n_members=2, random_state=0)
    for row in range(600):
        model.partial_fit(X[row : row + 1], y[row : row + 1], classes=[0, 1])
    slope = model._net.calibration.slope
    assert slope > 1.05
    calibrated = model.log_likelihood(X, y)
    model._net.calibration = model._net.calibration._replace(slope=1.0)
    assert calibrated > model.log_likelihood(X, y)


def test_calibrations_of_shards_meet_in_the_middle():
    X, y = blobs(3, spread=1.0)
    start = fork(TAGIClassifier(**SETTINGS).fit(X, y))
    parts = [deepcopy(start).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    slopes = [part._net.calibration.slope for part in parts]
    merged = merge(parts)._net.calibration
    assert merged.slope == pytest.approx(np.sqrt(np.prod(slopes)))
    np.testing.assert_allclose(
        merged.slope_scores, np.mean([p._net.calibration.slope_scores for p in parts], axis=0)
    )


def test_scores_of_slopes_do_not_grow_by_merging():
    X, y = blobs(3, spread=1.0)
    start = TAGIClassifier(**SETTINGS).fit(X, y)
    before = start._net.calibration
    again = start
    for _ in range(5):
        again = merge([deepcopy(fork(again)) for _ in range(3)])
    np.testing.assert_allclose(again._net.calibration.slope_scores, before.slope_scores)
    assert again._net.calibration.slope == pytest.approx(before.slope)
