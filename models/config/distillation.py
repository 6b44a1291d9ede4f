"""The settings of distillation: the jury, its pseudo-labels, the ridge that corrects them; rounds and queries."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .checks import Count, NotNegative, Positive, Positives, Settings, Share, Size, at_least


@dataclass(frozen=True, slots=True)
class JuryConfig(Settings):
    """The jury: plain models of five families, each trained on `draws` draws of a share of the training rows.

    slow_rows     SVM, perceptron and neighbours learn from at most so many rows
    sharpness     the power to which a juror's probabilities are raised; measured on Compas and Adult
    least_chance  no probability counts for less
    plane_gamma   the SVM's gamma for data of at most four encoded columns; for wider data it is 1 / D
    """

    section: ClassVar[str] = "jury."
    draws: Size = 3
    share: Share = 0.8
    slow_rows: Size = 10_000
    sharpness: Positive = 6.0
    least_chance: Positive = 1e-3
    forest_trees: Size = 60
    forest_depth: Size = 10
    boosted_trees: Size = 100
    boosted_depth: Size = 5
    boosted_rate: Positive = 0.1
    nearest: Size = 9
    svm_c: Positive = 3.0
    plane_gamma: Positive = 2.0
    perceptron_width: Size = 64
    perceptron_penalty: Positive = 1e-2
    perceptron_batch: Size = 128
    perceptron_epochs: Size = 40


@dataclass(frozen=True, slots=True)
class PseudoLabelConfig(Settings):
    """The points between the classes that the jury labels before training (models/training/pseudo_labels.py).

    count       of these points
    neighbours  each lies on the way to the nearest of so many points of other classes
    kept        the share of the columns that stay as they are
    jitter      the standard deviation of the noise on the others
    """

    section: ClassVar[str] = "pseudo_labels."
    count: Size = 12_000
    neighbours: Size = 8
    kept: Share = 0.4
    jitter: NotNegative = 0.1


@dataclass(frozen=True, slots=True)
class DistillConfig(Settings):
    """Local distillation: rounds x queries records are put to the ensemble, never more than the limit.

    Over the rounds the rates fall in a line to surrogate_rate_end and generator_rate_end of what they were.
    """

    section: ClassVar[str] = "distill."
    rounds: Count = 20
    queries: Count = 24
    surrogate_steps: Count = 60
    generator_steps: Count = 12
    surrogate_rate: Positive = 5e-4
    generator_rate: Positive = 5e-4
    surrogate_rate_end: Share = 0.2
    generator_rate_end: Share = 0.1


@dataclass(frozen=True, slots=True)
class AcquisitionConfig(Settings):
    """What a round of distillation looks at, and which of it is queried (models/training/acquisition.py).

    records            training records that a round explains, and
    labelled           of so many of them the jury labels all ends of paths
    candidates         paths for each record
    polish_rounds      of local search on each answer
    cost_weight_low    the answers' cost weights are drawn between this one and
    cost_weight_high   this one, evenly in their logarithm
    as_they_come       the share of a batch that is answers as they come; as many are drawn by uncertainty
    beside             the share of the other ends of paths that may follow them, drawn by uncertainty
    least_uncertainty  is added to each point's uncertainty, so that every point has a chance
    """

    section: ClassVar[str] = "acquisition."
    records: Size = 192
    labelled: Count = 64
    candidates: Size = 20
    polish_rounds: Count = 3
    cost_weight_low: Positive = 0.03
    cost_weight_high: float = 1.2
    as_they_come: Share = 1 / 3
    beside: Share = 0.5
    least_uncertainty: Positive = 1e-3

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        at_least(self.cost_weight_low)("acquisition.cost_weight_high", self.cost_weight_high)


@dataclass(frozen=True, slots=True)
class ResidualConfig(Settings):
    """The kernel ridge regression on what the jury gets wrong about the lender's models, which may have rules of their
    own that no data set shows (models/training/residual_ridge.py).

    enabled       False: the jury alone
    point_widths  the widths of the kernel over points that are tried, in medians of the distance between two points
    logit_width   the width of the kernel over the jurors' logits, in medians of theirs
    ridges        the ridges that are tried
    most_error    it must leave no more than this share of the squared error when one point is left out
    least_points  with fewer queried points than this nothing is fitted
    """

    section: ClassVar[str] = "residuals."
    enabled: bool = True
    point_widths: Positives = (0.03, 0.1, 0.3, 1.0)
    logit_width: Positive = 0.6
    ridges: Positives = (0.02, 0.1, 0.4)
    most_error: Share = 0.97
    least_points: Annotated[int, at_least(2)] = 8
