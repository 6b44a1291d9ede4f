"""The conversation with the benchmark, a JSON document a line: it sends a task, we ask for predictions, then answer.

Everything else that a package prints goes to stderr: stdout is the conversation.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

CONVERSATION = sys.stdout
sys.stdout = sys.stderr


@dataclass(frozen=True)
class Task:
    """Raw records, categories by index: training and its labels, the records to explain and their targets.

    Where the package looks into a network, the records are its inputs, and `layers` are its weights and biases.
    """

    names: list[str]
    categorical: list[int]
    training: list[list[float]]
    labels: list[int]
    records: list[list[float]]
    targets: list[int]
    seed: int
    layers: list[tuple[list[list[float]], list[float]]] = field(default_factory=list)


def read_task() -> Task:
    return Task(**json.loads(sys.stdin.readline()))


def ask(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    """rows of raw values -> the ensemble's mean probability of each class"""
    _say({"ask": [[float(value) for value in row] for row in rows]})
    answer: list[list[float]] = json.loads(sys.stdin.readline())["answer"]
    return answer


def answer(row: Sequence[float] | None) -> None:
    """One counterfactual, in the order of the records; None where the package found none"""
    _say({"found": None if row is None else [float(value) for value in row]})


def _say(document: dict[str, object]) -> None:
    CONVERSATION.write(json.dumps(document) + "\n")
    CONVERSATION.flush()
