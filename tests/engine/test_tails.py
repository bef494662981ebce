"""The tails of held-out errors, and the quantiles that follow from them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sktagi.engine.calibration import OPTIMISM, calibrate
from sktagi.engine.predicting import predict_moments
from sktagi.engine.tails import (
    PRIOR_ROWS,
    TAILS,
    WIDTHS,
    blend_tails,
    gaussian_tails,
    standard_quantiles,
    sum_outside,
)

from .test_calibration import made

QUANTILES = np.array([1e-30, 0.001, 0.05, 0.25, 0.4, 0.5, 0.6, 0.75, 0.95, 0.999, 1 - 1e-12])


@pytest.mark.parametrize("members", [1, 2, 4])
def test_tails_are_the_shares_of_held_out_errors_outside(members):
    """Row by row: the member that holds it out, and the disagreement of the others."""
    net, data, validation = made(members, n=150, noise=0.4, sure=0.2, spread=0.2, seed=2)
    weight = np.random.default_rng(0).uniform(0.2, 3, size=150)
    data = data._replace(weight=weight)
    calibrate(net, data, validation)
    growth = 1 + OPTIMISM * members / 150
    temperature, tails = net.calibration.temperature / growth, net.calibration.tails
    asked = replace(net, calibration=net.calibration._replace(temperature=temperature)).reported()
    mu, var = predict_moments(asked, data.x)
    noise = asked.noise_var[0, 0, 0] / growth
    errors, weights = [], []
    for member, rows in enumerate(validation):
        for row in rows:
            others = [mu[m, 0, row] for m in range(members) if m != member]
            disagreement = 2 * np.var(others) if others else 0.0
            std = np.sqrt(var[member, 0, row] + disagreement + noise)
            errors.append(abs(data.y[row, 0] - mu[member, 0, row]) / std)
            weights.append(weight[row])
    errors, weights = np.array(errors), np.array(weights)
    errors /= np.sqrt(np.average(errors**2, weights=weights))
    for tail, width, seen in zip(TAILS[1:-1], WIDTHS[:0:-1], tails[1:-1, 0], strict=True):
        share = weights[errors > width].sum() / weights.sum()
        assert tail == pytest.approx(2 * stats.norm.sf(width))
        n_rows = weights.sum() ** 2 / (weights**2).sum()
        expected = (n_rows * share + PRIOR_ROWS * tail) / (n_rows + PRIOR_ROWS)
        assert seen == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(tails[[0, -1], 0], [0, 1], atol=1e-12)


def test_a_heavy_row_is_one_row_and_so_is_one_that_several_members_hold_out():
    """Few rows change little, however they are counted."""
    net, data, validation = made(4, n=160, noise=0.4, sure=0.2, spread=0.2, seed=3)
    heavy, again = net.copy(), net.copy()
    calibrate(heavy, data._replace(weight=np.where(np.arange(160) == 7, 1e6, 1.0)), validation)
    assert np.abs(heavy.calibration.tails[:, 0] - TAILS).max() < 1 / PRIOR_ROWS
    calibrate(again, data, [np.arange(160)] * 4)
    errors = again.calibration.tails[:, 0] * (160 + PRIOR_ROWS) - PRIOR_ROWS * TAILS
    shares = errors / 160 * 640  # of 640 errors, those of 160 rows
    np.testing.assert_allclose(shares, np.round(shares), atol=1e-6)


def test_errors_of_zero_are_inside_every_interval_but_that_of_no_width():
    errors = np.array([[0.0, 0.05, 3.95, 9.0]])
    expected = [0.0, *(np.sum(np.abs(errors) > width) for width in WIDTHS[:0:-1]), 4.0]
    np.testing.assert_array_equal(sum_outside(errors, np.ones(4))[:, 0], expected)


def test_a_model_that_makes_no_errors_has_intervals():
    net, data, validation = made(2, n=80, noise=0.3, sure=0.2)
    data.y[...] = predict_moments(net, data.x)[0].mean(axis=0).T
    net.layers[0].mu[...] = net.layers[0].mu.mean(axis=0)
    calibrate(net, data, validation)
    assert np.isfinite(net.calibration.tails).all()
    assert (np.diff(net.calibration.tails[:, 0]) > 0).all()


def test_the_error_of_a_row_does_not_widen_its_own_interval():
    """The member that is wrong is left out of the disagreement: an outlier stays one."""
    net, data, validation = made(10, n=200, noise=0.1, sure=1e-3)
    (layer,) = net.layers
    layer.mu[...] += 1e-3 * np.random.default_rng(0).normal(size=layer.mu.shape)
    data.y[::20] += 3.0
    calibrate(net, data, validation)
    twice = np.searchsorted(TAILS, 2 * stats.norm.sf(4.0) * 1.001) - 1
    assert net.calibration.tails[twice, 0] > 0.02  # a Gaussian has 0.00006


def test_weight_two_counts_as_two_rows():
    one, data, validation = made(2, n=120, noise=0.4, sure=0.3, spread=0.1, seed=7)
    two = one.copy()
    weight = 1.0 + (np.arange(120) % 3 == 0)
    calibrate(one, data._replace(weight=weight), validation)
    rows = np.concatenate([np.arange(120), np.arange(0, 120, 3)])
    copies = [np.concatenate([v, 120 + v[v % 3 == 0] // 3]) for v in validation]
    calibrate(two, data.take(rows), copies)
    np.testing.assert_allclose(one.calibration.tails, two.calibration.tails, rtol=1e-9)
    unweighted = made(2, n=120, noise=0.4, sure=0.3, spread=0.1, seed=7)[0]
    calibrate(unweighted, data, validation)
    assert np.abs(one.calibration.tails - unweighted.calibration.tails).max() > 1e-3


def test_tails_increase_strictly_and_few_rows_change_little():
    all_inside = np.zeros((len(TAILS), 1))
    all_inside[-1] = 1
    moved = []
    for n_rows in (10, 1000, 10**8):
        tails = blend_tails(all_inside, np.array([n_rows]))
        assert (np.diff(tails[:, 0]) > 0).all()
        moved.append(np.abs(tails[:, 0] - TAILS).max())
    assert moved[0] < 0.35
    assert moved[-1] > 0.9


def test_quantiles_of_gaussian_tails_are_gaussian():
    tails = np.column_stack([TAILS, TAILS])
    np.testing.assert_array_equal(gaussian_tails(2), tails)
    found = standard_quantiles(tails, QUANTILES)
    np.testing.assert_allclose(found, np.tile(stats.norm.ppf(QUANTILES), (2, 1)), rtol=1e-9)
    np.testing.assert_allclose(standard_quantiles(None, QUANTILES)[0], found[0], rtol=1e-9)


def test_quantiles_invert_the_shares_seen():
    tails = blend_tails((TAILS[:, None]) ** [[0.5, 2.0]], np.array([200, 200]))
    for nominal, seen in zip(TAILS[1:-1], tails[1:-1], strict=True):
        for output in range(2):
            width = standard_quantiles(tails, np.array([1 - seen[output] / 2]))[output, 0]
            assert 2 * stats.norm.sf(width) == pytest.approx(nominal, rel=1e-9)
