"""An ensemble in this process, as a black box."""

import numpy as np

from app.blackbox.deadline import Deadline
from app.blackbox.protocol import BoxAnswer, MissingVote
from models.ensemble.protocol import Ensemble
from models.errors import EnsembleError
from models.matrix import Records


class LocalBlackBox:
    """Any `Ensemble`: it is asked as a whole, whichever members are wanted, and cannot be stopped while it thinks."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.member_names = ensemble.member_names
        self.classes = ensemble.classes
        self._ensemble = ensemble

    def close(self) -> None:
        """Nothing is open."""

    def reachable(self) -> frozenset[int]:
        return frozenset(range(len(self.member_names)))

    def ask(self, records: Records, members: tuple[int, ...], deadline: Deadline) -> BoxAnswer:
        """records (n, F) -> probabilities (len(members), n, K)"""
        try:
            answered = np.asarray(self._ensemble.predict_proba(records), dtype=np.float64)
        except EnsembleError as error:
            nothing = np.full((len(members), len(records), len(self.classes)), np.nan)
            return BoxAnswer(nothing, tuple(MissingVote(self.member_names[m], str(error), True) for m in members))
        expected = (len(self.member_names), len(records), len(self.classes))
        if answered.shape != expected:
            raise EnsembleError(f"the ensemble answered with shape {answered.shape}, its protocol says {expected}")
        chosen = answered[list(members)]
        silent = np.isnan(chosen).any(axis=(1, 2))
        missing = (MissingVote(self.member_names[m], "did not answer", True) for m in np.array(members)[silent])
        return BoxAnswer(chosen, tuple(missing))
