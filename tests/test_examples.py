"""What the examples say is true, on seeds other than those that they draw."""

import ast
import functools
import runpy
from itertools import pairwise
from math import gamma
from pathlib import Path

import numpy as np
import oracle_full
import pytest

from sktagi import _base

EXAMPLES = Path(__file__).parents[1] / "examples"


def functions_of(name: str) -> dict:
    """Functions, classes, constants and imports of an example, without running the rest of it."""
    path = EXAMPLES / name
    kept = []
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            node.names = [alias for alias in node.names if "matplotlib" not in alias.name]
        is_constant = isinstance(node, ast.Assign) and all(
            part.id.isupper() for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)
        )
        is_definition = isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.ImportFrom))
        if is_constant or is_definition or (isinstance(node, ast.Import) and node.names):
            kept.append(node)
    names: dict = {"__name__": path.stem}
    exec(compile(ast.Module(kept, []), str(path), "exec"), names)
    return names


def test_band_of_the_toy_problem_covers_and_opens_beyond_the_data():
    toy = functions_of("plot_toy.py")
    widening = []
    for seed in (1, 2, 3):
        model = toy["TAGIRegressor"](random_state=seed).fit(*toy["make_data"](seed))
        coverage, wider = toy["coverage_and_widening"](model)
        assert 0.83 < coverage < 0.97
        assert wider > 1.05
        widening.append(wider)
    assert np.mean(widening) > 1.15


@pytest.mark.parametrize("seed", [1, 2])
def test_band_follows_noise_that_varies_and_one_level_does_not(seed):
    example = functions_of("plot_varying_noise.py")
    X, y = example["make_data"](1000, n=4000)
    parts, overall, log_lik = {}, {}, {}
    for name, model in example["fit_both"](seed).items():
        parts[name], overall[name] = example["coverage_by_part"](model)
        log_lik[name] = model.log_likelihood(X, y)
    assert min(parts["constant"][:2]) > 0.98
    assert parts["constant"][-1] < 0.75
    assert min(parts["auto"]) > 0.8
    assert parts["auto"][-1] > 0.84
    assert all(0.84 < share < 0.96 for share in overall.values())
    assert log_lik["auto"] > log_lik["constant"] + 0.2


def test_members_are_less_sure_between_clusters_and_not_unsure_enough():
    example = functions_of("plot_gap.py")
    for seed in (1, 2, 3):
        found = example["network_std"](seed).values()
        (wider, off), (wider_of_gp, off_of_gp) = (example["in_the_gap"](*each) for each in found)
        assert 2 < wider < wider_of_gp
        assert off_of_gp < 3 < off


@pytest.mark.parametrize("seed", [1, 2])
def test_each_of_three_functions_is_won_by_the_kind_that_is_for_it(seed):
    example = functions_of("plot_kinds.py")
    for name, kind in (("lines", "linear"), ("waves", "smooth"), ("zigzags", "pieces")):
        data = example["make_data"](name, seed)
        weights = example["TAGIRegressor"](random_state=seed).fit(*data).kinds_
        assert weights[kind] > 0.5, name


