"""Logs: one line a request, JSON in production. Keys, records and bodies never get here."""

import logging
import sys

import structlog

from app.settings import Settings


def configure(settings: Settings) -> None:
    """Set up the logs of this process, to stderr."""
    json = settings.log_format == "json"
    exceptions = [structlog.processors.dict_tracebacks] if json else []
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *exceptions,
            structlog.processors.JSONRenderer() if json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
