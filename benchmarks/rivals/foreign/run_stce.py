"""STCE, that is T-Rex (Hamman et al., 2023), from PyPI's rocelib: the nearest accepted record that is stable.

Stable twice: under small changes of the weights, and under noise of 0.1 on the inputs, which have to lie in [0, 1].
The package takes the records whose label is `neg_value` for the accepted ones.
"""

import numpy as np
from lines import answer, read_task
from networks import LABEL, Remembering, frame_of, rocelib_task
from rocelib.recourse_methods.STCE import TrexNN

ACCEPTED = 1


def main() -> None:
    task = read_task()
    np.random.seed(task.seed)
    method = TrexNN(rocelib_task(task))
    for number, record in frame_of(task.records, task.names).iterrows():
        record.name = f"record {number}"
        found = method.generate_for_instance(
            record, column_name=LABEL, neg_value=ACCEPTED, robustness_check=Remembering
        )
        answer(None if found.index[0] == record.name else [float(found.index[0])])


main()
