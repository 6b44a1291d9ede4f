"""To be imported before rocelib 0.2.3, which was written for a gurobipy that had a module of this name."""

import sys

import gurobipy

sys.modules["gurobipy.gurobipy"] = gurobipy
