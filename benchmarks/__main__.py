"""Measure the package: accuracy, speed and memory, beside published figures and other estimators.

    python -m benchmarks landing --data FOLDER
    python -m benchmarks uci --data FOLDER --methods all --jobs 2
    python -m benchmarks mnist --data FOLDER --jobs 2
    python -m benchmarks report results/*.jsonl --to doc/reproduction.md
    python -m benchmarks distribution --data FOLDER
    python -m benchmarks classes --data FOLDER --before CHECKOUT
    python -m benchmarks tables --data FOLDER
    python -m benchmarks raw --data FOLDER
    python -m benchmarks decisions
    python -m benchmarks agreement --before CHECKOUT
    python -m benchmarks epistemic
    python -m benchmarks recovery
    python -m benchmarks forgetting
    python -m benchmarks fuzz --seconds 600
    python -m benchmarks faults --seconds 600

FOLDER holds uci/<name>.npz and mnist.npz; without --data the sets are fetched from OpenML, but for
landing, which then leaves its tables out. uci,
mnist, defaults, batches, distribution, classes and tables write one JSON line a fit as it comes,
and go on where they stopped if the same command is given again; report turns the lines of uci and
mnist into tables and a picture.
agreement and versus compare numbers and seconds with those of an earlier CHECKOUT; house counts how
the code is built; kills ends processes while they save; fuzz looks for configurations that break
something; faults interrupts, starves and kills what learns.
``python -m benchmarks COMMAND --help`` explains each.
"""

from __future__ import annotations

import argparse
import sys

from . import (
    agreement,
    batches,
    classes,
    covariances,
    decisions,
    defaults,
    distribution,
    epistemic,
    faults,
    forgetting,
    fuzz,
    house,
    kills,
    landing,
    memmap,
    mnist,
    raw,
    recovery,
    report,
    rivers,
    shards,
    speed,
    streams,
    tables,
    uci,
    versus,
)

COMMANDS = {
    "landing": landing,
    "uci": uci, "mnist": mnist, "report": report, "defaults": defaults, "batches": batches,
    "distribution": distribution, "classes": classes, "tables": tables, "raw": raw, "speed": speed,
    "covariances": covariances, "streams": streams, "recovery": recovery,
    "forgetting": forgetting, "shards": shards,
    "memmap": memmap, "agreement": agreement, "versus": versus, "house": house, "kills": kills,
    "rivers": rivers, "decisions": decisions, "fuzz": fuzz, "faults": faults,
    "epistemic": epistemic,
}  # fmt: skip


def make_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=raw
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        first_line = str(module.__doc__).splitlines()[0].replace("%", "%%")
        command = commands.add_parser(
            name, help=first_line, description=module.__doc__, formatter_class=raw
        )
        module.options(command)
        command.set_defaults(main=module.main)
    return parser


def main(argv: list[str] | None = None) -> None:
    args = make_parser().parse_args(argv)
    try:
        args.main(args)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        raise SystemExit(130) from None
    except OSError as error:  # a file that cannot be read or written; the message names it
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