@pytest.mark.parametrize("seed", [1, 2])
def test_prices_by_their_logarithm_are_never_negative_and_more_likely(seed):
    example = functions_of("plot_skewed_target.py")
    scores = {name: example["compare"](m) for name, m in example["fit_both"](seed).items()}
    log_lik, covered, lowest = zip(scores["price"], scores["logarithm"], strict=True)
    assert log_lik[1] > log_lik[0] + 0.05
    assert all(0.86 < share < 0.97 for share in covered)
    assert lowest[0] < 0 < lowest[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_less_that_is_known_of_a_flat_means_larger_errors_and_a_larger_std(seed):
    pytest.importorskip("pandas")
    example = functions_of("plot_real_tables.py")
    features = example["features"]
    model = example["fit"](example["read"](example["make_csv"](seed)))
    names = model.encoded_feature_names_.tolist()
    assert {"kind_infrequent", "district_missing", "energy_missing"} < set(names)
    assert "size_missing" not in names
    new = example["read"](example["make_csv"](seed + 100, n=2000, first_street=100))
    dist = model.predict_dist(features(new))
    relative = example["by_what_is_missing"](dist, new)
    assert relative["std"].is_monotonic_increasing
    assert relative["error"].is_monotonic_increasing
    low, high = dist.interval(0.9)
    inside = (low <= new["price"]) & (new["price"] <= high)
    fifth = np.digitize(dist.mean(), np.quantile(dist.mean(), [0.2, 0.4, 0.6, 0.8]))
    assert inside.groupby(fifth).mean().between(0.83, 0.98).all()
    rare = new["kind"].isin(example["RARE"])
    assert (high / low)[rare].mean() > 1.2 * (high / low)[~rare].mean()
    known = features(new).dropna()[:100]
    factor = {}
    for name, one in {
        "known": known, "windmill": known.assign(kind="windmill"), "size": known.assign(size=np.nan)
    }.items():  # fmt: skip
        low, high = model.predict_interval(one).T
        factor[name] = np.mean(high / low)
    assert factor["size"] > factor["windmill"] > 1.02 * factor["known"]
    assert factor["size"] > 1.7 * factor["known"]


def test_log_likelihood_finds_the_noise_and_r2_does_not():
    tune = functions_of("plot_tune_sigma_v.py")
    found = tune["search"](*tune["make_data"](1), 1)
    log_lik = found.cv_results_["mean_test_log_likelihood"]
    r2 = found.cv_results_["mean_test_r2"]
    assert 0.2 <= found.best_params_["sigma_v"] <= 0.5
    assert log_lik[0] < log_lik.max() - 1
    assert log_lik[-1] < log_lik.max() - 0.3
    assert np.ptp(r2[np.array(tune["SIGMA_V"]) >= 0.3]) < 0.1


def test_forgetting_network_recovers_from_a_flip_sooner():
    stream = functions_of("plot_stream.py")
    X, y = stream["make_stream"](1)
    flip, rmse = stream["FLIP"], stream["rmse"]
    never, _ = stream["follow"](X, y, None, 1)
    forgets, _ = stream["follow"](X, y, 300, 1)
    assert rmse(forgets, flip - 500, flip) < 1.3 * rmse(never, flip - 500, flip)
    assert rmse(forgets, flip + 200, flip + 500) < 0.3 < 1 < rmse(never, flip + 200, flip + 500)


@pytest.mark.parametrize("seed", [3, 4])
def test_rejecting_uncertain_digits_raises_accuracy(seed):
    reject = functions_of("plot_reject.py")
    X_train, X_test, y_train, y_test = reject["digits"](seed)
    model = reject["TAGIClassifier"](random_state=seed).fit(X_train, y_train)
    right = model.predict(X_test) == y_test
    for uncertainty in reject["how_unsure"](model, X_test).values():
        everything, most, fewer = reject["accuracy_of_kept"](uncertainty, right, [1, 0.9, 0.8])
        assert everything > 0.94
        assert most > everything + 0.015
        assert fewer > most
    epistemic, aleatoric = model.predict_entropy(X_test)
    assert epistemic.mean() > aleatoric.mean()


@pytest.mark.parametrize("seed", [3, 4])
def test_probabilities_sort_errors_that_are_chance_and_their_std_does_so_less(seed):
    reject = functions_of("plot_reject.py")
    X_train, X_test, y_train, y_test = reject["overlapping"](seed)
    model = reject["TAGIClassifier"](random_state=seed).fit(X_train, y_train)
    right = model.predict(X_test) == y_test
    half = {
        by: reject["accuracy_of_kept"](uncertainty, right, [0.5])[0]
        for by, uncertainty in reject["how_unsure"](model, X_test).items()
    }
    assert half["probability"] == pytest.approx(half["entropy"], abs=0.002)
    assert half["probability"] > right.mean() + 0.1
    assert half["probability"] > half["standard deviation"] + 0.002
    epistemic, aleatoric = model.predict_entropy(X_test)
    assert epistemic.mean() < 0.1 * aleatoric.mean()


@pytest.mark.parametrize("seed", [1, 2])
def test_images_that_are_no_digits_are_not_known(seed):
    unlike = functions_of("plot_unlike_classes.py")
    X_train, y_train, kinds = unlike["make_images"](seed)
    models = unlike["fit_both"](X_train, y_train, seed)
    tops = unlike["top_probabilities"](models, kinds)
    for name, by_kind in tops.items():
        assert by_kind["digits"].mean() > 0.95, name
    for kind in ("noise", "inverted digits"):
        assert tops["TAGIClassifier"][kind].mean() < 0.5  # 0.2 to 0.4, by the draw of the prior
        assert tops["MLPClassifier"][kind].mean() > 0.8
    unknown = {kind: models["TAGIClassifier"].predict_entropy(X)[0] for kind, X in kinds.items()}
    threshold = np.quantile(unknown["digits"], 0.99)
    assert all((unknown[kind] > threshold).mean() > 0.95 for kind in ("noise", "inverted digits"))


def test_asking_where_unsure_beats_random_in_a_crowded_pool():
    active = functions_of("plot_active_learning.py")
    curves = {
        asks: np.mean([active["learning_curve"](seed, 0.2, asks) for seed in (3, 4)], axis=0)
        for asks in (True, False)
    }
    assert curves[True][0] == pytest.approx(curves[False][0])  # the same start
    assert curves[True][-1] < 0.7 * curves[False][-1]


def test_drawn_functions_find_a_minimum_sooner_than_random_points():
    example = functions_of("plot_bayesian_optimisation.py")
    places = np.array([[-np.pi, 12.275], [np.pi, 2.275], [9.42478, 2.475]]) + np.array([5, 0])
    values = example["branin"](places / 15)
    np.testing.assert_allclose(values, example["MINIMUM"], atol=1e-5)
    needed = {"thompson": [], "at_random": []}
    for name, found in needed.items():
        for seed in (10, 11, 12):
            _, y = example["minimise"](example["branin"], 2, example[name], seed)
            found.append(example["evaluations"](y))
    assert np.mean(needed["thompson"]) < 0.85 * np.mean(needed["at_random"])
    assert max(needed["thompson"]) <= example["LAST"]


def test_thompson_sampling_loses_less_than_a_greedy_policy_and_less_and_less():
    example = functions_of("plot_thompson_sampling.py")
    seeds = (20, 21, 22)
    lost = {
        name: np.mean([example["play"](choose, seed)[0] for seed in seeds], axis=0)
        for name, choose in (
            ("thompson", example["thompson"]),
            ("random", example["epsilon_greedy"](0.1)),
            ("best", example["epsilon_greedy"](0.0)),
        )
    }
    assert lost["thompson"][-1] < 0.85 * min(lost["random"][-1], lost["best"][-1])
    late = {name: of_policy[-1] - of_policy[-501] for name, of_policy in lost.items()}
    assert late["thompson"] < 0.7 * late["random"]
    assert late["thompson"] < 0.4 * lost["thompson"][500]


def test_known_input_errors_help():
    measured = functions_of("plot_measured_inputs.py")
    for seed in (1, 2):
        models = measured["fit_both"](seed)
        (ll_ignores, ll_told), (off_ignores, off_told) = measured["compare"](*models, seed + 100)
        assert ll_told > ll_ignores + 0.05
        assert off_told < 0.85 * off_ignores
        _, (sharp, blurred) = models[1].predict([[0.5], [0.5]], True, X_std=[[0.0], [1.0]])
        assert blurred > 1.3 * sharp


def test_order_of_the_models_in_the_comparison():
    compare = functions_of("plot_compare_models.py")["compare"]
    for seed in (1, 2):
        results = compare(300, seed)
        log_lik, rmse = ({name: scores[k] for name, scores in results.items()} for k in (0, 1))
        for scores, sign in ((log_lik, 1), (rmse, -1)):
            ours = sign * scores["TAGIRegressor"]
            assert sign * scores["GaussianProcessRegressor"] > ours
            assert ours > sign * scores["BayesianRidge"]
            assert ours > sign * scores["MLPRegressor"]
        assert (
            log_lik["TAGIRegressor"] > max(log_lik["BayesianRidge"], log_lik["MLPRegressor"]) + 0.1
        )


# The paper's figures


def test_gaussian_of_a_sum_of_products_has_its_moments_and_nears_its_density():
    products = functions_of("plot_paper_products.py")
    found = []
    for n_activations in (1, 5, 10):
        mean, var = products["moments"](n_activations)
        assert (mean, var) == (0, pytest.approx(n_activations))
        draws = products["sample"](n_activations, seed=1, n_draws=200_000)
        ratio, kurtosis, apart = products["differences"](draws, mean, var)
        assert ratio == pytest.approx(1, abs=0.03)
        assert kurtosis == pytest.approx(6 / n_activations, rel=0.2)
        found.append(apart)
    assert found[0] > 0.08
    assert found[0] > 3 * found[1] > 4.5 * found[2]


def test_correlation_of_two_units_falls_with_the_width():
    hidden = functions_of("plot_paper_hidden_correlation.py")
    for n_activations in (2, 10, 100):
        rho = hidden["correlations"](n_activations, seed=1, n_draws=300)
        assert abs(rho.mean()) < 4 * rho.std() / np.sqrt(300)
        assert rho.std() == pytest.approx(n_activations**-0.5, rel=0.15)
    rng = np.random.RandomState(2)
    weights = hidden["draw_weights"](10, rng)
    sampled = hidden["sampled_correlation"](weights, rng)
    assert hidden["correlation"](weights) == pytest.approx(sampled, abs=0.03)


def test_tangent_is_exact_at_the_mean_and_errs_with_the_variance():
    paper = functions_of("plot_paper_linearisation.py")
    mu_z = paper["MEANS"]
    errors = []
    for std_z in (0.01, paper["STD"], 1.0):
        mu_a, std_a, jac = paper["linearised"](mu_z, std_z)
        np.testing.assert_allclose(mu_a, np.log1p(np.exp(mu_z)))
        np.testing.assert_allclose(jac, 1 / (1 + np.exp(-mu_z)))
        mean, std = paper["sampled"](mu_z, std_z, seed=1)
        errors.append(np.append(mean - mu_a, std - std_a))
    np.testing.assert_allclose(errors[0], 0, atol=2e-4)
    np.testing.assert_allclose(errors[1], 0, atol=0.01)
    assert (errors[2][:3] > 0.08).all()
    a = np.linspace(1e-4, 4, 100_000)
    density = paper["true_density"](a, 0.0, 0.25)
    total, mean = np.trapezoid(density, a), np.trapezoid(density * a, a)
    assert total == pytest.approx(1, abs=1e-3)
    assert mean - np.log(2) == pytest.approx(errors[1][1], abs=1e-3)


def test_correlation_given_a_sum_falls_with_the_number_of_terms():
    sums = functions_of("plot_paper_sums.py")
    for n in (2, 5, 10, 100):
        np.testing.assert_allclose(sums["correlations"](n), -1 / (n - 1), rtol=1e-3)
    for n in (5, 10):
        rho, n_kept = sums["sampled_correlation"](n, seed=1)
        assert n_kept > 1000
        assert rho == pytest.approx(-1 / (n - 1), rel=0.05)


@pytest.mark.parametrize(("data_seed", "seed"), [(0, 2), (2, 0), (2, 1)])
def test_held_out_points_of_the_paper_are_most_likely_before_the_last_epoch(data_seed, seed):
    toy = functions_of("plot_paper_toy.py")
    train, valid = toy["learning_curves"](toy["make_data"](data_seed), seed=seed)
    assert 20 < valid.argmax() < 45
    assert valid[0] < valid[1] < valid.max() - 0.4
    assert valid[-1] < valid.max() - 0.02
    assert train.argmax() > 45


def test_sampler_of_the_toy_problem_has_the_gradient_of_its_energy():
    toy = functions_of("plot_paper_toy.py")
    data = toy["make_data"](2)
    target = toy["Target"](next(toy["epochs"](data, seed=0)), data)
    position, direction = np.random.RandomState(0).standard_normal((2, 3, len(target.mean)))
    _, gradient = target.energy(position)
    step = 1e-6
    high, low = (target.energy(position + sign * step * direction)[0] for sign in (1, -1))
    slope = (gradient * direction).sum(axis=1)
    np.testing.assert_allclose((high - low) / (2 * step), slope, rtol=1e-4)


class Known:
    """Two correlated Gaussian columns, and one whose energy is its fourth power over four."""

    mean = np.zeros(3)
    center, cov = np.array([1.0, -2.0]), np.array([[0.25, 0.4], [0.4, 1.0]])

    def energy(self, position):
        shift, last = position[:, :2] - self.center, position[:, 2]
        by_shift = shift @ np.linalg.inv(self.cov)
        energy = 0.5 * (by_shift * shift).sum(axis=1) + last**4 / 4
        return energy, np.column_stack([by_shift, last**3])


def test_sampler_of_the_toy_problem_draws_from_the_density_of_an_energy():
    toy = functions_of("plot_paper_toy.py")
    draws, _ = toy["hmc"](Known(), n_chains=50, n_warm_up=80, n_draws=200)
    assert toy["r_hat"](draws).max() < 1.05
    draws = draws.reshape(-1, 3)
    np.testing.assert_allclose(draws.mean(axis=0), [1, -2, 0], atol=0.06)
    np.testing.assert_allclose(np.cov(draws[:, :2].T), Known.cov, rtol=0.1)
    assert np.mean(draws[:, 2] ** 2) == pytest.approx(2 * gamma(0.75) / gamma(0.25), rel=0.05)


def test_sampler_of_the_toy_problem_mixes_and_a_wide_prior_opens_its_band():
    toy = functions_of("plot_paper_toy.py")
    data = toy["make_data"](2)
    target_of = functools.partial(toy["Target"], next(toy["epochs"](data, seed=0)), data)
    x = np.linspace(-6, 6, 25)
    opening, scores = [], []
    for widen in (1, toy["WIDEN"]):
        target = target_of(widen)
        draws, acceptance = toy["hmc"](target, n_chains=4, n_warm_up=60, n_draws=60)
        f = toy["outputs"](target, draws, x, data)
        assert 0.6 < acceptance < 0.95
        assert toy["r_hat"](f).max() < 1.1
        std = f.std(axis=(0, 1))
        opening.append(std[[0, -1]].mean() / std[np.abs(x) <= 4].mean())
        at_points = toy["outputs"](target, draws, data.x_valid, data)
        scores.append(toy["log_likelihood_of_draws"](data.y_valid, at_points))
    assert 2.5 < opening[0] < 4.5
    assert opening[1] > 5.5
    _, valid = toy["learning_curves"](data, seed=0)
    assert scores[0] < valid.max() - 0.1 < scores[1]


def test_few_units_are_correlated_and_many_are_not():
    paper = functions_of("plot_paper_correlations.py")
    for seed in (1, 2):
        few, many = (paper["follow"]((n_units,), seed=seed) for n_units in (5, 50))
        assert set(few) == set(many) == {"θ(0)", "θ(1)", "z(1)"}
        for name, (first_epoch, epochs) in few.items():
            assert first_epoch.shape[1] == 20
            assert (np.diff(epochs, axis=0) <= 0).all()
            assert paper["strong"](epochs[:, -1]) > 0.15
            assert paper["strong"](many[name][1][:, -1]) < 0.05


def test_every_pair_of_units_has_the_same_place_in_a_map():
    paper = functions_of("plot_paper_correlations.py")
    rho = 0.8 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))  # 4 of 10 pairs have 0.8
    column = paper["sorted_correlations"](rho)
    assert paper["strong"](column, 0.79) == pytest.approx(0.4, abs=0.005)
    assert paper["strong"](column, 0.42) == pytest.approx(0.9, abs=0.005)
    assert (column[0], column[-1]) == (pytest.approx(0.8), pytest.approx(0.8**4))


