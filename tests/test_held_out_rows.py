"""Rows held out as the caller says: splitters, groups, and validation rows of their own."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sktagi._base
from sktagi import TAGIClassifier, TAGIRegressor

BOTH = pytest.mark.parametrize("estimator", [TAGIRegressor, TAGIClassifier])
GROUPS = np.repeat(np.arange(12), 10)


def make_data(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.normal(size=n)


def data_for(estimator, n=120, seed=0):
    X, y = make_data(n, seed)
    return X, y if estimator is TAGIRegressor else np.where(y > 0, "high", "low")


def quick(estimator=TAGIRegressor, **params):
    """Few epochs; the half-life does not depend on how many rows there are in all."""
    defaults = {
        "hidden_layer_sizes": (8,), "n_members": 3, "max_iter": 4, "half_life": 200.0,
        "random_state": 0,
    }  # fmt: skip
    return estimator(**{**defaults, **params})


def assert_same_posterior(model, other, rtol=1e-7):
    for mine, theirs in zip(
        [*model.coefs_, *model.coef_vars_, *model.intercepts_],
        [*other.coefs_, *other.coef_vars_, *other.intercepts_],
        strict=True,
    ):
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(model.sigma_v_, other.sigma_v_, rtol=max(rtol, 1e-12))


@pytest.fixture
def splits(monkeypatch):
    """The rows that members learn and hold out, of each fit: lists of pairs of sets."""
    found = []
    in_memory = sktagi._base.InMemory

    def spy(rows, order, validation, *others):
        pairs = zip(order, validation, strict=True)
        found.append(
            [(set(learned.tolist()) - {-1}, set(held.tolist())) for learned, held in pairs]
        )
        return in_memory(rows, order, validation, *others)

    monkeypatch.setattr(sktagi._base, "InMemory", spy)
    return found


# Splitters


@pytest.mark.parametrize(
    ("n_splits", "n_members", "folds"),
    [
        (5, 10, [0, 0, 1, 2, 3, 4, 0, 1, 2, 3]),
        (10, 4, [0, 0, 1, 2]),
        (2, 3, [0, 0, 1]),
        (3, 1, [0]),
    ],
)
def test_two_members_share_the_first_split_and_the_others_go_round(
    splits, n_splits, n_members, folds
):
    X, y = make_data()
    cv = KFold(n_splits)
    quick(n_members=n_members, cv=cv).fit(X, y)
    expected = [(set(train.tolist()), set(test.tolist())) for train, test in cv.split(X)]
    assert splits == [[expected[k] for k in folds]]


@BOTH
@pytest.mark.parametrize(
    "cv",
    [
        KFold(4), ShuffleSplit(3, random_state=0), TimeSeriesSplit(4), GroupKFold(4),
        GroupShuffleSplit(3, random_state=1), LeaveOneGroupOut(),
        PredefinedSplit(np.arange(120) % 4 - 1), 3, [(np.arange(60), np.arange(60, 90))],
    ],
    ids=lambda cv: type(cv).__name__,
)  # fmt: skip
def test_any_splitter_of_scikit_learn_will_do(estimator, cv):
    X, y = data_for(estimator)
    groups = GROUPS if "Group" in type(cv).__name__ else None
    model = quick(estimator, cv=cv).fit(X, y, groups=groups)
    assert model.score(X, y) > 0.5
    assert len(model.validation_scores_) == model.n_iter_


def test_no_member_learns_of_a_group_that_it_holds_out(splits):
    X, y = make_data()
    quick(n_members=8, cv=GroupKFold(5)).fit(X, y, groups=GROUPS)
    for learned, held in splits[0]:
        assert len(learned) + len(held) == 120
        assert not set(GROUPS[list(learned)]) & set(GROUPS[list(held)])


@BOTH
def test_a_number_is_that_of_the_folds_as_in_cross_validate(splits, estimator):
    X, y = data_for(estimator)
    quick(estimator, cv=3).fit(X, y)
    splitter = KFold(3) if estimator is TAGIRegressor else StratifiedKFold(3)
    quick(estimator, cv=splitter).fit(X, y)
    assert splits[0] == splits[1]


def test_a_member_does_not_learn_rows_after_those_it_holds_out():
    """Whatever comes later in time does not change the members of the first split."""
    X, y = make_data()
    params = {"cv": TimeSeriesSplit(3), "standardize": False, "sigma_v": 0.2}
    (first, held), *_ = TimeSeriesSplit(3).split(X)
    model = quick(**params).fit(X, y)
    later = y.copy()
    later[max(held) + 1 :] += 5
    other = quick(**params).fit(X, later)
    for mine, theirs in zip(model.coefs_, other.coefs_, strict=True):
        np.testing.assert_array_equal(mine[:2], theirs[:2])
        assert (mine[2] != theirs[2]).any()
    past = y.copy()
    past[first] += 5
    assert (quick(**params).fit(X, past).coefs_[0][0] != model.coefs_[0][0]).any()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("covariance_type", ["diag", "full"])
def test_members_that_learn_few_rows_learn_them_as_if_alone(shuffle, make, covariance_type):
    """The others learn more rows in the same epoch; batches without any are no evidence."""
    X, y = make_data()
    few, held = np.arange(20), np.arange(20, 40)
    params = {
        "covariance_type": covariance_type, "hidden_layer_sizes": (3,), "batch_size": 10,
        "standardize": False, "shuffle": False, "max_iter": 3,
    }  # fmt: skip
    many = [(few, held), (np.arange(120)[::-1][:100], np.arange(20))]
    together = quick(**params, cv=many).fit(make(X), y)
    alone = quick(**params, cv=[many[0]]).fit(make(X), y)
    for mine, theirs in zip(together.coefs_, alone.coefs_, strict=True):
        np.testing.assert_allclose(mine[:2], theirs[:2], rtol=1e-10)
    shuffled = quick(**{**params, "shuffle": shuffle}, cv=many).fit(make(X), y)
    assert np.isfinite(shuffled.predict(make(X))).all()


def test_a_frame_reaches_the_splitter_as_it_is():
    class ByPlant:
        def split(self, X, y=None, groups=None):
            for plant in X["plant"].unique():
                yield np.flatnonzero(X["plant"] != plant), np.flatnonzero(X["plant"] == plant)

    X, y = make_data()
    frame = pd.DataFrame(X, columns=["a", "b", "plant"])
    frame["plant"] = np.arange(120) % 4
    assert quick(cv=ByPlant()).fit(frame, y).score(frame, y) > 0.5


@BOTH
def test_rows_without_weight_keep_their_numbers_and_are_not_there(estimator):
    X, y = data_for(estimator)
    weight = np.ones(120)
    weight[::5] = 0
    kept = np.flatnonzero(weight)
    cv = PredefinedSplit(np.arange(120) % 3)
    weighted = quick(estimator, cv=cv).fit(X, y, sample_weight=weight)
    left_out = quick(estimator, cv=PredefinedSplit(kept % 3)).fit(X[kept], y[kept])
    assert_same_posterior(weighted, left_out)


def test_masks_are_row_numbers(splits):
    X, y = make_data()
    last = np.arange(120) >= 100
    quick(cv=[(~last, last)]).fit(X, y)
    assert splits[0][0] == (set(range(100)), set(range(100, 120)))


NUMBERS = np.arange(100)


class NoPairs:
    def split(self, X, y=None, groups=None):
        return [X, y]


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "cv could not split|cv gives no splits"),
        ([(NUMBERS, [])], "cv has no test rows"),
        ([([], NUMBERS)], "cv has no training rows"),
        ([(NUMBERS, [120])], "cv gives row numbers beyond"),
        ([(NUMBERS, [-1])], "cv gives row numbers beyond"),
        ([(NUMBERS, [99, 100])], "cv has rows that are training and test rows"),
        ([(NUMBERS, [100.5])], "cv must give row numbers"),
        ([(NUMBERS, [[100]])], "cv must give row numbers"),
        ([NUMBERS], "cv could not split"),
        ([5], "cv could not split"),
        (NoPairs(), "cv must give pairs"),
        (KFold(1000), "cv could not split"),
        (GroupKFold(3), "cv could not split the rows: .*groups"),
        (500, "cv could not split"),
    ],
)
def test_splits_that_cannot_be_are_refused_by_name(cv, message):
    X, y = make_data()
    model = quick(max_iter=1).fit(X, y)
    before = model.predict(X)
    model.set_params(cv=cv)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_a_split_of_rows_without_weight_is_refused():
    X, y = make_data()
    with pytest.raises(ValueError, match="cv has no test rows of positive weight in split 0"):
        quick(cv=KFold(4)).fit(X, y, sample_weight=np.arange(120) >= 30)


def test_a_target_that_no_training_row_observes_is_refused():
    X, y = make_data()
    Y = np.column_stack([y, y])
    Y[:60, 1] = np.nan
    with pytest.raises(ValueError, match=r"cv leaves targets .* no training row observes: \[1\]"):
        quick(cv=[(np.arange(60), np.arange(60, 120))]).fit(X, Y)


@pytest.mark.parametrize("n_groups", [119, 121])
def test_groups_must_be_as_many_as_rows(n_groups):
    X, y = make_data()
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        quick(cv=GroupKFold(3)).fit(X, y, groups=np.arange(n_groups) % 6)


@BOTH
def test_arguments_that_do_not_go_together_are_refused_by_name(estimator):
    X, y = data_for(estimator)
    refused = [
        ({}, {"groups": GROUPS}, "groups"),
        ({"cv": GroupKFold(3), "early_stopping": False}, {"groups": GROUPS}, r"\bcv\b"),
        ({"cv": KFold(3)}, {"X_val": X, "y_val": y}, r"\bcv\b.*X_val"),
        ({"early_stopping": False}, {"X_val": X, "y_val": y}, "X_val.*early_stopping"),
        ({}, {"X_val": X}, "X_val is given, but y_val"),
        ({}, {"y_val": y}, "y_val is given, but X_val"),
        ({}, {"sample_weight_val": 1}, "sample_weight_val"),
    ]
    for params, given, message in refused:
        with pytest.raises(ValueError, match=message):
            quick(estimator, **params).fit(X, y, **given)


@BOTH
def test_warm_starts_hold_out_the_same_rows_again(splits, estimator):
    X, y = data_for(estimator)
    model = quick(estimator, cv=GroupKFold(4), warm_start=True)
    model.fit(X, y, groups=GROUPS).fit(X, y, groups=GROUPS)
    assert splits[0] == splits[1]


@BOTH
def test_a_stream_holds_out_nothing_whatever_cv_says(estimator):
    X, y = data_for(estimator)
    classes = {} if estimator is TAGIRegressor else {"classes": ["high", "low"]}
    with_cv = quick(estimator, cv=GroupKFold(3)).partial_fit(X, y, **classes)
    assert_same_posterior(with_cv, quick(estimator).partial_fit(X, y, **classes), rtol=0)


def test_an_estimator_with_a_splitter_can_be_cloned_and_pickled():
    X, y = make_data()
    model = clone(quick(cv=GroupKFold(3))).fit(X, y, groups=GROUPS)
    again = pickle.loads(pickle.dumps(model))
    assert again.cv.n_splits == 3
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def panel(n_groups, seed):
    """Ten rows of each group, which has an effect of its own and features that identify it."""
    rng = np.random.default_rng(seed)
    of_group = rng.normal(size=(n_groups, 4))
    groups = np.repeat(np.arange(n_groups), 10)
    x = rng.uniform(-2, 2, size=len(groups))
    effect = rng.normal(size=n_groups)
    y = np.sin(x) + effect[groups] + 0.1 * rng.normal(size=len(groups))
    return np.column_stack([x, of_group[groups]]), y, groups


def test_groups_held_out_whole_make_predictions_of_new_groups_honest():
    X, y, groups = panel(80, seed=0)
    X_new, y_new, _ = panel(200, seed=100)
    params = {"n_members": 4, "random_state": 0}
    at_random = TAGIRegressor(**params).fit(X, y)
    by_group = TAGIRegressor(**params, cv=GroupKFold(4)).fit(X, y, groups=groups)
    coverage, width = [], []
    for model in (at_random, by_group):
        mean, std = model.predict(X_new, return_std=True)
        width.append(std.mean())
        coverage.append(np.mean(np.abs(y_new - mean) < 1.645 * std))
    assert width[1] > 1.4 * width[0]
    assert coverage[0] < 0.6
    assert coverage[1] > 0.75
    scores = [model.log_likelihood(X_new, y_new) for model in (at_random, by_group)]
    assert scores[1] > scores[0] + 1


# Validation rows of their own


@BOTH
@pytest.mark.parametrize("weighted", [False, True])
def test_validation_rows_are_as_rows_of_the_only_split(estimator, weighted):
    X, y = data_for(estimator)
    weight = np.random.default_rng(1).integers(1, 4, size=120) if weighted else np.ones(120)
    weight[[0, 100]] = 1
    learned, held = np.arange(90), np.arange(90, 120)
    given = quick(estimator).fit(
        X[learned], y[learned], sample_weight=weight[learned],
        X_val=X[held], y_val=y[held], sample_weight_val=weight[held],
    )  # fmt: skip
    split = quick(estimator, cv=[(learned, held)]).fit(X, y, sample_weight=weight)
    assert_same_posterior(given, split)
    np.testing.assert_allclose(given.validation_scores_, split.validation_scores_)
    assert given.n_samples_seen_ == 90
    if estimator is TAGIRegressor:
        (mean, std), expected = (m.predict(X, return_std=True) for m in (given, split))
        np.testing.assert_allclose((mean, std), expected)


@BOTH
def test_validation_rows_do_not_enter_the_statistics(estimator):
    """The prior predictive in the units of the training rows."""
    X, y = data_for(estimator)
    X_val, y_val = data_for(estimator, 40, seed=1)
    model = quick(estimator, max_iter=0)
    with_val = model.fit(X, y, X_val=1000 * X_val, y_val=y_val).predict(X)
    without = model.set_params(early_stopping=False).fit(X, y).predict(X)
    if estimator is TAGIRegressor:  # sums of rows and others of weight zero are rounded otherwise
        np.testing.assert_allclose(with_val, without, rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(with_val, without)


@BOTH
def test_every_member_learns_all_rows_and_holds_out_all_that_are_given(splits, estimator):
    X, y = data_for(estimator)
    quick(estimator).fit(X, y, X_val=X[:30], y_val=y[:30])
    assert splits == [[(set(range(120)), set(range(120, 150)))] * 3]


def test_validation_rows_tell_how_sure_to_be():
    """Of noisier rows, the noise that is reported is larger."""
    X, y = make_data(300)
    X_val, y_val = make_data(200, seed=1)
    noisy = y_val + np.random.default_rng(2).normal(size=200)
    clean, rough = (quick(max_iter=20).fit(X, y, X_val=X_val, y_val=v) for v in (y_val, noisy))
    std = rough.predict(X_val, return_std=True)[1]
    assert std.mean() > 2 * clean.predict(X_val, return_std=True)[1].mean()
    np.testing.assert_allclose(
        np.sqrt(np.mean((noisy - rough.predict(X_val)) ** 2)), std.mean(), rtol=0.2
    )


def test_validation_rows_may_have_another_form():
    X, y = make_data()
    X_val, y_val = make_data(40, seed=1)
    expected = quick().fit(X, y, X_val=X_val, y_val=y_val)
    for other in (X_val.tolist(), sparse.csc_array(X_val), sparse.coo_matrix(X_val)):
        assert_same_posterior(quick().fit(X, y, X_val=other, y_val=y_val.tolist()), expected, 1e-12)
    of_sparse = quick().fit(sparse.csr_array(X), y, X_val=sparse.csr_array(X_val), y_val=y_val)
    for other in (X_val, sparse.csr_matrix(X_val)):
        model = quick().fit(sparse.csr_array(X), y, X_val=other, y_val=y_val)
        assert_same_posterior(model, of_sparse, 1e-12)
    single = quick().fit(X.astype(np.float32), y, X_val=X_val, y_val=y_val)
    assert single.coefs_[0].dtype == np.float32
    columns = list("abc")
    frame, frame_val = (pd.DataFrame(rows, columns=columns) for rows in (X, X_val))
    assert_same_posterior(quick().fit(frame, y, X_val=frame_val, y_val=y_val), expected, 1e-12)
    with pytest.raises(ValueError, match=r"X_val and y_val do not fit.*feature names"):
        quick().fit(frame, y, X_val=frame_val[["b", "a", "c"]], y_val=y_val)


@pytest.mark.parametrize(
    ("X_val", "y_val", "message"),
    [
        (np.ones((5, 2)), np.ones(5), "X_val.*features"),
        (np.ones((5, 3)), np.ones(4), "X_val.*inconsistent"),
        (np.full((5, 3), np.inf), np.ones(5), "X_val.*infinity"),
        (np.ones((5, 3)), np.full(5, np.nan), "y_val.*NaN"),
        (np.ones((5, 3)), np.ones((5, 2)), "y_val.*targets"),
        (np.ones((0, 3)), np.ones(0), "X_val.*0 sample"),
        (np.ones(3), np.ones(3), "X_val.*2D"),
    ],
)
def test_validation_rows_are_checked_as_the_others_are(X_val, y_val, message):
    X, y = make_data()
    with pytest.raises(ValueError, match=f"(?s){message}"):
        quick().fit(X, y, X_val=X_val, y_val=y_val)


def test_a_class_that_only_validation_rows_have_is_refused():
    X, y = data_for(TAGIClassifier)
    with pytest.raises(ValueError, match=r"y_val.*not in classes.*'other'"):
        quick(TAGIClassifier).fit(X, y, X_val=X[:2], y_val=["high", "other"])
    model = quick(TAGIClassifier).fit(X, y, X_val=X[:20], y_val=np.repeat("high", 20))
    assert model.classes_.tolist() == ["high", "low"]


def test_targets_of_validation_rows_may_be_missing_in_part_but_not_all_of_a_row():
    X, y = make_data()
    Y = np.column_stack([y, -y])
    Y_val = Y[:40].copy()
    Y_val[::2, 0] = np.nan
    assert np.isfinite(quick().fit(X, Y, X_val=X[:40], y_val=Y_val).predict(X)).all()
    Y_val[0] = np.nan
    with pytest.raises(ValueError, match=r"y_val has rows with no observed target.*rows 0"):
        quick().fit(X, Y, X_val=X[:40], y_val=Y_val)


def test_weights_of_validation_rows():
    X, y = make_data()
    X_val, y_val = make_data(60, seed=1)
    weight = np.random.default_rng(0).integers(0, 4, size=60)

    def fit(rows, weight):
        return quick().fit(X, y, X_val=X_val[rows], y_val=y_val[rows], sample_weight_val=weight)

    weighted = fit(slice(None), weight)
    assert_same_posterior(weighted, fit(np.repeat(np.arange(60), weight), None))
    assert_same_posterior(weighted, fit(slice(None), 1000.0 * weight))
    np.testing.assert_allclose(
        weighted.predict(X, return_std=True)[1],
        fit(slice(None), 1e150 * weight).predict(X, True)[1],
    )
    for wrong in (-weight, weight[:-1], np.zeros(60)):
        with pytest.raises(ValueError, match="sample_weight_val"):
            fit(slice(None), wrong)


@pytest.mark.parametrize("n", [9, 10])
def test_copies_of_validation_rows_are_not_more_rows_to_learn_the_noise_from(n):
    """From ten rows on the noise is learned from them; nine rows three times are nine."""
    X, y = make_data()
    X_val, y_val = make_data(n, seed=1)
    once = quick().fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=np.r_[1, [3] * (n - 1)])
    several = np.repeat(np.arange(n), [1] + [3] * (n - 1))
    repeated = quick().fit(X, y, X_val=X_val[several], y_val=y_val[several])
    assert_same_posterior(once, repeated)


@pytest.mark.parametrize("X_std", [0.1, [0.1, 0.2, 0.3]])
def test_errors_of_all_rows_are_those_of_validation_rows_too(X_std):
    X, y = make_data()
    learned, held = np.arange(90), np.arange(90, 120)
    given = quick().fit(X[learned], y[learned], X_std=X_std, X_val=X[held], y_val=y[held])
    split = quick(cv=[(learned, held)]).fit(X, y, X_std=X_std)
    assert_same_posterior(given, split)


def test_errors_of_each_row_do_not_go_with_validation_rows():
    X, y = make_data()
    with pytest.raises(ValueError, match=r"X_std for each row.*X_val"):
        quick().fit(X, y, X_std=np.full(X.shape, 0.1), X_val=X, y_val=y)
    full = quick(covariance_type="full", hidden_layer_sizes=(2,))
    with pytest.raises(ValueError, match=r"X_cov for each row.*X_val"):
        full.fit(X, y, X_cov=np.tile(0.1 * np.eye(3), (120, 1, 1)), X_val=X, y_val=y)


# Metadata routing


@pytest.fixture
def _routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("_routing")
@BOTH
def test_groups_are_routed_through_cross_validation_search_and_pipeline(estimator, splits):
    X, y = data_for(estimator)
    model = quick(estimator, cv=GroupKFold(3)).set_fit_request(groups=True)
    pipe = make_pipeline(StandardScaler(), model)
    params = {"groups": GROUPS}
    outer = GroupKFold(2)
    scores = cross_validate(pipe, X, y, cv=outer, params=params)["test_score"]
    assert (scores > 0.3).all()
    search = GridSearchCV(pipe, {f"{pipe.steps[-1][0]}__max_iter": [2, 3]}, cv=outer)
    search.fit(X, y, groups=GROUPS)
    halves = [GROUPS[train] for train, _ in outer.split(X, y, GROUPS)]
    for number, members in enumerate(splits):
        groups = halves[number % 2] if number < 6 else GROUPS  # refitted at last
        for learned, held in members:
            assert not set(groups[list(learned)]) & set(groups[list(held)])


@pytest.mark.usefixtures("_routing")
@BOTH
def test_a_pipeline_transforms_validation_rows(estimator):
    X, y = data_for(estimator)
    X_val, y_val = data_for(estimator, 40, seed=1)
    model = quick(estimator, standardize=False).set_fit_request(X_val=True, y_val=True)
    pipe = make_pipeline(StandardScaler(), model, transform_input=["X_val"])
    pipe.fit(10 * X + 5, y, X_val=10 * X_val + 5, y_val=y_val)
    scaler = StandardScaler().fit(X)
    alone = quick(estimator, standardize=False).fit(
        scaler.transform(X), y, X_val=scaler.transform(X_val), y_val=y_val
    )
    assert_same_posterior(pipe[-1], alone)
