"""The paper's table of cost and validity on its data sets, beside the oracle."""