def test_correlations_of_hidden_units_are_those_of_the_equations_written_out():
    paper = functions_of("plot_paper_correlations.py")
    rng = np.random.RandomState(0)
    for sizes in ((5,), (5, 5)):
        layers = []
        for n_in, n_out in pairwise([1, *sizes, 1]):
            root = rng.standard_normal(((n_in + 1) * n_out,) * 2)
            mu = rng.standard_normal((n_in + 1, n_out))
            layers.append(paper["Posterior"](mu, root @ root.T / len(root)))
        x = np.array([0.7])
        found = paper["unit_covariances"](layers, x, 0.3)
        expected = posterior_of_units(layers, x, 0.3)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())


def posterior_of_units(layers, x, sigma_v):
    """Covariance of the hidden units of each layer given an output, by Eq. 14-15 written out."""
    flat = [(layer.mu.ravel(), layer.cov) for layer in layers]
    record = oracle_full.forward(flat, "relu", x[None], np.zeros((1, 1, 1)))
    cov_z = record[-1][3]
    cov_post = cov_z - cov_z**2 / (cov_z + sigma_v**2)
    found = []
    for _, cov_z, _, cov_next, _, cov_next_z in reversed(record[1:]):
        gain = cov_next_z.T @ np.linalg.inv(cov_next)
        cov_post = cov_z + gain @ (cov_post - cov_next) @ gain.T
        found.append(cov_post)
    return found[::-1]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_pictures_are_drawn_and_labelled(example, monkeypatch):
    """Every line of an example runs; fits are cut short, so this says nothing about claims."""
    plt = pytest.importorskip("matplotlib.pyplot")
    fit_epochs = _base.fit_epochs

    def one_epoch(net, sources, plan, finish, **kwargs):
        plan = plan._replace(max_iter=min(plan.max_iter, 1))
        return fit_epochs(net, sources, plan, finish, **kwargs)

    monkeypatch.setattr(_base, "fit_epochs", one_epoch)
    monkeypatch.setattr("sys.argv", [str(example)])
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    try:
        runpy.run_path(str(example), run_name="__main__")
        axes = [ax for number in plt.get_fignums() for ax in plt.figure(number).axes]
        assert axes
        for ax in axes:
            place = ax.get_subplotspec()  # axes that are shared are labelled at the outer edge
            assert ax.get_xlabel() or not place.is_last_row()
            assert ax.get_ylabel() or not place.is_first_col()
    finally:
        plt.close("all")
