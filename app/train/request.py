"""What POST /train asks for, checked; the job row keeps it as JSON. It imports nothing heavy: the API needs it.

What a training request comes to: the method's settings, and how many queries it may make.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, TypeAlias
from uuid import UUID

from pydantic import ConfigDict, Field

from app.fields import Body, ColumnName, Document, Name
from models.config import PRESETS, Config, MeasureConfig
from models.data.json_fields import read_flag, read_mapping, read_number, read_text, read_texts
from models.errors import ConfigError

Mode: TypeAlias = Literal["quick", "tuned"]
Preset: TypeAlias = Literal["fast", "paper"]
MEMBER_NAMES = ("knn", "svm", "forest", "mlp", "xgboost", "catboost", "tabnet")
"""The names of models.ensemble.recipes, which imports what the plain install has not."""
MOST_EFFORT = 10.0
ORACLE_RECORDS, MOST_ORACLE_RECORDS = 10, 200


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """One training.

    label           None: the data set's own
    overrides       changes of the inferred schema, as {"features": {"savings": {"direction": "up"}}}
    ensemble        the name of a registered ensemble; None: the members are trained here, by `mode`
    queries         the most records put to the ensemble; None: what the preset plans, and the oracle's records
    oracle_records  held-out records on which the version is compared with an oracle; None: see `compared`
    activate        whether the new version answers at once; the first one of a model does in any case
    """

    dataset_id: UUID
    label: str | None = None
    overrides: Mapping[str, object] = field(default_factory=dict)
    ensemble: str | None = None
    members: tuple[str, ...] = MEMBER_NAMES
    mode: Mode = "quick"
    preset: Preset = "fast"
    effort: float = 1.0
    queries: int | None = None
    top_features: int | None = None
    seed: int = 0
    activate: bool = True
    oracle_records: int | None = None

    def __post_init__(self) -> None:
        for name in self.members:
            if name not in MEMBER_NAMES:
                raise ConfigError(f"There is no ensemble member '{name}'; choose from {', '.join(MEMBER_NAMES)}.")
        if not self.members:
            raise ConfigError(f"The ensemble needs at least one member of {', '.join(MEMBER_NAMES)}.")
        if self.mode not in ("quick", "tuned"):
            raise ConfigError(f"There is no ensemble mode '{self.mode}'; choose quick or tuned.")
        if self.preset not in ("fast", "paper"):
            raise ConfigError(f"There is no preset '{self.preset}'; choose fast or paper.")
        if not 0 < self.effort <= MOST_EFFORT:
            raise ConfigError(f"effort is {self.effort}; it must lie above 0 and at most at {MOST_EFFORT:g}.")
        if self.queries is not None and self.queries < 0:
            raise ConfigError(f"The query limit {self.queries} is negative; give 0 or more.")
        if self.top_features is not None and self.top_features < 1:
            raise ConfigError(f"top_features is {self.top_features}; it must be at least 1.")
        if not 0 <= self.compared <= MOST_ORACLE_RECORDS:
            raise ConfigError(f"oracle_records is {self.oracle_records}; give 0 to {MOST_ORACLE_RECORDS}.")
        if self.seed < 0:
            raise ConfigError(f"seed is {self.seed}; it must be 0 or more.")

    @property
    def compared(self) -> int:
        """The records for the oracle: some where the models are ours, none unasked where each query is the lender's."""
        if self.oracle_records is not None:
            return self.oracle_records
        return ORACLE_RECORDS if self.ensemble is None else 0

    def to_json(self) -> dict[str, object]:
        """What `from_json` reads back."""
        return {
            "dataset_id": str(self.dataset_id),
            "label": self.label,
            "overrides": dict(self.overrides),
            "ensemble": self.ensemble,
            "members": list(self.members),
            "mode": self.mode,
            "preset": self.preset,
            "effort": self.effort,
            "queries": self.queries,
            "top_features": self.top_features,
            "seed": self.seed,
            "activate": self.activate,
            "oracle_records": self.oracle_records,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> "TrainRequest":
        owner = "the training request"
        mode: Mode = "tuned" if document.get("mode") == "tuned" else "quick"
        preset: Preset = "paper" if document.get("preset") == "paper" else "fast"
        return cls(
            dataset_id=UUID(read_text(document, "dataset_id", owner)),
            label=_text_or_none(document, "label"),
            overrides=read_mapping(document.get("overrides", {}), "'overrides'"),
            ensemble=_text_or_none(document, "ensemble"),
            members=read_texts(document, "members", owner),
            mode=mode,
            preset=preset,
            effort=read_number(document, "effort", owner),
            queries=_count_or_none(document, "queries"),
            top_features=_count_or_none(document, "top_features"),
            seed=int(read_number(document, "seed", owner)),
            activate=read_flag(document, "activate", owner),
            oracle_records=_count_or_none(document, "oracle_records"),
        )


def _text_or_none(document: Mapping[str, object], key: str) -> str | None:
    return None if document.get(key) is None else read_text(document, key, "the training request")


def _count_or_none(document: Mapping[str, object], key: str) -> int | None:
    return None if document.get(key) is None else int(read_number(document, key, "the training request"))


Member = Literal["knn", "svm", "forest", "mlp", "xgboost", "catboost", "tabnet"]
MOST_QUERIES = 10**9
MOST_SEED = 2**31 - 1


class TrainBody(Body):
    """A training: the surrogate and the flow that explain one ensemble."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "loans",
                    "dataset": "0b9f6c1e-5a38-4f0e-9a55-0a1f6f0f7c11",
                    "label": "approved",
                    "overrides": {"features": {"postcode": {"protected": True}, "income": {"direction": "up"}}},
                    "queries": 20000,
                }
            ]
        }
    )

    model: Name = Field(description="The model that the new version belongs to; made if it is new.")
    dataset: UUID
    label: ColumnName | None = Field(None, description="The column that is predicted; by default the data set's own.")
    overrides: Document = Field(
        default_factory=dict,
        description='Changes of the inferred schema, as {"features": {"savings": {"direction": "up", "lower": 0}}}.',
    )
    ensemble: Name | None = Field(None, description="A registered ensemble; without one, `members` are trained here.")
    members: Annotated[list[Member], Field(min_length=1, max_length=7)] | None = Field(
        None, description="The models to train; by default all seven."
    )
    mode: Literal["quick", "tuned"] = Field("quick", description="Good defaults, or a search for the best settings.")
    preset: Literal["fast", "paper"] = "fast"
    effort: float = Field(1.0, gt=0, le=MOST_EFFORT, description="How long to train, as a multiple of the preset.")
    queries: int | None = Field(None, ge=0, le=MOST_QUERIES, description="Black-box queries that the job may use.")
    top_features: int | None = Field(None, ge=1, le=10_000, description="Keep only so many features.")
    oracle_records: int | None = Field(
        None,
        ge=0,
        le=MOST_ORACLE_RECORDS,
        description="Held-out records on which the version is compared with an oracle; 0: none. By default "
        f"{ORACLE_RECORDS} where the models are trained here, none with a registered ensemble. Each takes up to "
        "111 queries; where the budget or `queries` has no room for them, the comparison is left out "
        "and the job says so.",
    )
    seed: int = Field(0, ge=0, le=MOST_SEED)
    activate: bool = Field(True, description="Whether the new version answers at once; a first one always does.")

    def request(self) -> TrainRequest:
        """The same, as the trainer reads it."""
        chosen = {} if self.members is None else {"members": tuple(self.members)}
        return TrainRequest(
            dataset_id=self.dataset,
            label=self.label,
            overrides=self.overrides,
            ensemble=self.ensemble,
            mode=self.mode,
            preset=self.preset,
            effort=self.effort,
            queries=self.queries,
            top_features=self.top_features,
            seed=self.seed,
            activate=self.activate,
            oracle_records=self.oracle_records,
            **chosen,
        )


CHECK_SHARE = 10
"""Of a limit that the user sets, at most one query in so many goes into the checks."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job's queries are for: at most `queries` records are bought to learn from, the others measure.

    skipped says why there is no comparison with the oracle although one was asked for.
    """

    config: Config
    queries: int
    measure: MeasureConfig
    skipped: str | None = None

    @property
    def total(self) -> int:
        return self.queries + self.measure.queries

    def without_oracle(self, reason: str) -> "Plan":
        return replace(self, measure=replace(self.measure, oracle_records=0), skipped=reason)


def make_plan(request: TrainRequest, device: str) -> Plan:
    """Learning comes first: the comparison with the oracle is left out where the limit has no room for it."""
    config = PRESETS[request.preset]().scaled(request.effort)
    config = replace(config, device=device, top_features=request.top_features)
    measure = MeasureConfig(oracle_records=request.compared)
    if request.queries is None:
        return Plan(config, config.queries, measure)
    least = config.queries + measure.queries
    measure = replace(measure, checks=min(measure.checks, request.queries // CHECK_SHARE))
    left = request.queries - measure.queries
    if left >= config.queries:
        return Plan(config.within_queries(left), left, measure)
    left = request.queries - measure.checks
    plan = Plan(config.within_queries(left), left, replace(measure, oracle_records=0))
    if not request.compared:
        return plan
    compared = request.compared * measure.queries_each
    fact = f"{request.compared} records would take {compared} of the job's {request.queries} queries"
    return plan.without_oracle(f"{fact}; allow it {least}, or compare fewer records")
