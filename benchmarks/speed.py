"""Seconds beside scikit-learn's MLP and beside the bare matrix products, and peak memory.

    python -m benchmarks speed                      # all cases, on made data
    python -m benchmarks speed --data FOLDER        # with concrete, kin8nm and MNIST
    python -m benchmarks speed --cases small wide
    python -m benchmarks speed --cases growth --plot growth.png
    python -m benchmarks speed --cases wide --profile   # and where the time of our fits goes

Each line is a ratio of two medians over interleaved repeats in one run: the same network, rows,
batches and epochs. Lines that end in "alone" time a part of the work by itself (``floors``): what a
fit takes at least.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse
from sklearn.datasets import make_friedman1
from sklearn.neural_network import MLPClassifier, MLPRegressor

from sktagi import TAGIClassifier, TAGIRegressor
from sktagi.engine.posterior import draw_prior

from .data import load_mnist, load_uci
from .floors import conditioning, fetching, passes, products

ONE = dict(half_life=None, n_members=1, early_stopping=False)  # one network, nothing else
FIXED = dict(sigma_v=0.32, **ONE)
LONG = dict(tol=0.0, n_iter_no_change=10**6)  # an MLP runs all epochs


# What a fit spends its time on: functions of the engine, and what they call.
PARTS = {
    "forward pass": ("forward",), "check of the sum": ("_overshoots",),
    "covariance between rows": ("hidden_covariance", "output_covariance"),
    "joint conditioning": ("joint",), "backward pass": ("backward",),
    "of that, elementwise": ("_update_block",), "prior": ("draw_prior",),
}  # fmt: skip


def measure(functions: dict[str, Callable], repeats: int) -> dict[str, float]:
    """The median of each function's seconds; the functions take turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for repeat in range(repeats + 1):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if repeat:  # the first warms up
                times[name].append(time.perf_counter() - start)
    return {name: float(np.median(taken)) for name, taken in times.items()}


def report(case: str, seconds: dict[str, float], of: str, goal: float, note: str = "") -> None:
    for name, taken in seconds.items():
        if name != of:
            ratio, floor = taken / seconds[of], name.endswith("alone")
            times = f"{1e3 * taken:.4g} ms", f"{ratio:.2f} of {of}"
            cells = (case, name, *times, "" if floor else goal, "" if floor else note)
            print("|", *(f"{cell} |" for cell in cells), flush=True)


def shares(function: Callable) -> dict[str, float]:
    """The parts of a fit's time; the profiler itself makes short functions look longer."""
    profile = cProfile.Profile()
    profile.runcall(function)
    stats = pstats.Stats(profile)
    found = dict.fromkeys(PARTS, 0.0)
    for (path, _, name), (_, _, _, seconds, _) in stats.stats.items():  # type: ignore[attr-defined]
        for part, wanted in PARTS.items():
            if name in wanted and os.sep + "engine" + os.sep in path:
                found[part] += seconds / stats.total_tt  # type: ignore[attr-defined]
    return found


def print_shares(fits: dict[str, Callable]) -> None:
    print("\nParts of the time of our fits; they are not all, and one is part of another.\n")
    print("| fit |", " | ".join(PARTS), "|\n" + "|---" * (len(PARTS) + 1) + "|")
    for name, function in fits.items():
        print(f"| {name} |", *(f"{share:.0%} |" for share in shares(function).values()), flush=True)


def compiled(X, y, batch_size: int, epochs: int, threads: int) -> Callable | None:
    """The same pass by pytagi, the authors' library in C++; None where it cannot be imported.

    It needs batches of one size: the remaining rows are left out.
    """
    try:
        from pytagi import nn
    except ImportError:
        return None
    X, y = X.astype(np.float32), y.astype(np.float32)
    noise_var = np.full(batch_size, FIXED["sigma_v"] ** 2, np.float32)

    def run():
        net = nn.Sequential(nn.Linear(X.shape[1], 50), nn.ReLU(), nn.Linear(50, 1))
        net.set_threads(threads)
        updater = nn.OutputUpdater(net.device)
        rng = np.random.default_rng(0)
        for _ in range(epochs):
            order = rng.permutation(len(y))
            for start in range(0, len(y) - batch_size + 1, batch_size):
                rows = order[start : start + batch_size]
                net(X[rows].ravel())
                updater.update(net.output_z_buffer, y[rows], noise_var, net.input_delta_z_buffer)
                net.backward()
                net.step()

    return run


