"""DiCE (Mothilal et al., 2020) from PyPI, its random search: one counterfactual a record."""

import dice_ml
import numpy as np
import pandas as pd
from lines import answer, ask, read_task
from raiutils.exceptions import UserConfigValidationException


class Lender:
    """The ensemble as DiCE wants a model: frames in, probabilities out."""

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return np.array(ask(frame.astype(float).to_numpy().tolist()))

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        return self.predict_proba(frame).argmax(axis=1)


def typed(frame: pd.DataFrame, categorical: list[str]) -> pd.DataFrame:
    """Categories as texts, which is how DiCE tells them from numbers."""
    frame = frame.copy()
    for name in categorical:
        frame[name] = frame[name].astype(int).astype(str)
    return frame


def main() -> None:
    task = read_task()
    categorical = [task.names[column] for column in task.categorical]
    numeric = [name for name in task.names if name not in categorical]
    training = typed(pd.DataFrame(task.training, columns=task.names), categorical)
    data = dice_ml.Data(
        dataframe=training.assign(outcome=task.labels), continuous_features=numeric, outcome_name="outcome"
    )
    explainer = dice_ml.Dice(data, dice_ml.Model(model=Lender(), backend="sklearn"), method="random")
    for record, target in zip(task.records, task.targets, strict=True):
        query = typed(pd.DataFrame([record], columns=task.names), categorical)
        try:
            # DiCE's own linear way back takes 20 s a record, one question at a time.
            found = explainer.generate_counterfactuals(
                query,
                total_CFs=1,
                desired_class=int(target),
                random_seed=task.seed,
                posthoc_sparsity_algorithm="binary",
                verbose=False,
            )
            rows = found.cf_examples_list[0].final_cfs_df
        except UserConfigValidationException:
            rows = None
        answer(None if rows is None or not len(rows) else rows[task.names].astype(float).iloc[0].tolist())


main()
