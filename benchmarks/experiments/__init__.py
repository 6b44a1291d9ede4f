"""The paper's experiments: `python -m benchmarks.experiments NAME`; `python -m benchmarks.paper` runs all of them."""
