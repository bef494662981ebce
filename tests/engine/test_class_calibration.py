"""How sure of classes: the slope, rows far from the data, the share that is unknown."""

import numpy as np
import pytest
from helpers import make_network, with_ones
from scipy.special import ndtr

from sktagi.engine.calibration import HeldOutHere
from sktagi.engine.class_calibration import (
    FAR,
    SLOPES,
    UNKNOWN,
    best_slope,
    calibrate_classes,
    class_calibration,
    far_from_data,
    learn_slope,
    score_slopes,
    share_unknown,
    share_unknown_of_kinds,
)
from sktagi.engine.held_out import predict_held_out
from sktagi.engine.multilabel import Labels
from sktagi.engine.rows import Rows
from sktagi.engine.softmax import Softmax
from sktagi.engine.tree import ClassTree


def network_of_signs(members=1, seed=0):
    """A linear network of two classes whose parameters are nearly known."""
    tree = ClassTree(2, is_probit=True)
    net = make_network([2, 1], members=members, seed=seed, outputs=tree)
    net.noise_var[...] = 0
    for layer in net.layers:
        layer.var[...] = 1e-6
        layer.mu[...] = np.array([[1.0], [-0.5], [0.2]])
    return net


def rows_of_signs(n, slope, seed=0):
    """Classes whose probabilities are those of the network with outputs times ``slope``."""
    rng = np.random.default_rng(seed)
    x = with_ones(rng.normal(size=(n, 2)))
    p_first = ndtr(3 * slope * (x @ [1.0, -0.5, 0.2]))
    return Rows(x, (rng.uniform(size=n) > p_first).astype(int), np.ones(n))


def calibrated(net, data, validation=None):
    if validation is None:
        validation = [np.arange(len(data.weight))] * net.n_members
    held = predict_held_out(net, data, validation, np.ones(1))
    calibrate_classes(net, HeldOutHere(held), 0.1, 100)
    return net.calibration


@pytest.mark.parametrize("slope", [0.4, 0.75, 1.0, 1.6, 3.0])
def test_rows_held_out_tell_the_slope(slope):
    found = calibrated(network_of_signs(), rows_of_signs(20_000, slope)).slope
    assert found == pytest.approx(slope, rel=0.1)


def test_few_rows_say_little():
    slopes = [calibrated(network_of_signs(), rows_of_signs(n, 4.0)).slope for n in (2, 30, 5000)]
    assert 1 <= slopes[0] < slopes[1] < slopes[2]
    assert slopes[0] < 1.4
    assert slopes[2] > 3


def test_copies_of_a_row_are_rows_of_more_weight():
    data = rows_of_signs(300, 0.5)
    copies = np.repeat(np.arange(300), 1 + np.arange(300) % 3)
    weighted = data._replace(weight=1.0 + np.arange(300) % 3)
    one = calibrated(network_of_signs(), weighted)
    two = calibrated(network_of_signs(), data.take(copies))
    assert one.slope == pytest.approx(two.slope, rel=1e-9)
    assert one.usual_var == pytest.approx(two.usual_var, rel=1e-9)


def test_members_that_disagree_keep_the_slope_between_two_bounds():
    """Alone they are too sure of themselves, but their mixture is not."""
    data = rows_of_signs(4000, 1.0, seed=3)
    net = network_of_signs(members=4)
    rng = np.random.default_rng(1)
    net.layers[0].mu += rng.normal(scale=0.5, size=net.layers[0].mu.shape)
    folds = [np.arange(0, 4000, 4), *(np.arange(k, 4000, 4) for k in range(3))]
    held = predict_held_out(net, data, folds, np.ones(1))
    places = HeldOutHere(held)
    calibrate_classes(net, places, 0.1, 100)
    scores = score_slopes(places.held, net.outputs, np.zeros((1, 1)))
    held = places.held
    log_lik = net.outputs.log_likelihood(
        SLOPES[3] * held.mean, held.var_z[0] + held.disagreement, held.y
    )
    assert scores[1, 3] == pytest.approx(log_lik.sum(), rel=1e-9)
    alone, together = (best_slope(part) for part in scores)
    assert alone < 0.9 < together
    assert net.calibration.slope == np.clip(1, alone, together)


