"""Noise that differs from row to row, as users see it."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone

from sktagi import TAGIRegressor
from sktagi.merging import fork, merge

# A few seconds in all: small networks, few members.
QUICK = {"hidden_layer_sizes": (20,), "n_members": 3, "max_iter": 40, "random_state": 0}


def quick(**params):
    return TAGIRegressor(**{**QUICK, **params})


def noise_of(X):
    """Standard deviations: 0.1 on the left, from there rising to 1.1."""
    return np.where(X[:, 0] < 0, 0.1, 0.1 + X[:, 0] / 3)


def truth(X):
    return np.sin(2 * X[:, 0]) + 0.3 * X[:, 1]


def make_rows(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, size=(n, 2))
    return X, truth(X) + noise_of(X) * rng.normal(size=n)


HALF_LIFE = 280.0  # rows: as many as (20,) has parameters, times those there are, rooted


@pytest.fixture(scope="module", params=["alike", "kinds"])
def fitted(request):
    if request.param == "alike":
        return quick(half_life=HALF_LIFE).fit(*make_rows())
    return quick(hidden_layer_sizes="auto", max_iter="auto").fit(*make_rows())


NEW = make_rows(3000, seed=1)


# ------------------------------------------------------------------------------------ the gain


def test_the_default_is_far_ahead_of_constant_noise_where_the_noise_varies():
    """The truth itself scores 0.08."""
    X, y = make_rows()
    varying, constant = (
        TAGIRegressor(random_state=0, sigma_v=s, n_members=5).fit(X, y)
        for s in ("auto", "constant")
    )
    ideal = stats.norm.logpdf(NEW[1], truth(NEW[0]), noise_of(NEW[0])).mean()
    assert varying.log_likelihood(*NEW) > constant.log_likelihood(*NEW) + 0.3
    assert varying.log_likelihood(*NEW) > ideal - 0.25
    rmse = [np.sqrt(np.mean((m.predict(NEW[0]) - truth(NEW[0])) ** 2)) for m in (varying, constant)]
    assert rmse[0] < 1.1 * rmse[1]


def test_the_std_follows_the_noise(fitted):
    std = fitted.predict(NEW[0], return_std=True)[1]
    assert np.corrcoef(np.log(std), np.log(noise_of(NEW[0])))[0, 1] > 0.85
    left, right = NEW[0][:, 0] < -0.5, NEW[0][:, 0] > 2
    assert np.median(std[left]) < 0.3
    assert np.median(std[right]) == pytest.approx(0.93, rel=0.35)


def test_intervals_cover_in_each_part_of_the_range(fitted):
    X, y = NEW
    low, high = fitted.predict_interval(X, 0.9).T
    inside = (low <= y) & (y <= high)
    for start in (-3, -1.5, 0, 1.5):
        part = (X[:, 0] >= start) & (X[:, 0] < start + 1.5)
        assert inside[part].mean() == pytest.approx(0.9, abs=0.1)


# ------------------------------------------------------------------------- parts of the variance


def test_the_noise_part_of_the_variance_varies_and_both_parts_add_up(fitted):
    X = NEW[0]
    epistemic, aleatoric = fitted.predict_variance(X)
    std = fitted.predict(X, return_std=True)[1]
    np.testing.assert_allclose(epistemic + aleatoric, std**2, rtol=1e-12)
    assert aleatoric.max() > 10 * aleatoric.min() > 0
    assert np.corrcoef(np.log(aleatoric), np.log(noise_of(X)))[0, 1] > 0.85


@pytest.mark.parametrize("sigma_v", ["constant", 0.4])
def test_constant_noise_is_the_same_in_all_rows(sigma_v):
    model = quick(sigma_v=sigma_v, max_iter=10).fit(*make_rows(300))
    _, aleatoric = model.predict_variance(NEW[0])
    assert np.ptp(aleatoric) == 0
    scale = model._scaling.y.scale[0]
    np.testing.assert_allclose(np.sqrt(aleatoric), model.sigma_v_ * scale, rtol=1e-12)


def test_noise_that_is_constant_stays_nearly_constant():
    rng = np.random.default_rng(0)
    ratios = []
    for seed in range(4):
        X = rng.uniform(-3, 3, size=(300, 2))
        model = quick(random_state=seed, max_iter=20).fit(X, truth(X) + 0.3 * rng.normal(size=300))
        _, aleatoric = model.predict_variance(X)
        ratios.append(np.log(aleatoric).std())
    assert np.median(ratios) < 0.1


def test_samples_quantiles_and_likelihoods_follow_the_noise_of_the_row(fitted):
    X = np.array([[-2.0, 0.0], [2.5, 0.0]])
    mean, std = fitted.predict(X, return_std=True)
    assert std[1] > 2 * std[0]
    draws = fitted.sample_y(X, 20_000)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.1)
    quantiles = fitted.predict_quantiles(X, [0.1, 0.9])
    width = (quantiles[:, 1] - quantiles[:, 0]) / std
    np.testing.assert_allclose(width[1], width[0], rtol=1e-9)
    dist = fitted.predict_dist(X)
    assert fitted.log_likelihood(X, mean) == pytest.approx(dist.logpdf(mean).mean())


# ------------------------------------------------------------------------------ kinds of data


def test_each_target_has_noise_of_its_own():
    X, y = make_rows()
    rng = np.random.default_rng(5)
    Y = np.column_stack([y, truth(X) + 0.3 * rng.normal(size=len(X))])
    model = quick().fit(X, Y)
    _, aleatoric = model.predict_variance(NEW[0])
    assert aleatoric[:, 0].max() > 10 * aleatoric[:, 0].min()
    assert aleatoric[:, 1].max() < 2 * aleatoric[:, 1].min()
    assert model.sigma_v_.shape == (2,)


def test_a_target_that_is_not_always_observed_has_its_noise_too():
    X, y = make_rows(800)
    Y = np.column_stack([y, y])
    Y[::3, 0] = np.nan
    model = quick(hidden_layer_sizes="auto", max_iter="auto").fit(X, Y)
    _, aleatoric = model.predict_variance(NEW[0])
    for values in aleatoric.T:
        assert np.corrcoef(np.log(values), np.log(noise_of(NEW[0])))[0, 1] > 0.8


def sparse_rows(n=600, seed=0):
    """One feature says whether the noise is large."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.5, 1.5, size=(n, 6)) * (rng.random((n, 6)) < 0.4)
    noise = np.where(X[:, 0] > 0, 1.0, 0.1)
    return X, X[:, 1] - X[:, 2] + noise * rng.normal(size=n), noise