def small(data, repeats):
    """One layer of 50 units, 927 rows with 8 features, float64, 40 epochs."""
    X, y = concrete(data)
    fits = {}
    for case, name, batch_size, epochs in (
        ("1x50, B=10", "independent", 10, 40),
        ("1x50, one row at a time", "one call", 1, 4),
    ):
        setting = dict(batch_size=batch_size, max_iter=epochs)
        mlp = MLPRegressor(hidden_layer_sizes=(50,), **setting, **LONG)
        ours = TAGIRegressor(batch_inference="independent", **setting, **FIXED)
        functions = {
            "MLPRegressor": lambda mlp=mlp: mlp.fit(X, y),
            name: lambda ours=ours: ours.fit(X, y),
            "passes alone": passes((X.shape[1], 50, 1), len(y), batch_size, epochs, np.float64),
        }
        own = list(functions)
        for threads in (1, 2):
            peer = compiled(X, y, batch_size, epochs, threads)
            if peer is not None:
                functions[f"pytagi, threads: {threads}"] = peer
        seconds = measure(functions, repeats)
        note = "" if peer else "pytagi cannot be imported"
        report(case, {key: seconds[key] for key in own}, "MLPRegressor", 0.25, note)
        if peer is not None:
            quickest = min(set(seconds) - set(own), key=seconds.get)  # type: ignore[arg-type]
            note = "float32, without rows left over; the better of 1 and 2 threads"
            report(case, {key: seconds[key] for key in (quickest, *own[1:])}, quickest, 1.0, note)
        fits[case] = functions[name]
    return fits


def joint(data, repeats):
    """Joint batches beside independent ones, and five members beside one."""
    X, y = concrete(data)
    settings = dict(batch_size=64, max_iter=40, **FIXED)
    alone = TAGIRegressor(batch_inference="independent", **settings)
    one = TAGIRegressor(**settings)
    five = TAGIRegressor(**{**settings, "n_members": 5})
    functions = {
        "independent": lambda: alone.fit(X, y),
        "joint": lambda: one.fit(X, y),
        "5 members, joint": lambda: five.fit(X, y),
    }
    floors = {
        f"{start}covariances and factors alone": conditioning(
            (X.shape[1], 50, 1), settings["max_iter"] * -(-len(y) // 64), 64, members
        )
        for start, members in (("", 1), ("5 members, ", 5))
    }
    seconds = measure({**functions, **floors}, repeats)
    of_one, of_five = floors
    for names, goal in (
        (("independent", "joint", of_one), 1.5),
        (("joint", "5 members, joint", of_five), 2.5),
    ):
        report("1x50, B=64", {name: seconds[name] for name in names}, names[0], goal)
    return {f"1x50, B=64, {name}": function for name, function in functions.items()}


def target(data, repeats):
    """Seconds until the test RMSE is as good as MLPRegressor's best of 200 epochs."""
    for name in ("concrete", "kin8nm"):
        if data is None:
            print(f"| time to MLPRegressor's best RMSE, {name} | needs --data | | | | |")
            continue
        X, y, tests = load_uci(data, name)
        train = np.setdiff1d(np.arange(len(y)), tests[0])
        center, scale = X[train].mean(axis=0), X[train].std(axis=0)
        X, y = (X - center) / scale, (y - y[train].mean()) / y[train].std()
        parts = X[train], y[train], X[tests[0]], y[tests[0]]
        runs = []
        for seed in range(repeats):
            mlp = MLPRegressor(hidden_layer_sizes=(50,), random_state=seed)
            rmse, seconds = by_epoch(mlp, *parts, 200)
            best = int(np.argmin(rmse))
            ours = TAGIRegressor(n_members=1, batch_size=64, standardize=False, random_state=seed)
            our_rmse, our_seconds = by_epoch(ours, *parts, 100, stop_at=rmse[best])
            reached = our_seconds[-1] if our_rmse[-1] <= rmse[best] else np.inf
            runs.append((seconds[best], reached))
        theirs, own = np.median(runs, axis=0)
        taken = {"MLPRegressor": theirs, "TAGIRegressor, one member": own}
        report(f"time to MLPRegressor's best RMSE, {name}", taken, "MLPRegressor", 1.0)


def by_epoch(model, X, y, X_test, y_test, epochs, stop_at=-np.inf):
    """Test RMSE after each epoch, and the seconds of learning until then."""
    rng = np.random.default_rng(0)
    rmse, seconds, total = [], [], 0.0
    for _ in range(epochs):
        order = rng.permutation(len(y))
        start = time.perf_counter()
        model.partial_fit(X[order], y[order])
        total += time.perf_counter() - start
        rmse.append(float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))))
        seconds.append(total)
        if rmse[-1] <= stop_at:
            break
    return rmse, seconds


