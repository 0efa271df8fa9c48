"""What the benchmarks share: records in a JSON file, added as they come, and where they were measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

Record = dict[str, Any]
Document = dict[str, list[Any]]


def add_arguments(parser: argparse.ArgumentParser, folder: str, report: str) -> None:
    """The arguments that say where the records go."""
    parser.add_argument("--out", type=Path, default=Path(folder), help=f"folder (default: {folder})")
    parser.add_argument("--part", default="", help="write to a file of this name beside the results")
    parser.add_argument("--report", action="store_true", help=f"run nothing; join the parts, make {report}")


def load(path: Path) -> Document:
    return json.loads(path.read_text()) if path.exists() else {"environments": [], "records": []}


def save(path: Path, documents: Sequence[Document]) -> None:
    """The documents' records one after another, and every environment once."""
    environments: list[Any] = []
    for document in documents:
        environments += [place for place in document["environments"] if place not in environments]
    records = [record for document in documents for record in document["records"]]
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"environments": environments, "records": records}, indent=0))
    os.replace(temporary, path)


class Log:
    """The results so far and, if this process has a part of its own, that part, to which it adds."""

    def __init__(self, results: Path, part: str, environment: Record) -> None:
        results.parent.mkdir(parents=True, exist_ok=True)
        self.path = results.with_suffix(f".part-{part}.json") if part else results
        self.environment = environment
        self.known: list[Record] = [record for path in {results, self.path} for record in load(path)["records"]]

    def has(self, wanted: Record) -> bool:
        """Whether there is a record with these entries."""
        return any(wanted.items() <= record.items() for record in self.known)

    def add(self, record: Record) -> None:
        save(self.path, [load(self.path), {"environments": [self.environment], "records": [record]}])
        self.known.append(record)


def join_parts(results: Path) -> None:
    parts = sorted(results.parent.glob(f"{results.stem}.part-*.json"))
    if parts:
        save(results, [load(path) for path in [results, *parts]])
    for path in parts:
        path.unlink()


def use_threads(count: int) -> None:
    """For torch and, where threadpoolctl is there (scikit-learn brings it), NumPy."""
    torch.set_num_threads(count)
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    threadpool_limits(count, user_api="blas")


def _processor() -> str:
    """What Linux calls it, else the architecture."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def environment(threads: int, gpu: str | None = None) -> Record:
    place: Record = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "processor": _processor(),
        "threads": threads,
    }
    return place if gpu is None else place | {"GPU": torch.cuda.get_device_name(gpu)}
