"""Epochs, early stopping, the noise of held-out rows, members side by side."""

import numpy as np
import pytest
from helpers import assert_same_posterior, calibrate, make_network, make_rows
from scipy import optimize, stats

from sktagi.engine.learning import Learner, Settings
from sktagi.engine.noise_network import draw_noise_network
from sktagi.engine.predicting import predict_moments
from sktagi.engine.runs import EarlyStopping, Plan
from sktagi.engine.sources import InMemory
from sktagi.engine.training import fit_epochs, train
from sktagi.engine.tree import ClassTree

from .test_learning import class_rows, learn, single_member, with_missing


def fit(
    net, data, order, settings, *, validation=None, max_iter=1, patience=10**6, rngs=None, **others
):
    source = InMemory(data, np.atleast_2d(order), validation, settings, rngs)
    trained, _, history = train(net, [source], Plan(max_iter, patience, 0.0), **others)
    assert trained is net
    return history


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("half_life", [None, 30.0])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_fit_over_batches_is_learning_them_one_after_another(
    joint, learn_noise, half_life, batch_size
):
    data = make_rows(35, 3, 2)
    settings = Settings(batch_size, joint, half_life)
    whole, stepwise = (make_network([3, 6, 2], learn_noise=learn_noise) for _ in range(2))
    history = fit(whole, data, np.arange(35), settings)
    scores = []
    for start in range(0, 35, batch_size):
        rows = np.arange(start, start + batch_size)
        scores.append(learn(stepwise, data, rows, settings))
    assert_same_posterior(whole, stepwise, 1e-13)
    np.testing.assert_array_equal(whole.rows_learned, stepwise.rows_learned)
    np.testing.assert_allclose(history.train_scores, [np.mean(scores)], rtol=1e-12)


def test_epochs_start_from_the_posterior_of_the_last():
    data, settings = make_rows(20, 3), Settings(5)
    twice, again = (make_network([3, 6, 1]) for _ in range(2))
    fit(twice, data, np.arange(20), settings, max_iter=2)
    for _ in range(2):
        fit(again, data, np.arange(20), settings)
    assert_same_posterior(twice, again, 1e-13)


def test_no_epoch_leaves_the_prior():
    data, net, prior = make_rows(20, 3), make_network([3, 6, 1]), make_network([3, 6, 1])
    history = fit(net, data, np.arange(20), Settings(5), max_iter=0)
    assert history.n_iter == 0
    assert_same_posterior(net, prior, 0)


def test_shuffling_is_a_permutation_by_the_generator_of_each_member():
    data, settings = make_rows(20, 3), Settings(4)
    shuffled, by_hand = (make_network([3, 6, 1]) for _ in range(2))
    fit(shuffled, data, np.arange(20), settings, max_iter=2, rngs=[np.random.default_rng(1)])
    rng = np.random.default_rng(1)
    for _ in range(2):
        learn(by_hand, data, rng.permutation(20), settings)
    assert_same_posterior(shuffled, by_hand, 1e-13)


