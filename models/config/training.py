"""The settings of the training: networks, losses and schedules."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from .checks import at_least, one_of, positive, require, share

Solver: TypeAlias = Literal["euler", "midpoint", "ralston3", "rk4", "dopri5"]
DensityProxy: TypeAlias = Literal["nce", "none", "disc2", "knn", "lof"]


NARROW, WIDE, MANY_RECORDS = 192, 256, 10_000
"""The widths of the surrogate, and from how many training records on it is wide."""
MOST_HEADS = 16
"""Of so many black boxes each has its own head in the surrogate; of more, one head stands for all."""


@dataclass(frozen=True, slots=True)
class NoiseConfig:
    """The noise class: uniform on [-C, C]^D, `ratio` noise points a data point (tau of the paper)."""

    ratio: float = 0.2
    beta: float = 1.2
    bound: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        positive("noise.ratio", self.ratio)
        positive("noise.beta", self.beta)
        at_least("noise.weight", self.weight, 0)
        if self.bound is not None:
            positive("noise.bound", self.bound)


@dataclass(frozen=True, slots=True)
class SurrogateConfig:
    """The pair of networks. `votes` adds heads for what the black boxes say; `teachers` give them pseudo-labels.

    width              of the hidden layers; None leaves it to the number of training records, and
    heads              how many heads the votes have; None leaves it to the number of black boxes (`fitted`)
    queried_batch      queried labels in each update, beside `batch` records and `batch` pseudo-labels
    warmup             the share of the steps in which the learning rate rises; then it falls as a cosine
    final_rate         where it ends, as a share of the learning rate
    calibration_prior  how strongly slope and bias of the calibrated votes are held at 1 and 0
    """

    width: int | None = None
    heads: int | None = None
    spectral: bool = False
    votes: bool = True
    teachers: bool = True
    steps: int = 1000
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    queried_batch: int = 256
    warmup: float = 0.05
    final_rate: float = 1e-3
    calibration_prior: float = 0.02

    def __post_init__(self) -> None:
        if self.width is not None:
            at_least("surrogate.width", self.width, 8)
        if self.heads is not None:
            at_least("surrogate.heads", self.heads, 1)
        at_least("surrogate.steps", self.steps, 0)
        at_least("surrogate.batch", self.batch, 1)
        positive("surrogate.learning_rate", self.learning_rate)
        at_least("surrogate.weight_decay", self.weight_decay, 0)
        at_least("surrogate.queried_batch", self.queried_batch, 1)
        share("surrogate.warmup", self.warmup)
        share("surrogate.final_rate", self.final_rate)
        at_least("surrogate.calibration_prior", self.calibration_prior, 0)
        require(self.votes or not self.teachers, "surrogate.teachers label for the head that surrogate.votes adds.")

    def fitted(self, records: int, members: int) -> "SurrogateConfig":
        """The settings for so many training records and black boxes.

        More records say more, and a wider network can tell it.
        """
        width, heads = self.width or (WIDE if records > MANY_RECORDS else NARROW), self.heads
        fits = heads is None or heads in (1, members)
        require(fits, f"surrogate.heads is {heads}; it must be 1, or {members} as there are black boxes.")
        return replace(self, width=width, heads=heads or (members if members <= MOST_HEADS else 1))


@dataclass(frozen=True, slots=True)
class FlowConfig:
    """The velocity network and how its ODE is solved.

    width    of the layers that follow the path
    context  of the layers that read the request once for all paths; None: one network does both (models/velocity.py)
    """

    width: int = 48
    context: int | None = 256
    solver: Solver = "ralston3"
    steps: int = 1
    tolerance: float = 1e-3
    adjoint: bool = False
    max_evaluations: int = 2000

    def __post_init__(self) -> None:
        one_of("flow.solver", self.solver, get_args(Solver))
        at_least("flow.width", self.width, 8)
        if self.context is not None:
            at_least("flow.context", self.context, 8)
        at_least("flow.steps", self.steps, 1)
        positive("flow.tolerance", self.tolerance)
        at_least("flow.max_evaluations", self.max_evaluations, 1)


@dataclass(frozen=True, slots=True)
class LossConfig:
    """Weights of the composite loss. lambda_cost is drawn from a range and is an input of the generator."""

    valid: float = 1.0
    cost_low: float = 0.02
    cost_high: float = 2.0
    density: float = 0.1
    proxy: DensityProxy = "nce"
    path: bool = False

    def __post_init__(self) -> None:
        one_of("loss.proxy", self.proxy, get_args(DensityProxy))
        positive("loss.cost_low", self.cost_low)
        positive("loss.cost_high", self.cost_high)
        span = f"loss.cost_low is {self.cost_low} and loss.cost_high {self.cost_high}"
        require(self.cost_low <= self.cost_high, f"{span}; the low one must not be above the high one.")
        at_least("loss.valid", self.valid, 0)
        at_least("loss.density", self.density, 0)


@dataclass(frozen=True, slots=True)
class GeneratorConfig:
    """How the generator is trained. `joint` refines the surrogate at each step, as the paper's Algorithm 1 does.

    constrained    the share of the requests in training that are given random constraints:
    frozen_most    at most this share of their features is frozen, and
    bounded_share  this share of their numbers is bounded on one side
    clip           the largest norm of a gradient
    """

    steps: int = 900
    epochs: int | None = None
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-4
    warmup: float = 0.05
    ema: float = 0.99
    joint: bool = False
    constrained: float = 0.5
    perturbation: float = 0.05
    final_rate: float = 1e-3
    frozen_most: float = 0.7
    bounded_share: float = 0.2
    clip: float = 5.0

    def __post_init__(self) -> None:
        at_least("generator.steps", self.steps, 0)
        if self.epochs is not None:
            at_least("generator.epochs", self.epochs, 0)
        at_least("generator.batch", self.batch, 1)
        positive("generator.learning_rate", self.learning_rate)
        at_least("generator.weight_decay", self.weight_decay, 0)
        require(0 <= self.warmup <= 1, f"generator.warmup is {self.warmup}; it must lie in [0, 1].")
        require(0 <= self.ema < 1, f"generator.ema is {self.ema}; it must lie in [0, 1).")
        require(0 <= self.constrained <= 1, f"generator.constrained is {self.constrained}; it must lie in [0, 1].")
        at_least("generator.perturbation", self.perturbation, 0)
        share("generator.final_rate", self.final_rate)
        share("generator.frozen_most", self.frozen_most)
        share("generator.bounded_share", self.bounded_share)
        positive("generator.clip", self.clip)


@dataclass(frozen=True, slots=True)
class DistillConfig:
    """Local distillation: rounds x queries records are put to the ensemble, never more than the limit.

    Over the rounds the rates fall in a line to surrogate_rate_end and generator_rate_end of what they were.

    finetune_steps   when all is queried, the surrogate learns on at a rate that falls from finetune_rate to nothing;
                     0: the last round ends the training
    aggregate_every  while it does, its answers are labelled by the teachers once in so many steps
    """

    rounds: int = 20
    queries: int = 24
    surrogate_steps: int = 60
    generator_steps: int = 12
    surrogate_rate: float = 5e-4
    generator_rate: float = 5e-4
    finetune_steps: int = 2000
    finetune_rate: float = 1e-3
    surrogate_rate_end: float = 0.2
    generator_rate_end: float = 0.1
    aggregate_every: int = 250

    def __post_init__(self) -> None:
        at_least("distill.rounds", self.rounds, 0)
        at_least("distill.queries", self.queries, 0)
        at_least("distill.surrogate_steps", self.surrogate_steps, 0)
        at_least("distill.generator_steps", self.generator_steps, 0)
        positive("distill.surrogate_rate", self.surrogate_rate)
        positive("distill.generator_rate", self.generator_rate)
        at_least("distill.finetune_steps", self.finetune_steps, 0)
        positive("distill.finetune_rate", self.finetune_rate)
        share("distill.surrogate_rate_end", self.surrogate_rate_end)
        share("distill.generator_rate_end", self.generator_rate_end)
        at_least("distill.aggregate_every", self.aggregate_every, 1)


@dataclass(frozen=True, slots=True)
class AcquisitionConfig:
    """What a round of distillation looks at, and which of it is queried (models/training/acquisition.py).

    records            training records that a round explains, and
    labelled           of so many of them the teachers label all ends of paths
    candidates         paths for each record
    polish_rounds      of local search on each answer
    cost_weight_low    the answers' cost weights are drawn between this one and
    cost_weight_high   this one, evenly in their logarithm
    as_they_come       the share of a batch that is answers as they come; as many are drawn by uncertainty
    beside             the share of the other ends of paths that may follow them, drawn by uncertainty
    least_uncertainty  is added to each point's uncertainty, so that every point has a chance
    """

    records: int = 192
    labelled: int = 64
    candidates: int = 20
    polish_rounds: int = 3
    cost_weight_low: float = 0.03
    cost_weight_high: float = 1.2
    as_they_come: float = 1 / 3
    beside: float = 0.5
    least_uncertainty: float = 1e-3

    def __post_init__(self) -> None:
        at_least("acquisition.records", self.records, 1)
        at_least("acquisition.labelled", self.labelled, 0)
        at_least("acquisition.candidates", self.candidates, 1)
        at_least("acquisition.polish_rounds", self.polish_rounds, 0)
        positive("acquisition.cost_weight_low", self.cost_weight_low)
        at_least("acquisition.cost_weight_high", self.cost_weight_high, self.cost_weight_low)
        share("acquisition.as_they_come", self.as_they_come)
        share("acquisition.beside", self.beside)
        positive("acquisition.least_uncertainty", self.least_uncertainty)


@dataclass(frozen=True, slots=True)
class TeacherConfig:
    """The teachers: two forests and a perceptron, and unless they are switched off an SVM, neighbours, two boosted.

    slow_rows       SVM and perceptron learn from at most so many rows, and
    neighbour_rows  the nearest neighbours keep at most so many
    prior           how strongly the stacking weights are held at equal shares, in units of one queried label's row
    sharpness       the power to which a teacher's probabilities are raised; measured on Compas and Adult
    least_chance    no probability counts for less
    plane_gamma     the SVM's gamma for data of at most four encoded columns; for wider data it is 1 / D
    """

    svm: bool = True
    neighbours: bool = True
    boosted: bool = True
    slow_rows: int = 10_000
    neighbour_rows: int = 40_000
    prior: float = 3.0
    sharpness: float = 6.0
    least_chance: float = 1e-3
    forest_trees: int = 60
    forest_depth: int = 10
    extra_depth: int = 12
    boosted_trees: int = 100
    shallow_trees: int = 150
    shallow_depth: int = 3
    nearest: int = 9
    svm_c: float = 3.0
    plane_gamma: float = 2.0
    perceptron_width: int = 64
    perceptron_penalty: float = 1e-2
    perceptron_batch: int = 128
    perceptron_epochs: int = 40

    def __post_init__(self) -> None:
        for name in ("slow_rows", "neighbour_rows", "forest_trees", "forest_depth", "extra_depth", "boosted_trees"):
            at_least(f"teachers.{name}", getattr(self, name), 1)
        for name in ("shallow_trees", "shallow_depth", "nearest", "perceptron_width", "perceptron_epochs"):
            at_least(f"teachers.{name}", getattr(self, name), 1)
        at_least("teachers.perceptron_batch", self.perceptron_batch, 1)
        for name in ("prior", "sharpness", "least_chance", "svm_c", "plane_gamma", "perceptron_penalty"):
            positive(f"teachers.{name}", getattr(self, name))


@dataclass(frozen=True, slots=True)
class ResidualConfig:
    """The kernel ridge regression on what the stacked teachers get wrong (models/training/residual_ridge.py).

    enabled       False: the stacked teachers alone
    point_widths  the widths of the kernel over points that are tried, in medians of the distance between two points
    logit_width   the width of the kernel over the teachers' logits, in medians of theirs
    ridges        the ridges that are tried
    most_error    it must leave no more than this share of the squared error when one point is left out
    least_points  with fewer queried points than this nothing is fitted
    """

    enabled: bool = True
    point_widths: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0)
    logit_width: float = 0.6
    ridges: tuple[float, ...] = (0.02, 0.1, 0.4)
    most_error: float = 0.97
    least_points: int = 8

    def __post_init__(self) -> None:
        for name, values in (("point_widths", self.point_widths), ("ridges", self.ridges)):
            require(len(values) > 0, f"residuals.{name} is empty; give at least one number.")
            for value in values:
                positive(f"residuals.{name}", value)
        positive("residuals.logit_width", self.logit_width)
        share("residuals.most_error", self.most_error)
        at_least("residuals.least_points", self.least_points, 2)


@dataclass(frozen=True, slots=True)
class PseudoLabelConfig:
    """The points between the classes that the teachers label before training (models/training/pseudo_labels.py).

    count            of these points
    neighbours       each lies on the way to the nearest of so many points of other classes
    kept             the share of the columns that stay as they are
    jitter           the standard deviation of the noise on the others
    on_policy_share  of each batch, once there are labels where the search leads
    """

    count: int = 12_000
    neighbours: int = 8
    kept: float = 0.4
    jitter: float = 0.1
    on_policy_share: float = 0.5

    def __post_init__(self) -> None:
        at_least("pseudo_labels.count", self.count, 1)
        at_least("pseudo_labels.neighbours", self.neighbours, 1)
        share("pseudo_labels.kept", self.kept)
        at_least("pseudo_labels.jitter", self.jitter, 0)
        share("pseudo_labels.on_policy_share", self.on_policy_share)


@dataclass(frozen=True, slots=True)
class SelectionConfig:
    """How LassoNet ranks the features, if `top_features` asks for it (models/training/feature_selection.py).

    rows           rank the features as well as all of them
    first_penalty  what LassoNet's own estimate comes to, which takes longer than the path; it rises by penalty_factor
    first_epochs   at most, without a penalty; then `epochs` for each penalty
    """

    rows: int = 3000
    first_penalty: float = 3.0
    penalty_factor: float = 1.2
    width: int = 64
    first_epochs: int = 200
    epochs: int = 40
    batch: int = 512

    def __post_init__(self) -> None:
        for name in ("rows", "width", "first_epochs", "epochs", "batch"):
            at_least(f"selection.{name}", getattr(self, name), 1)
        positive("selection.first_penalty", self.first_penalty)
        require(self.penalty_factor > 1, f"selection.penalty_factor is {self.penalty_factor}; it must be above 1.")


@dataclass(frozen=True, slots=True)
class RankerConfig:
    """The small network that ranks where paths end (models/networks/ranker.py).

    steps         of its training; with 0 there is none
    by_objective  so many ends go on for their objective at the request's cost weight, and
    by_agreement  so many for their agreement at any cost
    records       training records that it learns from, each with so many paths (`candidates`) and ways to the anchors
    checked       validation records on which it is measured, at each of the `cost_weights`
    most_regret   what may be lost of the best candidate's objective, in the mean at any of them; if more, it is dropped
    """

    width: int = 48
    steps: int = 2000
    by_objective: int = 4
    by_agreement: int = 1
    records: int = 2000
    candidates: int = 30
    batch: int = 512
    learning_rate: float = 6e-3
    warmup: float = 0.05
    final_rate: float = 1e-3
    checked: int = 200
    cost_weights: tuple[float, ...] = (0.01, 0.1, 0.6)
    most_regret: float = 0.03

    def __post_init__(self) -> None:
        at_least("ranker.width", self.width, 8)
        at_least("ranker.steps", self.steps, 0)
        at_least("ranker.by_objective", self.by_objective, 1)
        at_least("ranker.by_agreement", self.by_agreement, 0)
        for name in ("records", "candidates", "batch", "checked"):
            at_least(f"ranker.{name}", getattr(self, name), 1)
        positive("ranker.learning_rate", self.learning_rate)
        share("ranker.warmup", self.warmup)
        share("ranker.final_rate", self.final_rate)
        require(len(self.cost_weights) > 0, "ranker.cost_weights is empty; give at least one number.")
        for cost_weight in self.cost_weights:
            positive("ranker.cost_weights", cost_weight)
        at_least("ranker.most_regret", self.most_regret, 0)
