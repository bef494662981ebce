"""MNIST: test error and log-loss after each of some epochs.

    python -m benchmarks.mnist --data FOLDER            default noise, ten epochs
    python -m benchmarks.mnist --data FOLDER --paper    the paper's setting, one epoch

Two hidden layers of 100 units, float32, pixels in [0, 1] without further scaling.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sktagi import TAGIClassifier

from .data import load_mnist


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder that holds mnist.npz; default: OpenML")
    parser.add_argument("--paper", action="store_true", help="sigma_v=0.4, batches of 10")
    parser.add_argument("--epochs", type=int, help="default: 10, or 1 with --paper")
    parser.add_argument("--units", type=int, nargs="+", default=[100, 100])
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    X_train, y_train, X_test, y_test = load_mnist(args.data)
    model = TAGIClassifier(
        args.units, max_iter=args.epochs or (1 if args.paper else 10), n_members=args.members,
        standardize=False, random_state=args.seed, verbose=1,
    )  # fmt: skip
    if args.paper:
        model.set_params(
            sigma_v=0.4, batch_size=10, batch_inference="independent", half_life=None,
            n_members=1, early_stopping=False,
        )  # fmt: skip
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    proba = model.predict_proba(X_test)
    error = np.mean(model.classes_[proba.argmax(axis=1)] != y_test)
    print(
        f"test error {error:.2%}, log-loss {-model.log_likelihood(X_test, y_test):.4f}, "
        f"sigma_v {model.sigma_v_:.3f}, {model.n_iter_} epochs in {seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