def test_sparse_rows_have_noise_that_varies():
    X, y, noise = sparse_rows()
    model = quick(max_iter=15).fit(sparse.csr_array(X), y)
    new, _, noise = sparse_rows(seed=1)
    _, aleatoric = model.predict_variance(sparse.csr_array(new))
    loud = noise > 0.5
    assert np.median(aleatoric[loud]) > 8 * np.median(aleatoric[~loud])
    np.testing.assert_allclose(
        model.predict_variance(new), model.predict_variance(sparse.csr_array(new)), rtol=1e-9
    )


def test_single_precision_says_the_same():
    X, y = make_rows(600)
    single = quick().fit(X.astype(np.float32), y)
    mean, std = single.predict(NEW[0].astype(np.float32), return_std=True)
    parts = single.predict_variance(NEW[0].astype(np.float32))
    assert mean.dtype == std.dtype == np.float32
    assert {a.dtype for a in parts} == {np.dtype(np.float64)}  # squares may be beyond the other
    assert np.corrcoef(np.log(std), np.log(noise_of(NEW[0])))[0, 1] > 0.7


def test_errors_of_features_add_to_the_variance_of_the_network_alone(fitted):
    X = NEW[0][:200]
    epistemic, aleatoric = fitted.predict_variance(X)
    wider, same = fitted.predict_variance(X, X_std=0.3)
    assert (wider > epistemic).mean() > 0.95
    np.testing.assert_array_equal(same, aleatoric)
    model = quick(max_iter=10).fit(*make_rows(300), X_std=0.05)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_full_covariances_have_noise_that_varies():
    X, _ = make_rows(400)
    y = X[:, 0] + noise_of(X) * np.random.default_rng(3).normal(size=400)
    params = {"covariance_type": "full", "hidden_layer_sizes": (4,), "n_members": 2, "max_iter": 6}
    model = quick(**params).fit(X, y)
    _, aleatoric = model.predict_variance(NEW[0])
    assert np.corrcoef(np.log(aleatoric), np.log(noise_of(NEW[0])))[0, 1] > 0.8


