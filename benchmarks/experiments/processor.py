"""Processor time, that of ended child processes included: other work on the machine does not count."""

import os


def processor_seconds() -> float:
    """Since this process began"""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
