"""Every error that this project raises on purpose.

RecourseError
├── SchemaError        the schema or an override of it contradicts itself
├── DataError          a training frame cannot be learned from
├── RecordError        a record holds a value that the schema does not allow
├── ConstraintError    the constraints of a request leave no value
├── TargetError        the target is not a class of the model
├── QueryLimitError    a black-box query was refused, because it would pass the limit
├── EnsembleError      the black boxes did not answer as their protocol says
├── SolverError        the ODE solver did not reach the end
├── ConfigError        a setting has a value that makes no sense
├── ArtifactError      a saved model is missing, damaged or of another format
├── StoppedError       the training was told to stop
└── MissingDataError   a public data set is not in the folder that RECOURSE_DATA names

A message is one sentence that names the column, the value or the number, and what to do about it.
"""


class RecourseError(Exception):
    """The root: catch this to catch every mistake that the caller can correct."""


class SchemaError(RecourseError):
    """The schema, or an override of it, contradicts itself."""


class DataError(RecourseError):
    """A training frame cannot be learned from."""


class RecordError(RecourseError):
    """A record holds a value that the schema does not allow."""


class ConstraintError(RecourseError):
    """The constraints of a request leave no value for a feature."""


class TargetError(RecourseError):
    """The target is not a class of the model."""


class QueryLimitError(RecourseError):
    """A black-box query was refused, because it would pass the limit."""


class EnsembleError(RecourseError):
    """The black boxes did not answer as their protocol says."""


class SolverError(RecourseError):
    """The ODE solver did not reach the end of its interval."""


class ConfigError(RecourseError):
    """A setting has a value that makes no sense."""


class ArtifactError(RecourseError):
    """A saved model is missing, damaged or of another format."""


class StoppedError(RecourseError):
    """The training was told to stop; its state was kept."""


class MissingDataError(RecourseError):
    """A public data set is not in the folder that RECOURSE_DATA names."""
