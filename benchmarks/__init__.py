"""Benchmarks: the paper's tables, speed and load; each writes JSON and a picture to benchmarks/results/."""