@pytest.mark.parametrize("sigma_v", ["auto", "constant"])
def test_weight_two_is_the_row_twice(sigma_v):
    X, y = make_rows(300)
    X_val, y_val = make_rows(100, seed=7)
    params = {"shuffle": False, "half_life": 500.0, "max_iter": 8, "sigma_v": sigma_v,
              "batch_size": 350, "hidden_layer_sizes": (8,), "n_members": 2}  # fmt: skip
    heavy = np.repeat([2.0, 1.0], [50, 250])
    weighted = quick(**params).fit(X, y, sample_weight=heavy, X_val=X_val, y_val=y_val)
    rows = np.append(np.arange(50), np.arange(300))
    twice = quick(**params).fit(X[rows], y[rows], X_val=X_val, y_val=y_val)
    if sigma_v == "auto":
        assert np.ptp(twice.predict_variance(X)[1]) > 0
    for mine, theirs in zip(
        weighted.predict(NEW[0], return_std=True), twice.predict(NEW[0], return_std=True),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("factor", [3.0, 1e-3])
def test_units_do_not_matter(factor):
    X, y = make_rows(300)
    one = quick(max_iter=10).fit(X, y).predict(X, return_std=True)
    of_y = quick(max_iter=10).fit(X, factor * y).predict(X, return_std=True)
    of_X = quick(max_iter=10).fit(factor * X, y).predict(factor * X, return_std=True)
    for expected, scaled, same in zip(one, of_y, of_X, strict=True):
        np.testing.assert_allclose(scaled, factor * expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(same, expected, rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------------------------- outliers


def test_outliers_of_the_target_hardly_change_what_is_said_of_others():
    """One row in a hundred is off by a hundred standard deviations."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, size=(1000, 2))
    y = truth(X) + 0.3 * rng.normal(size=1000)
    off = y.copy()
    off[rng.choice(1000, 10, replace=False)] += 30 * rng.choice([-1, 1], size=10)
    errors, stds = [], []
    for target in (y, off):
        mean, std = quick().fit(X, target).predict(NEW[0], return_std=True)
        errors.append(np.sqrt(np.mean((mean - truth(NEW[0])) ** 2) + 0.3**2))  # of new targets
        stds.append(np.median(std))
    assert stds[1] == pytest.approx(stds[0], rel=0.25)
    assert errors[1] < 1.25 * errors[0]


# ------------------------------------------------------------------------- files, clones, states


def test_a_model_is_the_same_after_pickling(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    for mine, theirs in zip(
        again.predict_variance(NEW[0]), fitted.predict_variance(NEW[0]), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    again.partial_fit(*make_rows(50, seed=3))
    other = deepcopy(fitted).partial_fit(*make_rows(50, seed=3))
    np.testing.assert_array_equal(again.predict(NEW[0]), other.predict(NEW[0]))


def test_fits_with_one_seed_are_equal():
    X, y = make_rows(200)
    one = quick(max_iter=5).fit(X, y)
    other = clone(one).fit(X, y)
    for mine, theirs in zip(one.predict_variance(X), other.predict_variance(X), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_noise_that_was_learned_can_be_made_constant_or_fixed(fitted):
    X, y = make_rows(100, seed=4)
    constant = deepcopy(fitted).set_params(sigma_v="constant").partial_fit(X, y)
    assert np.ptp(constant.predict_variance(NEW[0])[1]) == 0
    fixed = deepcopy(fitted).set_params(sigma_v=0.5).partial_fit(X, y)
    scale = fixed._scaling.y.scale[0]
    np.testing.assert_allclose(fixed.predict_variance(NEW[0])[1], (0.5 * scale) ** 2, rtol=1e-12)


def test_predicting_changes_nothing(fitted):
    before = pickle.dumps(fitted)
    fitted.predict(NEW[0], return_std=True)
    fitted.predict_dist(NEW[0])
    assert pickle.dumps(fitted) == before


# ------------------------------------------------------------------------------ no epochs, more


@pytest.mark.parametrize("sigma_v", ["auto", "constant"])
def test_without_epochs_the_noise_is_that_of_the_prior(sigma_v):
    X, y = make_rows(100)
    model = quick(max_iter=0, sigma_v=sigma_v).fit(X, y)
    assert model.n_iter_ == 0
    assert np.ptp(model.predict_variance(X)[1]) == 0
    assert model.sigma_v_ == 1


@pytest.mark.parametrize("max_iter", [1, 2, 3])
def test_few_epochs_are_as_many_as_asked_for(max_iter):
    model = quick(max_iter=max_iter).fit(*make_rows(200))
    assert model.n_iter_ == len(model.train_scores_) == len(model.validation_scores_) == max_iter
    assert (model.predict(NEW[0], return_std=True)[1] > 0).all()


def test_a_warm_start_goes_on_with_noise_that_varies():
    X, y = make_rows(600)
    model = quick(max_iter=20, warm_start=True).fit(X, y)
    before = model.log_likelihood(*NEW)
    for _ in range(2):
        model.fit(X, y)
    assert model.log_likelihood(*NEW) > before - 0.05
    _, aleatoric = model.predict_variance(NEW[0])
    assert np.corrcoef(np.log(aleatoric), np.log(noise_of(NEW[0])))[0, 1] > 0.7
    same = model.predict(NEW[0], return_std=True)
    model.set_params(max_iter=0).fit(X, y)
    for mine, theirs in zip(model.predict(NEW[0], return_std=True), same, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


# -------------------------------------------------------------------------------------- streams


def test_a_stream_finds_noise_that_depends_on_the_row():
    X, y = make_rows(3000, seed=6)
    models = [quick(n_members=2, sigma_v=s) for s in ("auto", "constant")]
    scores = np.zeros((2, 30))
    for number in range(30):
        part = slice(100 * number, 100 * number + 100)
        for model, score in zip(models, scores, strict=True):
            if number:
                score[number] = model.log_likelihood(X[part], y[part])
            model.partial_fit(X[part], y[part])
    assert scores[0, 20:].mean() > scores[1, 20:].mean() + 0.15
    _, aleatoric = models[0].predict_variance(NEW[0])
    assert np.corrcoef(np.log(aleatoric), np.log(noise_of(NEW[0])))[0, 1] > 0.8


def test_a_stream_of_constant_noise_reports_it():
    rng = np.random.default_rng(0)
    model = quick(n_members=2)
    for _ in range(30):
        X = rng.uniform(-1.5, 1.5, size=(50, 2))
        model.partial_fit(X, X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.normal(size=50))
    scale = model._scaling.y.scale[0]
    assert model.sigma_v_ * scale == pytest.approx(0.3, rel=0.2)
    # The noise of rows makes up for what the network's own variance has too much: their sum counts.
    _, std = model.predict(X, return_std=True)
    assert np.median(std) == pytest.approx(0.3, rel=0.2)


def test_a_stream_goes_on_with_the_noise_that_fit_has_found():
    model = quick(hidden_layer_sizes="auto", max_iter="auto").fit(*make_rows())
    before = model.log_likelihood(*NEW)
    for seed in range(3):
        model.partial_fit(*make_rows(200, seed=10 + seed))
    assert model.log_likelihood(*NEW) > before - 0.15
    _, aleatoric = model.predict_variance(NEW[0])
    assert np.corrcoef(np.log(aleatoric), np.log(noise_of(NEW[0])))[0, 1] > 0.8


@pytest.mark.parametrize("rows", ["not finite", "too large"])
def test_a_failed_partial_fit_leaves_the_noise_as_it_was(fitted, rows):
    model = deepcopy(fitted)
    net, before = model._net.noise_net, pickle.dumps(model)
    X, y = make_rows(50, seed=8)
    y[3] = np.nan if rows == "not finite" else 1e300
    with pytest.raises(ValueError, match=r"NaN|too large"), np.errstate(all="ignore"):
        model.partial_fit(X, y)
    assert model._net.noise_net is net
    assert pickle.dumps(model) == before


def test_an_interrupted_partial_fit_leaves_the_noise_as_it_was(fitted, monkeypatch):
    from sktagi.engine import streaming

    model = deepcopy(fitted)
    net, before = model._net.noise_net, pickle.dumps(model)

    def broken(*args):
        raise MemoryError

    monkeypatch.setattr(streaming, "with_errors", broken)
    with pytest.raises(MemoryError):
        model.partial_fit(*make_rows(50, seed=8))
    assert model._net.noise_net is net
    assert pickle.dumps(model) == before


def test_shards_of_a_stream_merge_with_their_noise(fitted):
    X, y = make_rows(400, seed=9)
    start = fork(fitted)
    shards = [deepcopy(start).partial_fit(X[k::2], y[k::2]) for k in range(2)]
    merged = merge(shards)
    _, aleatoric = merged.predict_variance(NEW[0])
    assert np.corrcoef(np.log(aleatoric), np.log(noise_of(NEW[0])))[0, 1] > 0.8
    scores = [shard.log_likelihood(*NEW) for shard in shards]
    assert merged.log_likelihood(*NEW) > min(scores) - 0.05
    for shard in shards:
        low, high = shard._net.noise_net.bounds
        assert (merged._net.noise_net.bounds[0] <= low).all()
        assert (merged._net.noise_net.bounds[1] >= high).all()


# ------------------------------------------------------------------------- rows that wait


def learn_rows(model, start, stop):
    """Let a model learn rows one by one."""
    X, y = make_rows(1000, seed=4)
    for k in range(start, stop):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    return model


@pytest.mark.parametrize("copied", [deepcopy, lambda m: type(m).from_bytes(m.to_bytes())])
def test_a_copy_with_rows_that_wait_goes_on_as_the_original(fitted, copied):
    model = learn_rows(deepcopy(fitted), 0, 10)
    noise = model._net.noise_net
    assert len(noise.waiting) == 10
    assert noise.change is not None
    again = copied(model)
    stds = [m.predict(NEW[0], return_std=True)[1] for m in (model, again)]
    np.testing.assert_array_equal(*stds)
    stds = [learn_rows(m, 10, 40).predict(NEW[0], return_std=True)[1] for m in (model, again)]
    np.testing.assert_array_equal(*stds)


def test_merged_shards_have_learned_the_rows_that_waited(fitted):
    start = fork(fitted)
    shards = [learn_rows(deepcopy(start), 0, 10), learn_rows(deepcopy(start), 10, 25)]
    noise = merge(shards)._net.noise_net
    assert not noise.waiting
    assert noise.change is None
    assert not np.array_equal(noise.scores, fitted._net.noise_net.scores)


def test_std_changes_with_single_rows_though_some_wait(fitted):
    """Noise that has changed is learned from single rows, too, up to a few of them."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-3, 3, size=(600, 2))
    y = truth(X) + noise_of(-X) * rng.normal(size=600)
    model = deepcopy(fitted)
    before = model.predict(NEW[0], return_std=True)[1]
    for k in range(600):
        model.partial_fit(X[k : k + 1], y[k : k + 1])
    after = model.predict(NEW[0], return_std=True)[1]
    whole = deepcopy(fitted)
    for k in range(0, 600, 50):
        whole.partial_fit(X[k : k + 50], y[k : k + 50])
    learned = whole.predict(NEW[0], return_std=True)[1]
    log_change = np.log(after / before)
    assert np.corrcoef(log_change, np.log(learned / before))[0, 1] > 0.8
