"""Structured logs on standard error: ours through structlog, third parties' through the same formatter."""

import logging
import re
import sys
from typing import Any

import structlog

from daemon.config import LoggingSettings

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
MAX_TEXT_CHARS = 4096


def inert(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape control and direction characters and cap lengths: values may be texts that a stranger wrote.

    The exception's traceback is ours and keeps its lines.
    """
    for key, value in event.items():
        if isinstance(value, str) and key not in ("exception", "timestamp"):
            text = CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
            event[key] = text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}… ({len(text)} characters)"
    return event


def set_up(settings: LoggingSettings) -> None:
    """Configure logging for this process; calling it again replaces what stood before."""
    json_lines = settings.json_lines if settings.json_lines is not None else not sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if json_lines:
        last += [structlog.processors.format_exc_info, inert, structlog.processors.JSONRenderer(default=repr)]
    else:
        last += [inert, _for_people()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for noisy in ("kafka", "asyncio", "aiohttp.access", "uvicorn.access"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def _for_people() -> structlog.typing.Processor:
    # The renderer's own tracebacks print local variables: keys, and what agents and people wrote.
    plain = structlog.dev.plain_traceback
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return the logger of a module."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
