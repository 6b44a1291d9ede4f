"""A model that MLServer serves in its own environment: the formula of tests/app/ensembles/lender.py, on raw values."""

import numpy as np
import pandas as pd
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, PandasCodec
from mlserver.types import InferenceRequest, InferenceResponse

STEEPNESS = {"forest": 0.5, "boosting": 1.0, "network": 2.0}
PURPOSES = {"car": 0.0, "house": 1.0, "study": 2.0}


class LenderModel(MLModel):
    """Answers the outputs that are asked for: a member's name, or predict_proba for the one member of this model."""

    async def load(self) -> bool:
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        frame = PandasCodec.decode_request(payload)
        score = frame["purpose"].map(PURPOSES).to_numpy(float)
        for column in frame.columns.drop("purpose"):
            score = score + pd.to_numeric(frame[column]).fillna(0.0).to_numpy(float)
        outputs = []
        for requested in payload.outputs or []:
            steepness = STEEPNESS[self.name if requested.name == "predict_proba" else requested.name]
            approved = 1.0 / (1.0 + np.exp(-steepness * score))
            outputs.append(NumpyCodec.encode_output(requested.name, np.stack([1.0 - approved, approved], axis=1)))
        return InferenceResponse(model_name=self.name, outputs=outputs)
