"""Layers, their prior, forgetting; the network and its members."""

import numpy as np
import pytest
from helpers import DTYPES, copy_layers, make_network, member, random_layers

from sktagi.engine.posterior import (
    Calibration,
    FullLayer,
    Network,
    draw_prior,
    forget,
    full_prior,
)
from sktagi.engine.rescaling import Change


def forget_all(layers, retained):
    for layer in layers:
        forget(layer.var, layer.var_prior, retained)


def assert_layers_equal(layers, expected, rtol):
    for layer, other in zip(layers, expected, strict=True):
        np.testing.assert_allclose(layer.mu, other.mu, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(layer.var, other.var, rtol=rtol)


# ------------------------------------------------------------------------------------------- prior


def test_prior_variances_are_those_of_xavier():
    sizes, gain, bias_variance = [7, 20, 3], 1.7, 0.05
    layers = draw_prior(
        sizes, [np.random.default_rng(0)], weight_gain=gain, bias_variance=bias_variance
    )
    for layer, n_in, n_out in zip(layers, sizes[:-1], sizes[1:], strict=True):
        assert layer.mu.shape == layer.var.shape == (1, n_in + 1, n_out)
        np.testing.assert_allclose(layer.var[:, :-1], gain * 2 / (n_in + n_out), rtol=1e-14)
        np.testing.assert_allclose(layer.var[:, -1], bias_variance, rtol=1e-14)
        np.testing.assert_array_equal(np.broadcast_to(layer.var_prior, layer.var.shape), layer.var)


def test_prior_means_are_drawn_from_the_prior():
    (layer,) = draw_prior([299, 200], [np.random.default_rng(0)], bias_variance=0.3)
    standard = layer.mu / np.sqrt(layer.var)
    for part in (standard[:, :-1], standard[:, -1]):
        n = part.size
        assert abs(part.mean()) < 4 / np.sqrt(n)
        assert abs(part.std() - 1) < 4 / np.sqrt(2 * n)


def test_members_draw_their_means_independently_of_each_other():
    together = draw_prior([4, 5, 1], [np.random.default_rng(s) for s in (1, 2)])
    for m, seed in enumerate((1, 2)):
        alone = draw_prior([4, 5, 1], [np.random.default_rng(seed)])
        for layer, other in zip(together, alone, strict=True):
            np.testing.assert_array_equal(layer.mu[m], other.mu[0])
    assert not np.any(together[0].mu[0] == together[0].mu[1])


def test_single_precision_draws_are_the_double_ones_rounded():
    double = draw_prior([6, 5, 2], [np.random.default_rng(3)])
    single = draw_prior([6, 5, 2], [np.random.default_rng(3)], dtype=np.float32)
    for a, b in zip(double, single, strict=True):
        for name in ("mu", "var", "var_prior"):
            wide, narrow = getattr(a, name), getattr(b, name)
            assert narrow.dtype == np.float32
            np.testing.assert_array_equal(wide.astype(np.float32), narrow)


# -------------------------------------------------------------------------------------- forgetting


@pytest.mark.parametrize("dtype", DTYPES)
def test_forgetting_nothing_changes_nothing(dtype):
    layers = random_layers([3, 4, 2], seed=28, dtype=dtype)
    prior = copy_layers(layers)
    forget_all(layers, dtype(1))
    for layer, old in zip(layers, prior, strict=True):
        np.testing.assert_array_equal(layer.var, old.var)
        np.testing.assert_array_equal(layer.mu, old.mu)


@pytest.mark.parametrize("dtype", DTYPES)
def test_forgetting_everything_gives_the_prior_variance(dtype):
    layers = random_layers([3, 4, 2], seed=29, dtype=dtype)
    means = [layer.mu.copy() for layer in layers]
    forget_all(layers, dtype(0))
    for layer, mu in zip(layers, means, strict=True):
        expected = np.broadcast_to(layer.var_prior, layer.var.shape)
        np.testing.assert_allclose(layer.var, expected, rtol=10 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(layer.mu, mu)


@pytest.mark.parametrize("retained", [0.1, 0.7, 0.99])
def test_forgetting_twice_equals_forgetting_the_square(retained):
    twice, once = (random_layers([3, 4, 2], seed=30) for _ in range(2))
    forget_all(twice, retained)
    forget_all(twice, retained)
    forget_all(once, retained**2)
    assert_layers_equal(twice, once, 1e-13)


def test_forgetting_mixes_precisions():
    layers = random_layers([3, 2], seed=31)
    before = layers[0].var.copy()
    forget_all(layers, 0.6)
    np.testing.assert_allclose(
        1 / layers[0].var, 0.4 / layers[0].var_prior + 0.6 / before, rtol=1e-12
    )


def test_each_network_forgets_at_its_own_rate():
    layers = random_layers([3, 4, 2], seed=32, members=2)
    alone = [member(layers, m) for m in range(2)]
    forget_all(layers, np.array([0.3, 1.0]).reshape(2, 1, 1))
    for m, retained in enumerate((0.3, 1.0)):
        forget_all(alone[m], retained)
        assert_layers_equal(member(layers, m), alone[m], 1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_forgetting_in_given_memory_gives_the_same(dtype):
    here, there = (random_layers([3, 4], seed=33, dtype=dtype)[0] for _ in range(2))
    work = np.full_like(here.var, np.nan)
    forget(here.var, here.var_prior, dtype(0.6), work)
    forget(there.var, there.var_prior, dtype(0.6))
    np.testing.assert_array_equal(here.var, there.var)
    assert not np.isnan(work).any()


# ------------------------------------------------------------------------------------------ layers


def random_full_layer(n_in, n_out, seed=0, members=3):
    (layer,) = random_layers([n_in, n_out], seed, members=members)
    rng = np.random.default_rng(seed)
    n_params = (n_in + 1) * n_out
    root = rng.normal(size=(members, n_params, n_params + 2))
    cov = root @ root.swapaxes(-1, -2) / n_params
    return FullLayer(layer.mu, cov, layer.var_prior, rng.uniform(size=members))


LAYERS = {
    "diag": lambda seed=0: random_layers([3, 2], seed, members=3)[0],
    "full": lambda seed=0: random_full_layer(3, 2, seed),
}
ARRAYS = {"diag": ("mu", "var"), "full": ("mu", "cov", "fading")}


@pytest.mark.parametrize("kind", LAYERS)
def test_a_copy_of_a_layer_has_arrays_of_its_own(kind):
    layer = LAYERS[kind]()
    copy = layer.copy()
    assert type(copy) is type(layer)
    for name in ARRAYS[kind]:
        np.testing.assert_array_equal(getattr(copy, name), getattr(layer, name))
        assert not np.shares_memory(getattr(copy, name), getattr(layer, name))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(("numbers", "is_view"), [
    (1, True), (slice(1, 3), True), (np.array([2, 0]), False),
])  # fmt: skip
def test_members_of_a_layer_are_those_of_its_arrays(kind, numbers, is_view):
    layer = LAYERS[kind]()
    some = layer.members(numbers)
    for name in ARRAYS[kind]:
        whole, part = getattr(layer, name), getattr(some, name)
        np.testing.assert_array_equal(part, whole[numbers])
        if part.ndim:
            assert np.shares_memory(part, whole) == is_view
    np.testing.assert_array_equal(some.var_prior, layer.var_prior)


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_takes_over_members_of_another(kind):
    mine, theirs = (LAYERS[kind](seed) for seed in (0, 1))
    before = mine.copy()
    mine.assign(np.array([2, 0]), theirs, np.array([0, 1]))
    for name in ARRAYS[kind]:
        new, old, other = (getattr(layer, name) for layer in (mine, before, theirs))
        np.testing.assert_array_equal(new[[2, 0]], other[:2])
        np.testing.assert_array_equal(new[1], old[1])
        assert not np.any(new[[2, 0]] == old[[2, 0]])
        assert not np.shares_memory(new, other)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_tempered_layer_has_other_variances_and_the_same_means(kind, dtype):
    layer = LAYERS[kind]()
    layer.mu = layer.mu.astype(dtype)
    if kind == "diag":
        layer.var = layer.var.astype(dtype)
    before = layer.copy()
    tempered = layer.tempered(0.25)
    np.testing.assert_array_equal(tempered.mu, layer.mu)
    np.testing.assert_array_equal(tempered.var, 0.25 * layer.var)
    assert tempered.var.dtype == dtype
    np.testing.assert_array_equal(layer.var, before.var)
    if kind == "full":
        np.testing.assert_array_equal(tempered.cov, 0.25 * layer.cov)


def test_variances_of_a_full_layer_are_the_diagonals_of_its_covariances():
    layer = random_full_layer(3, 2)
    for m, k, o in np.ndindex(layer.mu.shape):
        assert layer.var[m, k, o] == layer.cov[m, 2 * k + o, 2 * k + o]
    layer.mu = layer.mu.astype(np.float32)
    assert layer.var.dtype == np.float32


def test_full_prior_is_the_diagonal_one():
    diagonal = random_layers([3, 4, 2], 34, members=2)
    for old, new in zip(diagonal, full_prior(diagonal), strict=True):
        np.testing.assert_array_equal(new.mu, old.mu)
        np.testing.assert_array_equal(new.var, old.var)
        np.testing.assert_array_equal(new.var_prior, old.var_prior)
        np.testing.assert_array_equal(new.fading, np.zeros(2))
        beside = ~np.eye(new.cov.shape[-1], dtype=bool)
        assert not new.cov[:, beside].any()
        assert new.cov.dtype == np.float64


def outputs_of(layer, x, m):
    """Mean and covariance of a layer's outputs for one input, of one member."""
    n_out = layer.mu.shape[-1]
    cov = layer.cov[m] if isinstance(layer, FullLayer) else np.diag(layer.var[m].ravel())
    design = np.kron(x, np.eye(n_out))  # of the parameters in the order of mu.ravel()
    return design @ layer.mu[m].ravel(), design @ cov @ design.T


@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_in_other_units_is_the_same_function(kind):
    """Of inputs, x_old = ratio x_new + shift; its full covariance too, and that of outputs."""
    x = np.array([0.3, -1.2, 2.0])
    ratio, shift = np.array([2.0, 0.5, 10.0]), np.array([1.0, -3.0, 0.2])
    layer = LAYERS[kind]()
    before = layer.copy()
    layer.rescale_inputs(Change(ratio, shift))
    for m in range(3):
        mean, cov = outputs_of(layer, np.append((x - shift) / ratio, 1), m)
        expected = outputs_of(before, np.append(x, 1), m)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-10)
        if kind == "full":
            np.testing.assert_allclose(cov, expected[1], rtol=1e-9)
    layer, (ratio, shift) = before.copy(), np.array([[4.0, 0.1], [-1.0, 5.0]])
    layer.rescale_outputs(Change(ratio, shift))
    for m in range(3):
        mean, cov = outputs_of(layer, np.append(x, 1), m)
        expected = outputs_of(before, np.append(x, 1), m)
        np.testing.assert_allclose(mean, (expected[0] - shift) / ratio, rtol=1e-10)
        if kind == "full":
            np.testing.assert_allclose(cov, expected[1] / np.outer(ratio, ratio), rtol=1e-9)


# ------------------------------------------------------------------------------------- the network


def random_network(members=3, *, full=False, seed=0):
    """Without two equal numbers."""
    net = make_network([3, 4, 2], members=members)
    rng = np.random.default_rng(seed)
    net.layers = random_layers([3, 4, 2], seed, members=members)
    if full:
        net.layers = [random_full_layer(*sizes, seed, members) for sizes in ((3, 4), (4, 2))]
    net.noise_var[...] = rng.uniform(0.1, 1, size=net.noise_var.shape)
    net.rows_learned[...] = rng.uniform(1, 100, size=net.noise_var.shape)
    return net


def arrays_of(net):
    names = ARRAYS["full" if net.is_full else "diag"]
    layers = [getattr(layer, name) for layer in net.layers for name in names]
    return [*layers, net.noise_var, net.rows_learned]


@pytest.mark.parametrize("full", [False, True])
def test_a_copy_of_a_network_has_arrays_of_its_own(full):
    net = random_network(full=full)
    copy = net.copy()
    assert copy.is_full == net.is_full == full
    for mine, theirs in zip(arrays_of(copy), arrays_of(net), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert not np.shares_memory(mine, theirs)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("numbers", "is_view"), [
    (slice(0, 2), True), (np.array([2, 0]), False), (np.array([], int), False),
])  # fmt: skip
def test_members_of_a_network_are_those_of_its_arrays(full, numbers, is_view):
    net = random_network(full=full)
    some = net.members(numbers)
    assert some.n_members == len(arrays_of(some)[0])
    for whole, part in zip(arrays_of(net), arrays_of(some), strict=True):
        np.testing.assert_array_equal(part, whole[numbers])
        assert np.shares_memory(part, whole) == is_view


@pytest.mark.parametrize("learn_noise", [False, True])
def test_copies_and_members_are_otherwise_the_same_network(learn_noise):
    net = random_network()
    net.noise_is_learned = learn_noise
    net.calibration = Calibration(0.5, np.ones((2, 1)), np.empty(0))
    for other in (net.copy(), net.members(slice(0, 2)), net.members(np.array([1]))):
        assert other.activation is net.activation
        assert other.outputs is net.outputs
        assert other.noise_is_learned == learn_noise
        assert other.calibration is net.calibration


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("theirs", [None, np.array([0, 1])])
def test_a_network_takes_over_members_of_another(full, theirs):
    net, other = (random_network(full=full, seed=seed) for seed in (0, 1))
    before, members = net.copy(), np.array([2, 0])
    net.assign(other, members, theirs)
    taken = members if theirs is None else theirs
    for new, old, source in zip(arrays_of(net), arrays_of(before), arrays_of(other), strict=True):
        np.testing.assert_array_equal(new[members], source[taken])
        np.testing.assert_array_equal(new[1], old[1])
        assert not np.any(new[members] == old[members])


def test_rows_learned_begin_at_zero_for_each_noise():
    net = Network(random_layers([2, 3], 0, members=4), None, None, np.ones((4, 3, 1)))
    np.testing.assert_array_equal(net.rows_learned, np.zeros((4, 3, 1)))
    assert net.n_members == 4


@pytest.mark.parametrize("dtype", DTYPES)
def test_precision_of_a_network_is_that_of_its_means(dtype):
    assert make_network([3, 4, 2], dtype=dtype).dtype == dtype


BAD = {
    "mean": (0, "mu", np.nan), "infinite mean": (1, "mu", -np.inf),
    "variance": (1, "var", np.nan), "infinite variance": (0, "var", np.inf),
    "no variance": (0, "var", 0.0), "negative variance": (1, "var", -1e-9),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("full", [False, True])
def test_one_bad_number_anywhere_makes_a_network_unsound(kind, full):
    net = random_network(full=full)
    assert net.is_sound()
    number, name, value = BAD[kind]
    if name == "var" and full:
        net.layers[number].cov[2, 3, 3] = value
    else:
        getattr(net.layers[number], name)[2, 1, 1] = value
    assert not net.is_sound()
    assert net.members(slice(0, 2)).is_sound()


@pytest.mark.parametrize("full", [False, True])
def test_a_network_without_calibration_is_reported_as_it_is(full):
    net = random_network(full=full)
    assert net.reported() is net
    np.testing.assert_array_equal(net.reported_noise, net.noise_var)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_a_calibrated_network_is_reported_with_other_variances(full, temperature):
    net = random_network(full=full)
    scale = np.array([[2.0], [0.5]])
    net.calibration = Calibration(temperature, scale, np.empty(0))
    before, reported = net.copy(), net.reported()
    np.testing.assert_array_equal(reported.noise_var, scale * net.noise_var)
    np.testing.assert_array_equal(net.reported_noise, scale * net.noise_var)
    for mine, theirs in zip(reported.layers, net.layers, strict=True):
        np.testing.assert_array_equal(mine.mu, theirs.mu)
        np.testing.assert_array_equal(mine.var, temperature * theirs.var)
    # What predictions change is changed once, and what was learned stays.
    assert reported.reported() is reported
    for mine, theirs in zip(arrays_of(net), arrays_of(before), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("spread", [1.0, 0.125, 2**-5])
def test_variance_of_the_mean_is_that_of_the_mixture_with_less_spread(spread):
    net = random_network()
    rng = np.random.default_rng(0)
    mu, var = rng.normal(size=(3, 2, 7)), rng.uniform(0.5, 2, size=(3, 2, 7))
    total = var.mean(axis=0) + np.square(mu).mean(axis=0) - np.square(mu.mean(axis=0))
    for learned in (False, True):  # without calibration it is the law of total variance
        found = net.variance_of_mean(mu, var, learned=learned)
        np.testing.assert_allclose(found, total, rtol=1e-12)
    net.calibration = Calibration(0.25, np.ones((2, 1)), np.empty(0), spread)
    between = total - var.mean(axis=0)
    # The reported posterior is as sure as it should be; the one that was learned is not.
    expected = var.mean(axis=0) + spread * between
    np.testing.assert_allclose(net.variance_of_mean(mu, var), expected, rtol=1e-12)
    expected = 0.25 * var.mean(axis=0) + spread * between
    np.testing.assert_allclose(net.variance_of_mean(mu, var, learned=True), expected, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_noise_must_be_sound_too(bad):
    net = make_network([2, 3, 1], members=2)
    assert net.is_sound()
    net.noise_var[1] = bad
    assert not net.is_sound()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1.0])
def test_noise_that_cannot_be_makes_a_network_unsound(value):
    net = random_network()
    net.noise_var[1, 0, 0] = value
    assert not net.is_sound()