def test_the_best_slope_is_the_top_of_a_parabola():
    log_slope = np.log(SLOPES)
    for top in (-0.9, -0.11, 0.3, 1.0):
        scores = -1e6 * (log_slope - top) ** 2  # so many rows that the prior does not matter
        assert np.log(best_slope(scores)) == pytest.approx(top, abs=1e-4)


@pytest.mark.parametrize("size", [1e300, -1e300, 1e20, 1e-320])
def test_scores_of_any_shape_have_a_best_slope(size):
    log_slope = np.log(SLOPES)
    for scores in (size * np.exp(log_slope), size * log_slope**2, size * np.sin(9 * log_slope)):
        with np.errstate(all="raise", under="ignore"):
            found = best_slope(scores)
        assert SLOPES[0] <= found <= SLOPES[-1]


def test_only_rows_far_from_the_data_have_a_larger_variance():
    var = np.array([[0.1, 1.0, FAR, 10 * FAR, 1e30]])
    factor = far_from_data(var, 1.0)[0]
    np.testing.assert_array_equal(factor[:3], 1)
    assert factor[3] == pytest.approx(np.sqrt(10))
    assert (np.diff(factor[2:]) > 0).all()
    assert np.isfinite(factor).all()


def test_the_share_that_is_unknown_is_that_of_evidence_beside_rows():
    assert share_unknown(100 * np.log(2), 100, 50) == pytest.approx(UNKNOWN)
    assert share_unknown(None, 100, 1) == pytest.approx(UNKNOWN)
    # Sixteen times the rows, with the same half-life, or a sixteenth of the epochs.
    fewer = share_unknown(100 * np.log(2), 1600, 50)
    assert fewer == pytest.approx(UNKNOWN / 8)
    assert share_unknown(None, 100, 16) == pytest.approx(8 * UNKNOWN)
    assert share_unknown(1e9, 100, 16) == pytest.approx(8 * UNKNOWN)  # no more than was learned


# Streams


@pytest.mark.parametrize("slope", [0.5, 1.0, 1.8])
def test_a_stream_after_a_fit_begins_with_the_slope_that_was_found(slope):
    net, few = network_of_signs(), network_of_signs()
    found = calibrated(net, rows_of_signs(3000, slope)).slope
    start = calibrated(few, rows_of_signs(20, slope)).slope
    assert best_slope(net.calibration.slope_scores) == pytest.approx(found, rel=1e-9)
    assert best_slope(few.calibration.slope_scores) == pytest.approx(start, rel=1e-9)
    wrong = np.array([[[[0.6]]], [[[0.01]]]])  # a prediction of the other class
    for started in (net, few):
        learn_slope(started, wrong, np.array([1]), np.ones(1), 1)
    # What many rows have found is moved less by one row.
    assert net.calibration.slope == pytest.approx(found, rel=0.2)
    assert np.log(few.calibration.slope / start) < np.log(net.calibration.slope / found)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("chunks", [[60], [1] * 60, [7, 13, 40]])
def test_a_stream_finds_the_same_slope_in_any_chunks(n_classes, chunks):
    outputs = ClassTree(2, is_probit=True) if n_classes == 2 else Softmax(4)
    net = make_network([2, outputs.n_outputs], members=3, outputs=outputs)
    net.noise_var[...] = 0
    rng = np.random.default_rng(0)
    moments = rng.normal(size=(2, 3, outputs.n_outputs, 60)) ** 2
    moments[0] -= 1
    y, weight = rng.integers(n_classes, size=60), rng.uniform(0.5, 2, size=60)
    total, start = 0.0, 0
    for size in chunks:
        part = slice(start, start + size)
        mean = learn_slope(net, moments[..., part], y[part], weight[part], 1)
        total += mean * weight[part].sum()
        start += size
    whole = make_network([2, outputs.n_outputs], members=3, outputs=outputs)
    whole.noise_var[...] = 0
    mean = learn_slope(whole, moments, y, weight, 1)
    assert total / weight.sum() == pytest.approx(mean, rel=1e-9)
    assert net.calibration.slope == pytest.approx(whole.calibration.slope, rel=1e-9)