def wide(data, repeats):
    """Rows of MNIST, float32."""
    X, y = digits(data)
    own = dict(sigma_v=0.2, batch_inference="independent", standardize=False, max_iter=1, **ONE)
    mlp = MLPClassifier((100, 100), batch_size=10, max_iter=1, **LONG)
    ours = TAGIClassifier((100, 100), batch_size=10, **own)
    functions = {
        "MLPClassifier": lambda: mlp.fit(X, y),
        "independent": lambda: ours.fit(X, y),
        "products alone": products((784, 100, 100, 11), len(X), 10, 1, np.float32),
        "passes alone": passes((784, 100, 100, 11), len(X), 10, 1, np.float32),
    }
    report("MNIST rows, 2x100, B=10", measure(functions, repeats), "MLPClassifier", 0.35)
    fits = {"MNIST rows, 2x100, B=10": functions["independent"]}
    X_few, y_few = X[:2000], y[:2000]
    for batch_size, goal in ((100, 1.3), (10, 1.6)):
        big = TAGIClassifier((800, 800), batch_size=batch_size, **own)
        forgetting = TAGIClassifier(
            (800, 800), batch_size=batch_size, **{**own, "half_life": "auto"}
        )
        functions = {
            "products alone": products((784, 800, 800, 11), 2000, batch_size, 1, np.float32),
            "independent": lambda big=big: big.fit(X_few, y_few),
            "independent, half_life": lambda forgetting=forgetting: forgetting.fit(X_few, y_few),
            "passes alone": passes((784, 800, 800, 11), 2000, batch_size, 1, np.float32),
        }
        report(f"2x800, B={batch_size}", measure(functions, repeats), "products alone", goal)
        fits[f"2x800, B={batch_size}"] = functions["independent"]
    return fits


def predict(data, repeats):
    """Predicting with standard deviations, and its memory."""
    X, y = concrete(data)
    many = np.tile(X, (100, 1))
    mlp = MLPRegressor(hidden_layer_sizes=(50,), max_iter=5).fit(X, y)
    ours = TAGIRegressor(max_iter=5, **FIXED).fit(X, y)
    functions = {
        "MLPRegressor": lambda: mlp.predict(many),
        "with std": lambda: ours.predict(many, return_std=True),
    }
    report("predict, 1x50", measure(functions, repeats), "MLPRegressor", 3.5)
    million = np.random.default_rng(0).standard_normal((1_000_000, X.shape[1]))
    tracemalloc.start()
    result = ours.predict(million, return_std=True)
    peak = tracemalloc.get_traced_memory()[1] - sum(part.nbytes for part in result)
    tracemalloc.stop()
    print(f"| predict, 1,000,000 rows | beyond input and output | {peak / 1e6:.0f} MB | | 300 | |")


def sparse_rows(data, repeats):
    """40,000 features, 100 of them in a row."""
    rng = np.random.default_rng(0)
    n_rows, n_features, n_nonzero = 2000, 40_000, 100
    indices = rng.integers(n_features, size=n_rows * n_nonzero)
    values = rng.standard_normal(n_rows * n_nonzero)
    places = np.repeat(np.arange(n_rows), n_nonzero)
    X = sparse.csr_array((values, (places, indices)), shape=(n_rows, n_features))
    y = rng.integers(2, size=n_rows)
    mlp = MLPClassifier((50,), batch_size=64, max_iter=1, **LONG)
    one = TAGIClassifier((50,), max_iter=1, n_members=1, early_stopping=False)
    paper = TAGIClassifier((50,), max_iter=1, sigma_v=0.2, batch_inference="independent", **ONE)
    functions = {
        "MLPClassifier": lambda: mlp.fit(X, y),
        "independent": lambda: paper.fit(X, y),
        "joint, noise learned, forgetting": lambda: one.fit(X, y),
        "parameters and products alone": fetching(X, 50, 64),
        "prior alone": lambda: draw_prior((n_features, 50, 1), [np.random.RandomState(0)]),
    }
    report("sparse, 40,000 features, B=64", measure(functions, repeats), "MLPClassifier", 0.2)
    return {"sparse, 40,000 features, B=64": functions["independent"]}


