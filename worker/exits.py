"""How the process of a training ends; any other code, or a signal, is a death."""

ENDED = 0
"""The job's row says how: done, failed, or queued again."""
STOPPED = 3
"""It was told to stop and kept a checkpoint; the trainer puts the job back."""
LOST = 4
"""Another trainer has the job."""
ORPHANED = 5
"""Its trainer died."""
