"""Logs: one line a request, JSON in production. Keys, records and bodies never get here."""

import logging
import sys

import structlog
from structlog.processors import ExceptionRenderer
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import Processor

from app.settings import Settings


def configure(settings: Settings) -> None:
    """Set up the logs of this process, to stderr. Tracebacks come without the values of variables: records, keys."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *(_as_json() if settings.log_format == "json" else _for_a_person()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _as_json() -> list[Processor]:
    tracebacks = ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
    return [tracebacks, structlog.processors.JSONRenderer()]


def _for_a_person() -> list[Processor]:
    renderer = structlog.dev.ConsoleRenderer(
        colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
    )
    return [renderer]
