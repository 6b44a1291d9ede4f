"""NICE (Brughmans et al., 2024) from PyPI, sparse variant: the nearest unlike neighbour, feature by feature."""

import numpy as np
from lines import answer, ask, read_task
from nice import NICE


def main() -> None:
    task = read_task()
    training = np.array(task.training)
    numeric = [column for column in range(training.shape[1]) if column not in task.categorical]
    explainer = NICE(
        predict_fn=lambda rows: np.array(ask(np.asarray(rows, dtype=float).tolist())),
        X_train=training,
        cat_feat=task.categorical,
        num_feat=numeric,
        y_train=np.array(task.labels),
        optimization="sparsity",
        justified_cf=False,
    )
    for record, target in zip(task.records, task.targets, strict=True):
        try:
            found = explainer.explain(np.array([record]), target_class=[target])
        except (ValueError, UserWarning, IndexError):
            answer(None)
            continue
        answer(np.asarray(found, dtype=float)[0].tolist())


main()
