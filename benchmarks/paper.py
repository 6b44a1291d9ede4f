"""All of the paper's experiments, or some by name, then the report: `python -m benchmarks.paper [--quick] [NAME ...]`.

What is finished is not run again. The public data sets are read from the folder that RECOURSE_DATA names. REPORT.md
says how long the runs behind it took: on two cores `--quick` takes 13 minutes, Table 2 with five seeds an hour and a
half, everything with five seeds 345 minutes, in parts and with what the cores did beside it.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks.experiments.command import NAMES, add_options, find_experiment, run_experiment
from benchmarks.report import write_reports


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a run failed, else 0; the report is written either way"""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; all by default")
    add_options(parser)
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(NAMES)):
        parser.error(f"there is no experiment '{unknown[0]}'; the experiments are {', '.join(NAMES)}")
    failures = [run_experiment(find_experiment(name), options) for name in options.names or NAMES]
    write_reports(options.results)
    return max(failures)


if __name__ == "__main__":
    sys.exit(main())
