"""`python -m benchmarks.experiments NAME`"""

import sys

from benchmarks.experiments.command import main

sys.exit(main())
