"""DiCE, NICE and rocelib as people use them: from PyPI, in an environment of their own, asked over JSON lines.

`make rivals` makes the environment. The child process gets raw records and asks for predictions whenever its package
does, so that every question is counted here.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Literal, TypeAlias

import numpy as np

from benchmarks.rivals.rival import NO_QUERIES, CountedEnsemble, Problem, Queries
from models.arrays import Records, Targets
from models.data.schema import Schema
from models.errors import MissingDataError, RecourseError

Package: TypeAlias = Literal["dice", "nice", "rnce", "stce"]

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "foreign"
PYTHON = ROOT / ".venv-rivals" / "bin" / "python"
TRAINING_ROWS = 2000
"""NICE puts its whole training set to the ensemble, and DiCE describes it; a sample of so many rows is enough."""


class PackageError(RecourseError):
    """A package from PyPI ended before it had answered."""


class Packaged:
    """A package behind the interface of the rivals. A missing value is filled as the encoder fills it."""

    def __init__(self, package: Package, python: Path = PYTHON) -> None:
        self.package: Package = package
        self._python = python
        self._counted: CountedEnsemble | None = None

    @property
    def name(self) -> str:
        return self.package

    @property
    def queries(self) -> Queries:
        return NO_QUERIES if self._counted is None else self._counted.queries

    @property
    def note(self) -> str:
        return f"from PyPI; it sees the ensemble's mean probability, and {TRAINING_ROWS} training records at most"

    def fit(self, problem: Problem) -> None:
        if not self._python.exists():
            raise MissingDataError(f"There is no {self._python}; `make rivals` installs {self.package} there.")
        self._counted, self._problem = CountedEnsemble(problem.ensemble), problem

    def explain(self, records: Records, target: Targets) -> Records:
        return self._records(records, self.ask_package(self._task(records, target), len(records)))

    def ask_package(self, task: Mapping[str, object], records: int) -> list[list[float] | None]:
        """What the package finds for each of so many records, in a process of its own"""
        command = [str(self._python), str(SCRIPTS / f"run_{self.package}.py")]
        quiet = os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=quiet
        ) as child:
            assert child.stdin is not None and child.stdout is not None and child.stderr is not None
            found = self._converse(child.stdin, child.stdout, task)
            child.stdin.close()
            said = child.stderr.read()
        if len(found) < records:
            last = (said.strip().splitlines() or ["it said nothing"])[-1]
            raise PackageError(f"{self.package} answered {len(found)} of {records} records, then ended: {last}")
        return found

    def _converse(self, say: IO[str], hear: IO[str], task: Mapping[str, object]) -> list[list[float] | None]:
        """Send the task, answer what is asked, collect what is found until the child ends"""
        self._say(say, task)
        found: list[list[float] | None] = []
        for line in hear:
            document = json.loads(line)
            if "ask" in document:
                self._say(say, {"answer": self._mean_probability(np.array(document["ask"])).tolist()})
            else:
                found.append(document["found"])
        return found

    def _say(self, pipe: IO[str], document: Mapping[str, object]) -> None:
        try:
            pipe.write(json.dumps(document) + "\n")
            pipe.flush()
        except BrokenPipeError:
            return  # the child has ended; its last words are on stderr

    def _mean_probability(self, rows: Records) -> Records:
        """rows (n, F) of raw values -> (n, K)"""
        assert self._counted is not None, "fit comes first"
        mean: Records = self._counted.predict_proba(self._on_grid(rows)).mean(axis=0)
        return mean

    def _on_grid(self, rows: Records) -> Records:
        encoder = self._problem.encoder
        return encoder.decode(encoder.encode(_within(encoder.schema, rows)))

    def _task(self, records: Records, target: Targets) -> dict[str, object]:
        schema, training = self._problem.encoder.schema, self._problem.training
        rows = np.random.default_rng(self._problem.seed).permutation(len(training))[:TRAINING_ROWS]
        return {
            "names": list(schema.names),
            "categorical": [j for j, feature in enumerate(schema.features) if feature.is_categorical],
            "training": self._filled(training.records[rows]).tolist(),
            "labels": training.labels[rows].tolist(),
            "records": self._filled(records).tolist(),
            "targets": target.tolist(),
            "seed": self._problem.seed,
        }

    def _filled(self, records: Records) -> Records:
        """Without missing values: these packages know none"""
        return self._problem.encoder.decode(self._problem.encoder.encode(records))

    def _records(self, records: Records, found: list[list[float] | None]) -> Records:
        answers = records.copy()
        given = [position for position, row in enumerate(found) if row is not None]
        if given:
            answers[given] = self._on_grid(np.array([found[position] for position in given]))
        return answers


def _within(schema: Schema, rows: Records) -> Records:
    """Categories a package made up are brought back to the nearest index"""
    lower = np.array([feature.lower for feature in schema.features])
    upper = np.array([feature.upper for feature in schema.features])
    whole = np.array([feature.is_categorical for feature in schema.features])
    clipped = np.clip(rows, lower, upper)
    return np.where(whole, np.rint(clipped), clipped)
