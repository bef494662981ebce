"""Tables of the MNIST results, beside the paper's Table 2."""

from __future__ import annotations

import numpy as np

from .markdown import markdown, spread, values
from .published import PAPER_MNIST

__all__ = ["best_sigma_v", "mnist_tables"]


def best_sigma_v(records: list[dict], units: int, batch_size: int) -> float:
    """The sigma_v of the one-epoch runs with the best mean log-likelihood of validation rows."""
    scores: dict[float, list[float]] = {}
    for job, result in _fits(records, "one-epoch", units, batch_size):
        scores.setdefault(job["sigma_v"], []).append(result["validation_log_likelihood"])
    return max(scores, key=lambda sigma_v: np.mean(scores[sigma_v]))


def mnist_tables(records: list[dict]) -> str:
    """The paper's Table 2, and the package's defaults."""
    cells = sorted(
        {(r["job"]["units"], r["job"]["batch_size"]) for r in records if "batch_size" in r["job"]}
    )
    parts = []
    if cells:
        header = [
            "network", "B", "sigma_v, the paper", "sigma_v", "E=1, the paper (%)", "E=1 (%)",
            "early-stopped, the paper (%)", "early-stopped (%)", "epochs, the paper", "epochs",
            "seconds an epoch",
        ]  # fmt: skip
        parts += [
            "## MNIST, beside the paper's Table 2",
            "Test errors; ± is the standard deviation over seeds, their number in brackets (the "
            "paper has five). sigma_v is the one of those in brackets whose one-epoch runs give "
            "the validation rows (5 % of the training rows) the best mean log-likelihood, or it "
            "was given. Seconds on one thread.",
            markdown(header, [_mnist_row(records, *cell) for cell in cells]),
        ]  # fmt: skip
    defaults = sorted(
        {
            (r["job"]["units"], r["job"]["members"], r["job"]["epochs"])
            for r in records
            if r["job"]["method"] == "default"
        }
    )
    if defaults:
        rows = []
        for units, members, epochs in defaults:
            found = [
                result
                for job, result in _fits(records, "default", units)
                if (job["members"], job["epochs"]) == (members, epochs)
            ]
            rows.append([
                f"2x{units}", str(members), f"{epochs}", _percent(found),
                spread(values(found, "log_loss"), 4), spread(values(found, "sigma_v"), 3),
                f"{np.mean(values(found, 'seconds')):.0f}",
            ])  # fmt: skip
        header = ["network", "members", "epochs at most", "test error (%)", "log-loss", "sigma_v"]
        parts += ["## MNIST, the package's defaults", markdown([*header, "seconds"], rows)]
    return "\n\n".join(parts)


def _mnist_row(records: list[dict], units: int, batch_size: int) -> list[str]:
    theirs = PAPER_MNIST.get((units, batch_size))
    early = _fits(records, "early", units, batch_size)
    first = _fits(records, "one-epoch", units, batch_size)
    # Early-stopped runs say which sigma_v was chosen; without them it is chosen here. If they
    # differ in sigma_v or in the limit of epochs, the last count.
    limits = ("sigma_v", "epochs")
    last = {k: early[-1][0].get(k) for k in limits} if early else {}
    chosen = last["sigma_v"] if early else best_sigma_v(records, units, batch_size)
    one = [result for job, result in first if job["sigma_v"] == chosen]
    stopped = [result for job, result in early if {k: job.get(k) for k in limits} == last]
    every = one + stopped
    tried = sorted({job["sigma_v"] for job, _ in first})
    is_best = len(tried) > 1 and chosen == best_sigma_v(records, units, batch_size)
    how = f"of {', '.join(f'{s:g}' for s in tried)}" if is_best else "given"
    return [
        f"2x{units}", str(batch_size), f"{theirs.sigma_v:g}" if theirs else "-",
        f"{chosen:g} ({how})",
        f"{theirs.one_epoch:.2f} ± {theirs.one_epoch_std:g}" if theirs else "-", _percent(one),
        f"{theirs.early:.2f} ± {theirs.early_std:g}" if theirs else "-", _percent(stopped),
        f"{theirs.epochs} ± {theirs.epochs_std}" if theirs else "-",
        spread(values(stopped, "best_iter"), 0, count=False),
        f"{np.mean([row['seconds'] / row['n_iter'] for row in every]):.1f}",
    ]  # fmt: skip


def _fits(records: list[dict], method: str, units: int, batch_size: int | None = None) -> list:
    return [
        (r["job"], r["result"])
        for r in records
        if (r["job"]["method"], r["job"]["units"], r["job"].get("batch_size"))
        == (method, units, batch_size)
    ]


def _percent(rows: list[dict]) -> str:
    return spread([100 * row["error"] for row in rows], 2)
