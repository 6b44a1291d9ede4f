"""Advice under action policies: `python -m benchmarks.actions`.

1. Refused test records of loans, HELOC and Adult under the written policies of benchmarks/policies, beside the same
   search without a policy and without a limit, and the lender's levers alone. A checker looks at every answer; it is
   written from docs/POLICY.md and shares no code with the engine (checker.py).
2. `--random N`: so many random policies and requests, a few records each.

Writes benchmarks/results/actions.json and ACTIONS.md. Trainings stay in benchmarks/cache/. The public data sets are
read from the folder that RECOURSE_DATA names.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks.actions.checker import broken, count_actions
from benchmarks.actions.random_policies import random_policy, random_request
from benchmarks.experiments.tables import markdown_table
from benchmarks.store import CACHE, RESULTS, Places, Row, write_whole
from models.arrays import Records, Targets
from models.config import Config, SearchConfig
from models.data.policy import Lever, Policy
from models.data.policy_checks import check_policy
from models.data.records import from_records
from models.datasets import load
from models.datasets.dataset import Splits, split_dataset
from models.ensemble.local import LocalEnsemble
from models.ensemble.meter import QueryMeter
from models.ensemble.recipes import MEMBER_NAMES
from models.ensemble.votes import votes
from models.errors import SchemaError
from models.model import RecourseModel
from models.search.answers import Explanation, Status
from models.search.search import explain
from models.space.constraints import Constraints
from models.storage.artifact import load_ensemble_of, load_model, save_model
from models.training.pipeline import fit

POLICIES = Path(__file__).parents[1] / "policies"
WANTED = {"loans": "approved", "heloc": "Good", "adult": ">50K"}
QUERIES = 480
ASKED = SearchConfig(max_queries=10)
ADVICE, OFFER = (Lever.APPLICANT, Lever.TIME), (Lever.LENDER,)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write both files; 1 where an answer breaks a rule."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    console, rows = Console(stderr=True, soft_wrap=True), list[Row]()
    for name in options.datasets:
        splits, model, ensemble = trained(name, options.seed, options.effort, Places.of(options.cache))
        document = json.loads((POLICIES / f"{name}.json").read_text())
        records, target = refused(splits, ensemble, WANTED[name], options.records)
        ruled = replace(model, policy=Policy.from_json(document))
        kinds: list[tuple[str, RecourseModel, Constraints, dict[str, Any]]] = [
            ("none, no limit", model, Constraints(max_changes=None), {}),
            ("none", model, Constraints(), {}),
        ]
        kinds += [("written", ruled, Constraints(), document)]
        if any("lender" in str(entry.get("lever", "")) for entry in document["features"].values()):
            kinds.append(("written, the lender's levers", ruled, Constraints(levers=OFFER), document))
        for policy, searched, constraints, rules in kinds:
            rows.append(measure(name, policy, searched, constraints, rules, records, target, ensemble))
            console.print(str(rows[-1]), markup=False)
        if options.random:
            rows.append(fuzz(name, model, records, target, options.random, options.seed))
            console.print(str(rows[-1]), markup=False)
    write_whole(options.results / "actions.json", json.dumps(rows, indent=1) + "\n")
    write_whole(options.results / "ACTIONS.md", write_page(rows))
    return 1 if any(row["broken"] for row in rows) else 0


def trained(name: str, seed: int, effort: float, places: Places) -> tuple[Splits, RecourseModel, LocalEnsemble]:
    """The splits, a model and its ensemble, as `recourse train` makes them; trained unless they are there"""
    splits = split_dataset(load(name, places.data, seed=0), seed, for_advice=True)
    place = places.cache / f"actions-{name}-{seed}-{effort:g}"
    if not place.exists():
        fitted = fit(splits, MEMBER_NAMES, "quick", Config().scaled(effort), QUERIES, seed)
        save_model(fitted.model, place, fitted.ensemble)
    return splits, load_model(place), load_ensemble_of(place)


def refused(splits: Splits, ensemble: LocalEnsemble, wanted: str, most: int) -> tuple[Records, Targets]:
    """Test records, then others, that no model accepts"""
    records = np.concatenate([splits.test.records, splits.validation.records])
    code = splits.encoder.schema.classes.index(wanted)
    target = np.full(len(records), code, dtype=np.int64)
    rows = np.flatnonzero(~votes(ensemble.predict_proba(records), target).any(axis=0))[:most]
    return records[rows], target[rows]


def measure(
    name: str,
    policy: str,
    model: RecourseModel,
    constraints: Constraints,
    rules: dict[str, Any],
    records: Records,
    target: Targets,
    ensemble: LocalEnsemble,
) -> Row:
    """One row: how the answers are, and what the checker finds"""
    began = time.process_time()
    found = explain(model, records, target, constraints, ASKED, QueryMeter(ensemble, 10**7))
    seconds = time.process_time() - began
    answered = [one for one in found if one.status in (Status.ROBUST, Status.VALID)]
    document = rules or {"format": 1, "features": {}, "rules": []}
    counts = [len(way.actions) for one in answered for way in one.counterfactuals[:1]]
    certificates = Counter(one.diagnosis.certificate.value for one in found if one.diagnosis is not None)
    faults = list_faults(model, document, constraints, records, found)
    most = model.encoder.schema.max_changes if constraints.max_changes == "schema" else constraints.max_changes
    return {
        "dataset": name,
        "policy": policy,
        "records": len(records),
        "answered": len(answered) / len(records),
        "robust": sum(one.status is Status.ROBUST for one in found) / len(records),
        "broken": len(faults),
        "over_limit": sum(most is not None and count > most for count in counts),
        "changes_median": float(np.median(counts)) if counts else None,
        "changes_p90": float(np.quantile(counts, 0.9)) if counts else None,
        "features_median": float(np.median([len(one.counterfactuals[0].changes) for one in answered] or [0])),
        "agreement": _mean(one.counterfactuals[0].agreement for one in answered),
        "cost": _mean(one.counterfactuals[0].cost for one in answered),
        "queries": _mean(one.queries for one in found),
        "proven": certificates["proven"],
        "excluded_by_surrogate": certificates["excluded_by_surrogate"],
        "not_found": certificates["not_found"],
        "ms": 1000 * seconds / len(records),
        "faults": faults[:5],
    }


def list_faults(
    model: RecourseModel,
    document: dict[str, Any],
    constraints: Constraints,
    records: Records,
    found: Sequence[Explanation],
) -> list[str]:
    """What the checker says of every answer, those of `infeasible` records too"""
    schema = model.encoder.schema
    most = schema.max_changes if constraints.max_changes == "schema" else constraints.max_changes
    request = {"levers": list(constraints.levers), "horizon_months": constraints.months, "max_changes": most}
    faults = []
    for record, one in zip(from_records(schema, records), found, strict=True):
        for way in one.counterfactuals:
            faults += broken(document, schema.to_json(), record, way.record, request)
            if len(way.actions) != count_actions(document, record, way.record):
                faults.append(f"{len(way.actions)} actions are told")
    return faults


def fuzz(name: str, model: RecourseModel, records: Records, target: Targets, count: int, seed: int) -> Row:
    """Random policies and requests, three records each"""
    random, faults, answers, asked = np.random.default_rng(seed), list[str](), 0, 0
    schema, began = model.encoder.schema, time.process_time()
    while asked < count:
        document, request = random_policy(schema, random), random_request(random)
        policy = Policy.from_json(document)
        try:
            check_policy(schema, policy)
        except SchemaError:
            continue
        asked += 1
        rows = random.integers(len(records), size=3)
        constraints = Constraints(
            max_changes=int(random.integers(1, 6)),
            levers=tuple(map(Lever, request["levers"])),
            months=request["horizon_months"],
        )
        ruled = replace(model, policy=policy)
        config = SearchConfig(candidates=8, cost_weight=0.01, min_expected_agreement=0.0)
        found = explain(ruled, records[rows], target[rows], constraints, config)
        answers += sum(len(one.counterfactuals) for one in found)
        faults += list_faults(ruled, document, constraints, records[rows], found)
    seconds = time.process_time() - began
    return {
        "dataset": name,
        "policy": f"{count} random",
        "records": 3 * count,
        "answers": answers,
        "broken": len(faults),
        "over_limit": 0,
        "ms": 1000 * seconds / (3 * count),
        "faults": faults[:5],
    }


def _mean(values: Any) -> float | None:  # noqa: ANN401 - of numbers, some of them None
    known = [float(value) for value in values if value is not None]
    return float(np.mean(known)) if known else None


SHOWN = ("answered", "robust", "broken", "over_limit", "changes_median", "changes_p90", "agreement", "cost", "queries")
PROOFS = ("proven", "excluded_by_surrogate", "not_found", "ms")


def write_page(rows: Sequence[Row]) -> str:
    """ACTIONS.md"""
    head = ("data set", "policy", "records", *(name.replace("_", " ") for name in (*SHOWN, *PROOFS)))
    lines = [head]
    for row in rows:
        cells = (_shown(row.get(name)) for name in (*SHOWN, *PROOFS))
        lines.append((row["dataset"], row["policy"], str(row["records"]), *cells))
    page = f"# Advice under action policies\n\n{(__doc__ or '').partition(chr(10))[2].strip()}\n\n"
    page += "Written by `python -m benchmarks.actions`; do not edit. Ten queries a record; the random ones ask none.\n"
    return page + markdown_table(lines)


def _shown(value: object) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.actions", description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(WANTED), choices=list(WANTED), metavar="NAME")
    parser.add_argument("--records", type=int, default=1000, help="refused records, at the most")
    parser.add_argument("--random", type=int, default=3334, help="random policies and requests of each data set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", type=float, default=1.0, help="of the trainings")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=CACHE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
