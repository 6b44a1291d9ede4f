"""The paper's experiments, one small file each: `python -m benchmarks.experiments.NAME`; benchmarks.paper runs all."""
