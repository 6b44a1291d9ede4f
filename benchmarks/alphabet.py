"""Do the names of categories decide the advice? `python -m benchmarks.alphabet`

The same lender is explained twice on Adult: with the categories' own names, and with the names of each feature's
categories exchanged at random, in each encoding. Of the answers' changes of a feature, how many go at most two places
along the alphabet of its own names, which is a ring? An encoding that knows no names gives the same share both times.
Answers are free to change anything, or may change these features only. Writes benchmarks/results/alphabet.json.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from benchmarks.store import CACHE, RESULTS, Places, Row, RowFile
from models.arrays import Records
from models.config import SearchConfig, fast
from models.data.records import check_record
from models.data.schema import Schema
from models.datasets import load
from models.datasets.dataset import Dataset, Splits, split_dataset
from models.ensemble.local import LocalEnsemble, train_local_ensemble
from models.ensemble.votes import votes
from models.search.local_search import count_changes
from models.search.search import explain
from models.space.codings import ENCODINGS, Encoding
from models.space.constraints import Constraints
from models.training.train import train

FEATURES = ("occupation", "education", "native-country")
MEMBERS = ("forest", "mlp", "xgboost")
NEAR = 2
"""So many places along the alphabet are near."""
CHEAP = SearchConfig(cost_weight=0.02, min_expected_agreement=0.0)
"""Where little may change, whatever helps is an answer."""
Renaming = Mapping[str, Mapping[str, str]]
"""The new name of each category, by feature."""


@dataclass(frozen=True, eq=False)
class Renamed:
    """The lender behind other names; codes[j] (K,) is the lender's code of each code of feature j, by its position."""

    lender: LocalEnsemble
    codes: Mapping[int, NDArray[np.float64]]

    @property
    def member_names(self) -> tuple[str, ...]:
        return self.lender.member_names

    @property
    def classes(self) -> tuple[str, ...]:
        return self.lender.classes

    def back(self, records: Records) -> Records:
        """records (n, F) under the other names -> under the lender's own"""
        own = records.copy()
        for j, codes in self.codes.items():
            there = ~np.isnan(records[:, j])
            own[there, j] = codes[records[there, j].astype(np.intp)]
        return own

    def predict_proba(self, records: Records) -> NDArray[np.float64]:
        """records (n, F) -> (m, n, K)"""
        return self.lender.predict_proba(self.back(records))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="adult")
    parser.add_argument("--features", nargs="+", default=list(FEATURES))
    parser.add_argument("--encodings", nargs="+", default=list(ENCODINGS))
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--effort", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dataset = load(options.dataset, Places.of(CACHE).data, seed=0)
    splits = split_dataset(dataset, options.seed)
    lender = train_local_ensemble(
        splits.encoder, splits.training.records, splits.training.labels, "quick", MEMBERS, options.seed
    )
    store = RowFile(RESULTS / "alphabet.json", ("dataset", "encoding", "names", "seed", "effort"))
    for encoding in options.encodings:
        for names in ("own", "exchanged"):
            row = {"dataset": options.dataset, "encoding": encoding, "names": names}
            row |= {"seed": options.seed, "effort": options.effort}
            if not store.has(row):
                row |= measure(dataset, splits, lender, encoding, names == "exchanged", options)
                Console(stderr=True).print(row)
                store.put([row])


def measure(
    dataset: Dataset,
    splits: Splits,
    lender: LocalEnsemble,
    encoding: Encoding,
    exchanged: bool,
    options: argparse.Namespace,
) -> Row:
    """Train once, answer the refused, and count; all changes are told by the categories' own names."""
    names = exchange(splits, options.seed) if exchanged else {}
    frame = dataset.frame.assign(**{name: dataset.frame[name].map(new) for name, new in names.items()})
    study = split_dataset(replace(dataset, frame=frame), options.seed, encoding)
    asked = Renamed(lender, own_codes(splits, study, names))
    model = train(study, asked, fast().scaled(options.effort), seed=options.seed)
    records, target = study.test.records, len(lender.classes) - 1
    refused = ~votes(asked.predict_proba(records), np.full(len(records), target)).any(axis=0)
    records = records[np.flatnonzero(refused)[: options.records]]
    schema = study.encoder.schema
    only = Constraints(immutable=frozenset(schema.names) - set(options.features))
    row: Row = {"columns": study.encoder.width, "records": len(records)}
    for way, constraints, config in (("free", Constraints(), SearchConfig()), ("only", only, CHEAP)):
        found = explain(model, records, np.full(len(records), target, dtype=np.int64), constraints, config)
        given = [position for position, each in enumerate(found) if each.counterfactuals]
        answers = np.concatenate([check_record(schema, found[each].counterfactuals[0].record) for each in given])
        origin, answers = asked.back(records[given]), asked.back(answers)
        said = votes(lender.predict_proba(answers), np.full(len(answers), target))
        row[way] = {
            "answers": len(answers),
            "validity": float(said.mean()),
            "unanimity": float(said.all(axis=0).mean()),
            "changes": float(count_changes(answers, origin).mean()),
            "near": {name: near(splits.encoder.schema, name, origin, answers) for name in options.features},
        }
    return row


def exchange(splits: Splits, seed: int) -> Renaming:
    """The names of each feature's categories, exchanged at random."""
    random = np.random.default_rng(seed)
    named = [feature for feature in splits.encoder.schema.features if feature.is_categorical]
    return {
        each.name: dict(zip(each.categories, random.permutation(each.categories).tolist(), strict=True))
        for each in named
    }


def own_codes(splits: Splits, study: Splits, names: Renaming) -> dict[int, NDArray[np.float64]]:
    """By the place of a renamed feature, the lender's code of each of its codes (K,)"""
    codes = {}
    for name, new in names.items():
        own, j = splits.encoder.schema.features[splits.encoder.schema.index(name)], study.encoder.schema.index(name)
        old = {after: before for before, after in new.items()}
        listed = study.encoder.schema.features[j].categories
        codes[j] = np.array([own.categories.index(old[category]) for category in listed], dtype=np.float64)
    return codes


def near(schema: Schema, name: str, origin: Records, answers: Records) -> Row:
    """Of the answers (n, F) that change the feature, the share that goes at most two places along the alphabet"""
    j, count = schema.index(name), len(schema.features[schema.index(name)].categories)
    before, after = origin[:, j], answers[:, j]
    moved = ~np.isnan(before) & (before != after)
    away = np.abs(before - after)[moved]
    close = np.minimum(away, count - away) <= NEAR
    chance = min(1.0, 2 * NEAR / (count - 1))
    return {"changes": int(moved.sum()), "share": float(close.mean()) if len(close) else None, "chance": chance}


if __name__ == "__main__":
    main()