def test_a_stream_follows_a_slope_that_changes():
    net = network_of_signs()
    slopes = []
    for slope in (1.0, 3.0):
        data = rows_of_signs(6000, slope, seed=5)
        mu_z = (data.x @ [1.0, -0.5, 0.2])[None, None]
        moments = np.stack([mu_z, np.full_like(mu_z, 1e-9)])
        learn_slope(net, moments, data.y, data.weight, 100)
        slopes.append(net.calibration.slope)
    assert slopes[0] == pytest.approx(1.0, rel=0.15)
    assert slopes[1] == pytest.approx(3.0, rel=0.25)


def test_the_score_of_a_stream_is_that_of_the_mixture_as_predicted():
    net = make_network([2, 4], members=3, outputs=Softmax(4))
    net.noise_var[...] = 0
    net.calibration = class_calibration(net, slope=1.7)
    rng = np.random.default_rng(2)
    mu, var = rng.normal(size=(3, 4, 10)), rng.uniform(0.1, 1, size=(3, 4, 10))
    y = rng.integers(4, size=10)
    found = learn_slope(net, np.stack([mu, var]), y, np.ones(10), 10)
    proba = np.exp(Softmax(4).log_proba(1.7 * mu, var)).mean(axis=0)
    assert found == pytest.approx(np.log(proba[y, np.arange(10)]).mean(), rel=1e-12)


def test_the_score_of_a_stream_knows_noise_and_rows_far_from_the_data():
    net = make_network([2, 4], members=3, outputs=Softmax(4))
    net.noise_var[...] = 0.5
    net.calibration = class_calibration(net, slope=1.7)._replace(usual_var=0.001)
    rng = np.random.default_rng(2)
    mu, var = rng.normal(size=(3, 4, 10)), rng.uniform(0.1, 1, size=(3, 4, 10))
    y = rng.integers(4, size=10)
    found = learn_slope(net, np.stack([mu, var]), y, np.ones(10), 10)
    total = var * far_from_data(var, 0.001) + 0.5
    proba = np.exp(Softmax(4).log_proba(1.7 * mu, total)).mean(axis=0)
    assert found == pytest.approx(np.log(proba[y, np.arange(10)]).mean(), rel=1e-12)


@pytest.mark.parametrize(
    "model", [ClassTree(2, is_probit=True), Softmax(2), Labels(1)], ids=["sign", "softmax", "label"]
)
def test_noise_of_the_outputs_is_in_their_sites(model):
    """One row alone: an output with noise says what it would say with that variance in addition."""
    n, mu, var = model.n_outputs, 0.3, 0.4
    args = np.full((n, 1), mu), np.full((n, 1), var + 0.2), np.ones((n, 1))
    target, noise = model.sites(args[0], np.full((n, 1), var), args[2], np.array(0.2))
    expected, less = model.sites(*args, np.array(0.0))
    np.testing.assert_allclose(target, expected, rtol=1e-9)
    np.testing.assert_allclose(noise, less + 0.2, rtol=1e-9)


def test_what_is_unknown_of_kinds_falls_with_rows_and_not_with_the_size_of_their_variances():
    def variance(usual_var=1.0, n_rows=1000, n_inputs=4, probit_scale=1 / 3):
        return usual_var * share_unknown_of_kinds(usual_var, n_rows, n_inputs, probit_scale)

    assert variance(usual_var=7.0) == pytest.approx(variance())
    assert variance(n_rows=4000) == pytest.approx(variance() / 4)
    assert variance(probit_scale=1 / 6) == pytest.approx(variance() / 4)
    assert variance(n_inputs=64) == pytest.approx(8 * variance())
    assert share_unknown_of_kinds(1e-9, 10, 4, 1 / 3) == 1  # never more than there is
