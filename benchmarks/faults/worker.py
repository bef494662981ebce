"""The process of a trial: for each line that it reads, it tries a fault and prints what came."""

from __future__ import annotations

import json
import sys

import numpy as np
from threadpoolctl import threadpool_limits

from .trials import Broken, load


def main(name: str, seed: int) -> None:
    threadpool_limits(2, user_api="blas")  # for good: one thread would show nothing
    rng = np.random.default_rng(seed)
    trial = None
    for _ in sys.stdin:
        try:
            trial = load(name)(rng) if trial is None else trial
            answer = {"held": next(trial)}
        except Broken as broken:
            trial, answer = None, {"broken": str(broken)}
        except BaseException as error:
            trial, answer = None, {"broken": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    if trial is not None:
        trial.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
