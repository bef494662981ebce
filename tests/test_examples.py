"""What the examples say is true, on seeds other than those that they draw."""

import ast
import runpy
from pathlib import Path

import numpy as np
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
    for seed in (1, 2, 3):
        model = toy["TAGIRegressor"](random_state=seed).fit(*toy["make_data"](seed))
        coverage, widening = toy["coverage_and_widening"](model)
        assert 0.83 < coverage < 0.97
        assert widening > 1.4


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
    proba, std, right = reject["sure_and_right"](seed)
    for uncertainty, gain in ((1 - proba, 0.02), (std, 0.007)):
        everything, most, fewer = reject["accuracy_of_kept"](uncertainty, right, [1, 0.9, 0.8])
        assert everything > 0.92
        assert most > everything + gain
        assert fewer > most


def test_asking_where_unsure_beats_random_in_a_crowded_pool():
    active = functions_of("plot_active_learning.py")
    curves = {
        asks: np.mean([active["learning_curve"](seed, 0.2, asks) for seed in (3, 4)], axis=0)
        for asks in (True, False)
    }
    assert curves[True][0] == pytest.approx(curves[False][0])  # the same start
    assert curves[True][-1] < 0.7 * curves[False][-1]


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


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("plot_*.py")), ids=lambda path: path.stem)
def test_pictures_are_drawn_and_labelled(example, monkeypatch):
    """Every line of an example runs; fits are cut short, so this says nothing about claims."""
    plt = pytest.importorskip("matplotlib.pyplot")
    fit_epochs = _base.fit_epochs

    def one_epoch(*args, max_iter, **kwargs):
        return fit_epochs(*args, max_iter=min(max_iter, 1), **kwargs)

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