@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("members", [1, 3])
def test_early_stopping_gives_back_the_best_posterior_not_the_last(learn_noise, members):
    data = make_rows(70, 5, noise=0.8, weight=np.linspace(0.5, 2, 70))
    net = make_network([5, 40, 1], members=members, sigma_v=0.2, learn_noise=learn_noise)
    order = np.tile(np.arange(40), (members, 1))
    validation = [np.arange(40 + 3 * m, 70) for m in range(members)]
    last = net.copy()
    settings = Settings(8)
    history = fit(net, data, order, settings, validation=validation, max_iter=60, patience=10)
    assert history.n_iter == len(history.validation_scores)
    assert np.all(history.best_iter >= 1)
    assert np.any(history.best_iter < history.n_iter)

    def scores(posterior):
        mu, var = predict_moments(posterior, data.x)
        log_lik = posterior.outputs.log_likelihood(mu, var + posterior.noise_var, data.y)[:, 0]
        return np.array(
            [np.average(log_lik[m, v], weights=data.weight[v]) for m, v in enumerate(validation)]
        )

    # A member's best epoch, learned again without validation; its noise is the validation's best.
    by_epoch = np.empty((history.n_iter, members))
    learner = Learner(last, settings)
    for epoch in range(history.n_iter):
        learner.learn(data, order)
        by_epoch[epoch] = scores(last)
        for m in np.flatnonzero(history.best_iter == epoch + 1):
            for mine, theirs in zip(net.layers, last.layers, strict=True):
                # To rounding: stacks are multiplied otherwise than single matrices.
                np.testing.assert_allclose(mine.mu[m], theirs.mu[m], rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(mine.var[m], theirs.var[m], rtol=1e-9)
    returned = scores(net)
    assert np.all(returned >= by_epoch.max(axis=0) - 1e-12)
    if not learn_noise:
        np.testing.assert_allclose(returned, by_epoch.max(axis=0), rtol=1e-12)
        np.testing.assert_array_equal(history.best_iter, by_epoch.argmax(axis=0) + 1)
        np.testing.assert_allclose(history.validation_scores, by_epoch.mean(axis=1), rtol=1e-12)
    if members == 1:
        np.testing.assert_allclose(returned, max(history.validation_scores), rtol=1e-12)


def test_training_stops_after_some_epochs_without_gain():
    data = make_rows(60, 5, noise=1.0)
    net = make_network([5, 40, 1], sigma_v=0.2)
    history = fit(
        net, data, np.arange(40), Settings(8), validation=[np.arange(40, 60)],
        max_iter=200, patience=5,
    )  # fmt: skip
    scores = np.array(history.validation_scores)
    assert history.n_iter < 200
    assert scores.argmax() == history.n_iter - 1 - 5 == history.best_iter[0] - 1


def test_noise_kept_by_validation_maximises_its_likelihood():
    data = make_rows(120, 3, 2, noise=0.5)
    net = make_network([3, 10, 2], learn_noise=True, sigma_v=1.0)
    rows = np.arange(80, 120)
    fit(net, data, np.arange(80), Settings(16), validation=[rows], max_iter=5)
    mu, var = predict_moments(net, data.x[rows])

    def score(noise_var):
        return net.outputs.log_likelihood(mu, var + noise_var, data.y[rows]).sum(axis=(0, 2))

    best = score(net.noise_var)
    assert best.shape == (2,)
    for factor in (0.9, 1.1):
        assert np.all(score(net.noise_var * factor) < best)


def test_a_callback_may_end_training_and_sees_each_epoch():
    data, net, seen = make_rows(20, 3), make_network([3, 4, 1]), []

    def on_epoch(history):
        seen.append(history.n_iter)
        return history.n_iter == 3

    history = fit(net, data, np.arange(20), Settings(5), max_iter=10, on_epoch=on_epoch)
    assert history.n_iter == 3
    assert seen == [1, 2, 3]


def test_an_interrupt_from_the_keyboard_gives_back_the_best_so_far():
    data, net = make_rows(60, 3), make_network([3, 6, 1])
    order, validation = np.arange(40), [np.arange(40, 60)]

    def on_epoch(history):
        if history.n_iter == 3:
            raise KeyboardInterrupt

    history = fit(
        net, data, order, Settings(5), validation=validation, max_iter=10, patience=10,
        on_epoch=on_epoch,
    )  # fmt: skip
    assert history.interrupted
    assert history.n_iter == 3
    same = make_network([3, 6, 1])
    fit(same, data, order, Settings(5), validation=validation, max_iter=3)
    assert_same_posterior(net, same, 0)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("learn_noise", [False, True])
@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("kind", ["regression", "classes"])
def test_members_side_by_side_equal_each_alone(joint, learn_noise, batch_size, kind):
    if kind == "regression":
        data, outputs, n_outputs = make_rows(60, 3, 2), None, 2
    else:
        data, outputs = class_rows(60, 3, 5), ClassTree(5)
        n_outputs = outputs.n_outputs
    rng = np.random.default_rng(2)
    members = 3
    split = np.stack([rng.permutation(60) for _ in range(members)])
    order, validation = split[:, :40], list(split[:, 40:])
    settings = Settings(batch_size, joint, 200.0)
    together = make_network(
        [3, 6, n_outputs],
        members=members,
        sigma_v=0.5,
        outputs=outputs,
        learn_noise=learn_noise,
    )
    alone = [single_member(together, m) for m in range(members)]

    def generators():
        return [np.random.default_rng([3, m]) for m in range(members)]

    history = fit(
        together, data, order, settings, validation=validation, max_iter=4, rngs=generators()
    )
    for m in range(members):
        own = fit(
            alone[m], data, order[m], settings, validation=[validation[m]], max_iter=4,
            rngs=[generators()[m]],
        )  # fmt: skip
        assert_same_posterior(single_member(together, m), alone[m], 1e-8)
        assert own.best_iter[0] == history.best_iter[m]


def test_a_callback_before_each_epoch_and_a_posterior_as_if_training_ended():
    data, net, seen = make_rows(60, 3), make_network([3, 6, 1]), []
    validation, begun = [np.arange(40, 60)], []

    def on_epoch(history):
        seen.append(history.posterior())

    fit(
        net, data, np.arange(40), Settings(5), validation=validation, max_iter=4,
        on_epoch=on_epoch, on_epoch_begin=lambda: begun.append(1),
    )  # fmt: skip
    assert len(begun) == len(seen) == 4
    for epochs, posterior in enumerate(seen, 1):
        same = make_network([3, 6, 1])
        fit(same, data, np.arange(40), Settings(5), validation=validation, max_iter=epochs)
        assert_same_posterior(posterior, same, 0)


def test_what_is_continued_must_be_beaten():
    """Rows that teach nonsense: the posterior that training started with is given back."""
    data = make_rows(60, 3)
    net = make_network([3, 6, 1])
    fit(net, data, np.arange(40), Settings(5), max_iter=10)
    before = net.copy()
    nonsense = data._replace(y=np.where(np.arange(60)[:, None] < 40, 5.0, data.y))
    validation = [np.arange(40, 60)]
    history = fit(
        net, nonsense, np.arange(40), Settings(5), validation=validation, max_iter=3,
        continued=True,
    )  # fmt: skip
    assert history.best_iter.tolist() == [0]
    assert len(history.validation_scores) == history.n_iter == 3
    assert_same_posterior(net, before, 0)
    history = fit(net, nonsense, np.arange(40), Settings(5), validation=validation, max_iter=3)
    assert history.best_iter[0] > 0


def test_a_member_stops_after_some_updates_without_a_gain_of_tol():
    net = make_network([3, 1], members=3)
    stopping = EarlyStopping(net, Plan(10, n_iter_no_change=2, tol=0.1))
    noise_var = np.ones((3, 1, 1))
    everyone = np.arange(3)

    def update(epoch, scores, active=everyone):
        now = make_network([3, 1], seed=epoch, members=3).members(active)
        return stopping.update(epoch, now, active, np.array(scores), epoch * noise_var[active])

    assert update(1, [0.0, 0.0, 0.0]).tolist() == [True, True, True]
    assert update(2, [1.0, 0.05, -1.0]).tolist() == [True, True, True]
    # A gain below tol is kept, and counts as none.
    assert update(3, [1.2, 0.09, -1.0]).tolist() == [True, False, False]
    assert stopping.best_iter.tolist() == [3, 3, 1]
    assert update(4, [0.5], np.array([0])).tolist() == [True]
    assert update(5, [np.nan], np.array([0])).tolist() == [False]  # must not go unnoticed
    assert stopping.best_iter.tolist() == [5, 3, 1]
    np.testing.assert_array_equal(stopping.best.noise_var[:, 0, 0], [5, 3, 1])
    for member, epoch in enumerate([5, 3, 1]):
        expected = make_network([3, 1], seed=epoch, members=3).members(slice(member, member + 1))
        np.testing.assert_array_equal(stopping.best.layers[0].mu[member], expected.layers[0].mu[0])


def test_training_goes_on_as_with_a_source_of_its_own():
    """What the first training leaves in the network is known to the second, and nothing else."""
    data, order = make_rows(60, 3, noise=1.0), np.tile(np.arange(40), (2, 1))
    validation, settings = [np.arange(40, 60)] * 2, Settings(8)
    found = []
    for n_sources in (1, 2):
        net = make_network([3, 8, 1], members=2, sigma_v=0.2)
        sources = [InMemory(data, order, validation, settings, None) for _ in range(n_sources)]
        first = train(net, sources[:1], Plan(20, 10**6))[2]
        assert (first.best_iter < 20).all()  # the network is not what was learned last
        train(net, sources[-1:], Plan(1, 10**6))
        found.append(net)
    assert_same_posterior(*found, 0)


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_generators_of_members_that_learn_elsewhere_go_on_here(n_jobs):
    data, order = make_rows(40, 3), np.tile(np.arange(40), (3, 1))
    found = []
    for jobs in (1, n_jobs):
        net = make_network([3, 6, 1], members=3)
        rngs = [np.random.RandomState(m) for m in range(3)]
        source = InMemory(data, order, None, Settings(8), rngs)
        for _ in range(2):
            train(net, [source], Plan(2), n_jobs=jobs)
        found.append(net)
    assert_same_posterior(*found, 1e-9)


# Targets that are not observed


def test_validation_scores_are_those_of_what_the_rows_observe():
    data = with_missing(make_rows(60, 3, 2, weight=np.linspace(0.5, 2, 60)))
    net = make_network([3, 6, 2], members=2, sigma_v=0.4)
    order, validation = np.tile(np.arange(40), (2, 1)), [np.arange(40, 60), np.arange(45, 60)]
    history = fit(net, data, order, Settings(8), validation=validation, max_iter=1)
    same, expected = make_network([3, 6, 2], members=2, sigma_v=0.4), []
    learn(same, data, order, Settings(8))
    for member, rows in enumerate(validation):
        mu, var = (m[member].T for m in predict_moments(same, data.x[rows]))
        var = var + 0.4**2
        density = -0.5 * np.log(2 * np.pi * var) - 0.5 * (data.y[rows] - mu) ** 2 / var
        expected.append(np.average(np.nansum(density, axis=1), weights=data.weight[rows]))
    assert history.validation_scores == [pytest.approx(np.mean(expected), rel=1e-10)]


@pytest.mark.parametrize("n_observed", [0, 1, 5, 10, 40])
def test_noise_of_a_target_that_few_validation_rows_observe_stays_near_that_of_em(n_observed):
    """Ten rows say as much as expectation maximisation; n rows (n / 10)^2 times as much."""
    data = make_rows(120, 3, 2, noise=0.5)
    data.y[80 + n_observed :, 1] = np.nan
    net, by_em = (make_network([3, 10, 2], learn_noise=True, sigma_v=1.0) for _ in range(2))
    fit(net, data, np.arange(80), Settings(16), validation=[np.arange(80, 120)])
    learn(by_em, data, np.arange(80), Settings(16))
    learned = by_em.noise_var[0, 1, 0]
    if n_observed == 0:
        assert net.noise_var[0, 1, 0] == pytest.approx(learned, rel=1e-12)
        return
    rows = np.arange(80, 80 + n_observed)
    mu, var = (m[0, 1] for m in predict_moments(by_em, data.x[rows]))

    def loss(log_std):
        return -stats.norm.logpdf(data.y[rows, 1], mu, np.sqrt(var + np.exp(2 * log_std))).sum()

    here = 0.5 * np.log(learned)  # held-out rows may move it by a factor of about 8
    bounds = np.array([-1, 1]) * np.log(8) * (1 + 1 / 8 + 1 / 64) + here
    best = optimize.minimize_scalar(loss, bounds=bounds, method="bounded").x
    share = n_observed**2 / (100 + n_observed**2)
    expected = share * 2 * best + (1 - share) * np.log(learned)
    assert np.log(net.noise_var[0, 1, 0]) == pytest.approx(expected, abs=0.05)


# Two phases: constant noise, then noise as it was found to vary


def noisy_rows(n=300, slope=1.5, seed=0):
    """Noise of standard deviation 0.5 exp(slope * x / 2)."""
    data = make_rows(n, 2, seed=seed, noise=0.0)
    noise = 0.5 * np.exp(slope * data.x[:, :1] / 2)
    return data._replace(y=data.y + noise * np.random.default_rng(seed).normal(size=(n, 1)))


def fit_both(data, plan, *, varies=True, members=2, **others):
    """A network, its history, and a copy of it as it was each time that it was finished."""
    n = len(data.weight)
    validation = [np.arange(n - n // 4, n)] * members
    order = np.tile(np.arange(n - n // 4), (members, 1))
    net = make_network([2, 10, 1], members=members, learn_noise=True, sigma_v=1.0)
    source, finished = InMemory(data, order, validation, Settings(32, True, 500.0), None), []

    def finish(net, history):
        start = (net.noise_net or draw_noise_network(2, 1, np.float64, 0)) if varies else None
        calibrate(net, data, validation, start)
        finished.append(net.copy())

    fitted, history = fit_epochs(net, [source], plan, finish, varies=varies, **others)
    assert fitted is net
    return net, history, finished, source


def test_epochs_with_constant_noise_are_a_share_of_all():
    plan = Plan(20, 10**6)
    net, history, finished, source = fit_both(noisy_rows(), plan)
    assert len(finished) == 2
    assert finished[0].noise_net.varies
    assert history.comparable_from == 14
    assert history.n_iter == len(history.validation_scores) == 20
    assert net.noise_net.varies
    ratio = source.data.noise_ratio
    assert np.corrcoef(np.log(ratio[:, 0]), source.data.x[:, 0])[0, 1] > 0.8


def test_noise_that_is_constant_is_trained_as_one_level_for_as_many_epochs():
    data = noisy_rows(slope=0.0)
    plan = Plan(10, 10**6)
    _, history, finished, source = fit_both(data, plan)
    assert not finished[0].noise_net.varies
    assert history.comparable_from == 0
    assert source.data.noise_ratio is None
    assert history.n_iter == 10
    _, constant, once, _ = fit_both(data, plan, varies=False)
    assert len(once) == 1
    assert history.train_scores[:7] == constant.train_scores[:7]


def test_the_second_phase_gives_back_what_it_does_not_improve():
    """Its epochs are compared with where it starts; the best epoch is counted from the first."""
    kept = []
    for seed in range(4):
        net, history, finished, _ = fit_both(noisy_rows(seed=seed), Plan(10, 10**6))
        assert history.n_iter == 10
        for member, best in enumerate(history.best_iter):
            same = np.array_equal(net.layers[0].mu[member], finished[0].layers[0].mu[member])
            assert same == (best <= 7)
            kept.append(same)
    assert 0 < np.mean(kept) < 1


def test_epochs_and_patience_of_both_phases_are_shares():
    plan = Plan(100, 20, 1e-3)
    assert plan.before_noise() == Plan(70, 15, 1e-3)
    assert Plan(1, 1).before_noise() == Plan(1, 1)
    assert Plan(0, 1).before_noise().max_iter == 0
    # The second phase is not longer if the first has ended early.
    for n_iter, n_left in ((1, 30), (33, 30), (70, 30), (75, 25), (100, 0)):
        assert plan.after_noise(n_iter) == Plan(n_left, 10, 1e-3)
    assert Plan(1, 1).after_noise(1) == Plan(0, 1)


def test_constant_noise_and_no_gain_end_training():
    """Nothing gains 1e6: six epochs of patience after the first, and no second phase."""
    _, history, finished, _ = fit_both(noisy_rows(), Plan(12, 8, 1e6))
    assert not finished[0].noise_net.varies
    assert len(finished) == 1
    assert history.n_iter == 7


def test_no_second_phase_follows_if_its_share_is_no_epoch():
    for max_iter in (1, 2, 3):
        _, history, finished, _ = fit_both(noisy_rows(), Plan(max_iter, 10**6))
        assert history.n_iter == max_iter
        assert len(finished) == 1


def test_training_that_is_stopped_or_interrupted_has_no_second_phase():
    stops = []

    def stop(history):
        stops.append(history.n_iter)
        return history.n_iter == 3

    net, history, finished, _ = fit_both(noisy_rows(), Plan(20, 10**6), on_epoch=stop)
    assert stops == [1, 2, 3]
    assert history.n_iter == 3
    assert len(finished) == 1
    assert net.noise_net is not None


def test_no_epochs_change_nothing():
    net, history, finished, _ = fit_both(noisy_rows(), Plan(0))
    assert history.n_iter == 0
    assert not finished
    assert net.calibration is None is net.noise_net


@pytest.mark.parametrize("time", [1, 2])
def test_an_interrupt_while_finishing_keeps_what_was_there_before(time):
    """The fit without a calibration; or with that of the first phase, and means of the second."""
    data, seen = noisy_rows(), []
    n = len(data.weight)
    validation, order = [np.arange(n - 75, n)] * 2, np.tile(np.arange(n - 75), (2, 1))
    net = make_network([2, 10, 1], members=2, learn_noise=True, sigma_v=1.0)
    source = InMemory(data, order, validation, Settings(32, True, 500.0), None)

    def finish(net, history):
        before = net.copy()
        calibrate(net, data, validation, draw_noise_network(2, 1, np.float64, 0))
        seen.append((before, net.copy()))
        if len(seen) == time:
            raise KeyboardInterrupt

    _, history = fit_epochs(net, [source], Plan(20, 10**6), finish, varies=True)
    assert history.interrupted
    assert len(seen) == time
    assert history.n_iter == (14 if time == 1 else 20)
    before, after = seen[-1]
    assert_same_posterior(net, before, 0)
    assert not np.array_equal(after.noise_var, before.noise_var)  # one for all members
    if time == 1:
        assert net.calibration is None is net.noise_net
    else:
        first = seen[0][1]
        assert net.calibration.temperature == first.calibration.temperature
        np.testing.assert_array_equal(net.calibration.noise_scale, first.calibration.noise_scale)
        np.testing.assert_array_equal(net.noise_net.exponent, first.noise_net.exponent)