def stream(data, repeats):
    """partial_fit on one row, the whole call."""
    X, y = concrete(data)
    mlp = MLPRegressor(hidden_layer_sizes=(50,)).partial_fit(X, y)
    one = TAGIRegressor(n_members=1).partial_fit(X, y)
    five = TAGIRegressor().partial_fit(X, y)

    def rows(model):
        return lambda: [model.partial_fit(X[i : i + 1], y[i : i + 1]) for i in range(100)]

    functions = {"MLPRegressor": rows(mlp), "one member": rows(one), "default": rows(five)}
    report("partial_fit, 100 calls with one row", measure(functions, repeats), "MLPRegressor", 1.0)


def growth(data, repeats, plot=None):
    """Seconds against parameters and against rows: slopes of log against log."""
    rng = np.random.default_rng(0)
    widths = [84, 300, 980, 3150]
    X, y = rng.standard_normal((1024, 32)).astype(np.float32), rng.standard_normal(1024)
    settings = dict(sigma_v=0.3, batch_size=128, max_iter=1, **ONE)
    parameters = [33 * w + (w + 1) * w + w + 1 for w in widths]
    functions = {w: (lambda w=w: TAGIRegressor((w, w), **settings).fit(X, y)) for w in widths}
    by_width = list(measure(functions, max(1, repeats // 2)).values())
    many, y_many = rng.standard_normal((64_000, 8)), rng.standard_normal(64_000)
    counts = [1000, 4000, 16_000, 64_000]
    model = TAGIRegressor(**{**settings, "batch_size": 64})
    functions = {n: (lambda n=n: model.fit(many[:n], y_many[:n])) for n in counts}
    by_rows = list(measure(functions, max(1, repeats // 2)).values())
    for name, sizes, seconds in (("parameters", parameters, by_width), ("rows", counts, by_rows)):
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        values = ", ".join(f"{n:.3g}: {s:.3g} s" for n, s in zip(sizes, seconds, strict=True))
        print(f"| growth with {name} | slope | {slope:.2f} | | 1.05 | {values} |", flush=True)
    if plot:
        draw_growth(plot, parameters, by_width, counts, by_rows)


def draw_growth(path, parameters, by_width, counts, by_rows) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, sizes, seconds, label in (
        (axes[0], parameters, by_width, "parameters (1,024 rows)"),
        (axes[1], counts, by_rows, "rows (1x50)"),
    ):
        ax.loglog(sizes, seconds, "ko-", label="measured")
        line = seconds[-1] * np.asarray(sizes) / sizes[-1]
        ax.loglog(sizes, line, "k:", label="linear")
        ax.set(xlabel=label, ylabel="seconds for an epoch")
        ax.legend()
    figure.savefig(path, dpi=120)


def imports(data, repeats):
    """Importing sktagi after the estimators of scikit-learn, from compiled bytecode."""
    code = (
        "import time, sklearn.neural_network, sklearn.gaussian_process\n"
        "start = time.perf_counter()\n"
        "import sktagi\n"
        "print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", code]
        taken = [
            float(subprocess.run(command, check=True, env=env, capture_output=True).stdout)
            for _ in range(2 * repeats + 1)
        ]
    extra = 1e3 * np.median(taken[1:])  # the first compiles
    print(f"| import sktagi | beyond scikit-learn | {extra:.0f} ms | | 50 | |")


def concrete(data):
    if data is None:
        X, y = make_friedman1(927, n_features=8, random_state=0)
    else:
        X, y, tests = load_uci(data, "concrete")
        train = np.setdiff1d(np.arange(len(y)), tests[0])
        X, y = X[train], y[train]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def digits(data):
    if data is None:
        rng = np.random.default_rng(0)
        X = rng.random((6000, 784), dtype=np.float32) * (rng.random((6000, 784)) < 0.2)
        return X.astype(np.float32), rng.integers(10, size=6000)
    X, y, _, _ = load_mnist(data)
    return X[:6000], y[:6000]


CASES: dict[str, Callable] = {
    "small": small, "joint": joint, "target": target, "wide": wide, "predict": predict,
    "sparse": sparse_rows, "stream": stream, "growth": growth, "import": imports,
}  # fmt: skip


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--data", help="folder with uci/ and mnist.npz; made data without it")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="shares of the time of our fits")
    parser.add_argument("--plot", help="file for the picture of the case 'growth'")


def main(args: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    print("| case | what | median | ratio | goal | |\n|---|---|---|---|---|---|", flush=True)
    profiled: dict[str, Callable] = {}
    for case in args.cases:
        more = {"plot": args.plot} if case == "growth" else {}
        fits = CASES[case](args.data, args.repeats, **more)
        if args.profile and fits:
            profiled.update(fits)
    if profiled:
        print_shares(profiled)
