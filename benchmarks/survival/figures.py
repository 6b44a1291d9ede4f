"""What is measured of a method's answers: figures of each record, kept beside the cache, and their row."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.store import Row
from benchmarks.survival.material import Material
from benchmarks.survival.methods import LEVEL, METHODS, ONE_MODEL, Answers
from models.arrays import Floats
from models.ensemble.votes import votes
from models.evaluation.survival import survival
from models.search.local_search import count_changes
from models.search.scoring import score_points, typicality
from models.space.encoding import cost

KEY = ("dataset", "seed", "method", "rules")
GROUPS = ("a", "b", "c", "d", "e")
CEILING = "real-approved"


def measure(material: Material, method: str) -> tuple[Row, Mapping[str, Floats]]:
    """The row of one method, and the figures of each record (n,); no answer survives nowhere"""
    answers = METHODS[method](material)
    each = _of_each_record(material, method, answers)
    row: Row = {**dict(zip(KEY, (material.dataset, material.seed, method, material.rules), strict=True))}
    row |= {"records": len(answers.records), "answered": float(answers.answered.mean())}
    row |= {"cost": _mean(each, "cost", answers.answered)}
    row |= {name: float(each[name].mean()) if name in each else None for name in ("asked", *GROUPS)}
    row |= {f"all_{name}": float((each[name] == 1.0).mean()) if name in each else None for name in GROUPS[:4]}
    row |= _promise(material, answers, each)
    row |= {name: _mean(each, name, answers.answered) for name in ("lof", "typical", "changes")}
    row |= {"queries": float(answers.queries.mean()), "queries_train": answers.queries_train}
    return row | {"ms": 1000 * answers.seconds / len(answers.records)}, each


def _of_each_record(material: Material, method: str, answers: Answers) -> dict[str, Floats]:
    target = np.full(len(answers.records), material.target, dtype=np.int64)
    encoder, model = material.free.encoder, material.model()
    points = encoder.encode(answers.records)
    asked = material.asked_one if method in ONE_MODEL else material.asked
    agreed = votes(asked.predict_proba(answers.records), target).mean(axis=0)
    density = score_points(model, points, target).density
    typical = np.array([typicality(model, material.target, float(score)) or 0.0 for score in density])
    found = {"asked": np.where(answers.answered, agreed, 0.0), "answered": answers.answered.astype(np.float64)}
    found |= survival(material.groups, answers.records, target, answers.answered)
    found |= {"lof": material.detectors.lof(points), "isolation": material.detectors.isolation(points)}
    found |= {"typical": typical, "queries": answers.queries}
    if method != CEILING:
        refused = material.refused.records
        found |= {
            "cost": cost(points, encoder.encode(refused)),
            "changes": count_changes(answers.records, refused) * 1.0,
        }
    if answers.promised is not None:
        found["promised"] = answers.promised
    return found


def _mean(each: Mapping[str, Floats], name: str, answered: NDArray[np.bool_]) -> float | None:
    """Over the records that have an answer"""
    return float(each[name][answered].mean()) if name in each and answered.any() else None


def _promise(material: Material, answers: Answers, each: Mapping[str, Floats]) -> Row:
    """The mean lower bound that was printed, and how often it held: over a to c together, and over d"""
    said = answers.answered & np.isfinite(each["promised"]) if "promised" in each else np.zeros(0, dtype=bool)
    if not said.any():
        return {"level": None, "promised": None, "coverage_abc": None, "coverage_d": None}
    sizes = {name: material.groups[name].size for name in ("a", "b", "c") if name in each}
    near = sum((each[name] * size for name, size in sizes.items()), np.zeros(len(said))) / max(1, sum(sizes.values()))
    bound = each["promised"]
    return {
        "level": LEVEL,
        "promised": float(bound[said].mean()),
        "coverage_abc": float((near >= bound)[said].mean()) if sizes else None,
        "coverage_d": float((each["d"] >= bound)[said].mean()) if "d" in each else None,
    }


def records_file(cache: Path, row: Mapping[str, object]) -> Path:
    return cache / "survival" / ("-".join(str(row[name]) for name in KEY) + ".npz")


def keep_records(cache: Path, row: Row, each: Mapping[str, Floats]) -> None:
    """The figures of each record, for intervals over records and seeds"""
    place = records_file(cache, row)
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}")
    with beside.open("wb") as file:
        np.savez(file, allow_pickle=False, **dict(each))
    beside.replace(place)


def read_records(cache: Path, row: Mapping[str, object]) -> dict[str, Floats] | None:
    place = records_file(cache, row)
    if not place.exists():
        return None
    with np.load(place, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
