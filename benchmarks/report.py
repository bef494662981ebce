"""Tables and a picture from the results of uci and mnist.

    python -m benchmarks report
    python -m benchmarks report results/uci.jsonl results/mnist.jsonl --to doc/reproduction.md \\
        --plot doc/reproduction.png

Markdown, beside the tables of the TAGI paper and other published figures. Takes the results of any
version, says which there were, and warns if versions, data or parameters are mixed; the last of
several results for one fit counts. The numbers after ± are standard deviations over splits or
seeds, whose number is in brackets.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .data import UCI
from .harness import read
from .methods import METHODS
from .mnist_tables import mnist_tables
from .uci_tables import draw, uci_tables

FIELDS = {"uci": {"method", "name", "split"}, "mnist": {"method", "units", "seed"}}  # of a job


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", nargs="*", metavar="FILE",
        help="results; default: results/uci.jsonl and results/mnist.jsonl",
    )  # fmt: skip
    parser.add_argument("--to", metavar="FILE", help="Markdown file to write; default: print")
    parser.add_argument("--plot", metavar="FILE", help="picture to draw (matplotlib)")


def main(args: argparse.Namespace) -> None:
    records = load(args.files)
    uci = [r for r in records if r["command"] == "uci" and known(r["job"])]
    mnist = [r for r in records if r["command"] == "mnist"]
    if not uci and not mnist:
        raise SystemExit("there are no results of uci or mnist in these files")
    parts = ["# The paper's tables, measured", versions(uci + mnist), *mixtures(uci + mnist)]
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
        Path(args.to).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


def load(files: list[str]) -> list[dict]:
    """The records of some files; the last of several for the same fit."""
    for file in files:
        if not Path(file).is_file():
            raise SystemExit(f"there is no file {file}")
    paths = [Path(file) for file in files or ("results/uci.jsonl", "results/mnist.jsonl")]
    records = {}
    for record in [record for path in paths for record in read(path)]:
        missing = FIELDS.get(record["command"], set()) - set(record["job"])
        if missing:
            raise SystemExit(f"a result of {record['command']} has no {', '.join(sorted(missing))}")
        fit = {name: value for name, value in record["job"].items() if name != "about"}
        key = record["command"], json.dumps(fit, sort_keys=True)
        records.pop(key, None)  # the last one is the last in order too
        records[key] = record
    return list(records.values())


def known(job: dict) -> bool:
    """Whether the tables have a place for a result of uci; it is left out with a note if not."""
    if job["method"] in METHODS and job["name"] in UCI:
        return True
    print(f"note: {job['method']} on {job['name']} is left out: there is no such", file=sys.stderr)
    return False


def versions(records: list[dict]) -> str:
    """What the results were made with; mixed versions are named, on stderr too."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, value in record["versions"].items():
            found.setdefault(package, set()).add(value)
    count = "1 fit" if len(records) == 1 else f"{len(records)} fits"
    listed = ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in found.items())
    text = f"{count}, with {listed} (source: a fingerprint of the package's code)."
    mixed = [package for package, values in found.items() if len(values) > 1]
    return text + ("\n\n" + warn("versions", mixed) if mixed else "")


def mixtures(records: list[dict]) -> list[str]:
    """Warnings of a set whose rows differ among results, and of methods whose parameters do."""
    data: dict[str, set[str]] = {}
    params: dict[str, set[str]] = {}
    for record in records:
        job, about = record["job"], record["job"].get("about", {})
        case = {k: v for k, v in job.items() if k not in ("about", "split", "seed")}
        same = {  # without what depends on a seed
            k: v
            for k, v in about.get("params", {}).items()
            if k != "cv" and not k.endswith("random_state")
        }
        data.setdefault(job.get("name", "mnist"), set()).add(str(about.get("data")))
        where = " on ".join(str(case[k]) for k in ("method", "name") if k in case)
        key = f"{where} {json.dumps(case, sort_keys=True)}"
        params.setdefault(key, set()).add(json.dumps(same, sort_keys=True))
    other_data = [name for name, found in data.items() if len(found) > 1]
    other_params = [key.split(" {")[0] for key, found in params.items() if len(found) > 1]
    return [
        warn(what, list(dict.fromkeys(names)))
        for what, names in (("data", other_data), ("parameters", other_params))
        if names
    ]


def warn(what: str, names: list[str]) -> str:
    warning = f"Results of different {what} are mixed: {', '.join(names)}."
    print(f"warning: {warning}", file=sys.stderr)
    return f"**{warning}**"
