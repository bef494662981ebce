"""Decide by what a network does not know: the examples of decisions, over many seeds.

    python -m benchmarks decisions
    python -m benchmarks decisions --parts bandit --seeds 20

optimisation: values until the best is close to the minimum (within 0.1 % of the range of Branin's
function, 1 % of Hartmann's), by functions drawn from a network, beside a Gaussian process (lower
confidence bound and expected improvement) and a random choice of the same points. bandit: what
Thompson sampling loses, beside other policies with the same network, in pairs with the same
visitors. active: the error after labels are asked where the epistemic standard deviation is large,
beside random ones. Models and policies are those of the examples.
"""

from __future__ import annotations

import argparse
import ast
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from sktagi import TAGIRegressor

from .markdown import markdown

EXAMPLES = Path(__file__).parents[1] / "examples"
PARTS = "optimisation", "bandit", "active"
FUNCTIONS = "Branin", "Hartmann"


@cache
def definitions(name: str) -> dict[str, Any]:
    """Return functions and constants of an example, without what it prints and draws."""
    kept = []
    for node in ast.parse((EXAMPLES / name).read_text()).body:
        is_constant = isinstance(node, ast.Assign) and all(
            part.id.isupper() for part in ast.walk(node.targets[0]) if isinstance(part, ast.Name)
        )
        is_import = isinstance(node, (ast.Import, ast.ImportFrom))
        draws = is_import and "matplotlib" in ast.unparse(node)
        if is_constant or isinstance(node, ast.FunctionDef) or (is_import and not draws):
            kept.append(node)
    names: dict[str, Any] = {"__name__": name.removesuffix(".py")}
    exec(compile(ast.Module(kept, []), name, "exec"), names)
    return names


# ------------------------------------------------------------------------- Bayesian optimisation

HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
SHARP = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
PLACE = np.array(
    [[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]
) / 1e4  # fmt: skip


def hartmann(U: np.ndarray) -> np.ndarray:
    """Hartmann's function of three inputs."""
    return -np.exp(-(SHARP * np.square(U[:, None] - PLACE)).sum(axis=2)) @ HEIGHTS


def function_of(name: str) -> tuple[Callable, int, float]:
    """Return a function of the unit cube, its number of inputs, and what is close enough."""
    if name == "Hartmann":
        return hartmann, 3, -3.86278 * 0.99
    example = definitions("plot_bayesian_optimisation.py")
    return example["branin"], 2, example["MINIMUM"] + example["CLOSE"]


def gaussian_process(U: np.ndarray, y: np.ndarray) -> GaussianProcessRegressor:
    kernel = ConstantKernel(1.0, (0.01, 1000)) * Matern(np.ones(U.shape[1]), (0.01, 100), nu=2.5)
    kernel += WhiteKernel(1e-6, (1e-10, 0.1))
    return GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=1, random_state=len(y)
    ).fit(U, y)


def lower_bound(U: Any, y: Any, points: np.ndarray, rng: Any) -> int:
    mean, std = gaussian_process(U, y).predict(points, return_std=True)
    return int((mean - 2 * std).argmin())


def expected_improvement(U: Any, y: Any, points: np.ndarray, rng: Any) -> int:
    mean, std = gaussian_process(U, y).predict(points, return_std=True)
    gain = (y.min() - mean) / std
    return int((std * (gain * norm.cdf(gain) + norm.pdf(gain))).argmax())


def by_default(U: Any, y: Any, points: np.ndarray, rng: Any) -> int:
    model = TAGIRegressor(random_state=len(y)).fit(U, y)
    return int(model.sample_functions(1, rng)(points)[:, 0].argmin())


def optimisation(n_seeds: int, n_values: int, names: Sequence[str], *, default: bool) -> str:
    example = definitions("plot_bayesian_optimisation.py")
    ways = {
        "Gaussian process, lower bound": lower_bound,
        "TAGI, drawn functions": example["thompson"],
        "Gaussian process, expected improvement": expected_improvement,
        "at random": example["at_random"],
    }
    if default:
        ways["TAGI by default, drawn functions"] = by_default
    rows = []
    for function in names:
        values, n_inputs, enough = function_of(function)
        for way, choose in ways.items():
            needed = []
            for seed in range(n_seeds):
                _, y = example["minimise"](
                    values, n_inputs, choose, seed, 5 * n_inputs, n_values, enough
                )
                close = np.append(y <= enough, True)  # the end counts as one more value
                needed.append(int(close.argmax()) + 1)
            rows.append([function, way, f"{np.median(needed):g}", f"{np.mean(needed):.1f}"])
            print("|", " | ".join(rows[-1]), "|", needed, flush=True)
    return markdown(["function", "by", "values: median", "mean"], rows)


# ---------------------------------------------------------------------------------------- bandit


def bandit(n_seeds: int) -> str:
    example = definitions("plot_thompson_sampling.py")
    policies = {"Thompson sampling": example["thompson"]}
    for epsilon in (0.2, 0.1, 0.05, 0.02, 0.0):
        policies[f"epsilon-greedy, {epsilon:g}"] = example["epsilon_greedy"](epsilon)
    lost = {
        name: np.array([example["play"](choose, seed)[0] for seed in range(n_seeds)])
        for name, choose in policies.items()
    }
    ours = lost["Thompson sampling"][:, -1]
    rows = []
    for name, by_visitor in lost.items():
        total, late = by_visitor[:, -1], by_visitor[:, -1] - by_visitor[:, -501]
        more = total - ours
        error = more.std(ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else np.nan
        rows.append([
            name, f"{total.mean():.0f}", f"{late.mean():.1f}", f"{more.mean():.0f} ± {error:.0f}",
            f"{(more > 0).sum()} of {n_seeds}",
        ])  # fmt: skip
    rows[0][3:] = ["", ""]
    header = ["policy", "lost", "by the last 500", "more than Thompson sampling", "seeds with more"]
    return markdown(header, rows)


# ------------------------------------------------------------------------------- active learning


def active(n_seeds: int) -> str:
    example = definitions("plot_active_learning.py")
    rows = []
    for pool, share in (("crowded", 0.2), ("even", 1.0)):
        last = {
            asks: np.array([example["learning_curve"](s, share, asks)[-1] for s in range(n_seeds)])
            for asks in (False, True)
        }
        better = (last[True] < last[False]).sum()
        means = [f"{last[asks].mean():.3f}" for asks in (False, True)]
        rows.append([pool, *means, f"{better} of {n_seeds}"])
    return markdown(["pool", "RMSE, at random", "where unsure", "seeds with less"], rows)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--values", type=int, default=60, help="of a function, at most")
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS)
    parser.add_argument("--default", action="store_true", help="optimise by default settings, too")


def main(args: argparse.Namespace) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in args.parts:
            print(f"\n{part}, {args.seeds} seeds\n", flush=True)
            if part == "optimisation":
                print(optimisation(args.seeds, args.values, args.functions, default=args.default))
            else:
                print(bandit(args.seeds) if part == "bandit" else active(args.seeds))
