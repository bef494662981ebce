"""Tables and a picture from the results of uci and mnist.

    python -m benchmarks report
    python -m benchmarks report results/uci.jsonl results/mnist.jsonl --to doc/reproduction.md \\
        --plot doc/reproduction.png

Markdown, beside the tables of the TAGI paper and other published figures. Takes the results of any
version, says which there were, and warns if they are mixed; of results for the same fit the last
one counts. The numbers after ± are standard deviations over splits or seeds, whose number is in
brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .harness import read
from .mnist_tables import mnist_tables
from .uci_tables import draw, uci_tables


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="FILE",
        help="results; default: results/uci.jsonl and results/mnist.jsonl",
    )  # fmt: skip
    parser.add_argument("--to", metavar="FILE", help="Markdown file to write; default: print")
    parser.add_argument("--plot", metavar="FILE", help="picture to draw (matplotlib)")


def main(args: argparse.Namespace) -> None:
    records = load(args.files)
    uci = [r for r in records if r["command"] == "uci"]
    mnist = [r for r in records if r["command"] == "mnist"]
    if not uci and not mnist:
        raise SystemExit("there are no results of uci or mnist in these files")
    parts = ["# The paper's tables, measured", versions(uci + mnist)]
    if uci:
        parts.append(uci_tables(uci))
    if args.plot:
        draw(args.plot, uci)
        shown = os.path.relpath(args.plot, Path(args.to).parent if args.to else ".")
        parts.append(f"![RMSE and log-likelihood beside the paper's]({shown})")
    if mnist:
        parts.append(mnist_tables(mnist))
    text = "\n\n".join(parts)
    if args.to:
        Path(args.to).parent.mkdir(parents=True, exist_ok=True)
        Path(args.to).write_text(text + "\n")
    else:
        print(text)


def load(files: list[str]) -> list[dict]:
    """The records of some files; of several for the same fit, the last."""
    for file in files:
        if not Path(file).is_file():
            raise SystemExit(f"there is no file {file}")
    paths = [Path(file) for file in files or ("results/uci.jsonl", "results/mnist.jsonl")]
    records = {}
    for record in [record for path in paths for record in read(path)]:
        fit = {name: value for name, value in record["job"].items() if name != "about"}
        records[record["command"], json.dumps(fit, sort_keys=True)] = record
    return list(records.values())


def versions(records: list[dict]) -> str:
    """What the results were made with; mixed versions are named, on stderr too."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, value in record["versions"].items():
            found.setdefault(package, set()).add(value)
    listed = ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in found.items())
    text = f"{len(records)} fits, with {listed} (source: a fingerprint of the package's code)."
    mixed = [package for package, values in found.items() if len(values) > 1]
    if mixed:
        warning = f"Results of different versions are mixed: {', '.join(mixed)}."
        print(f"warning: {warning}", file=sys.stderr)
        text += f"\n\n**{warning}**"
    return text
