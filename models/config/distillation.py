"""The settings of distillation: rounds and queries, teachers, their pseudo-labels and the ridge that corrects them."""

from dataclasses import dataclass

from .checks import at_least, positive, require, share


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
