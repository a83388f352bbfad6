"""Nouns as the log takes them."""

import hashlib

from daemon.encoding import encode
from daemon.log import LogRecord
from harness_adapters.exchange import Exchange, Feedback
from harness_adapters.ids import stable_id
from harness_adapters.trace import Trace


def record_of(noun: Exchange | Trace | Feedback) -> LogRecord:
    """Return the log's record of a noun. Raises TooDeepError for an exchange that no reader could read again."""
    if isinstance(noun, Exchange):
        return LogRecord(noun.route_key, noun.id, "exchange", encode(noun))
    value = encode(noun)
    if isinstance(noun, Feedback):
        return LogRecord(noun.response_id, noun.id, "feedback", value)
    # A recorded session may come again and be longer, so its record is named by its content.
    return LogRecord(noun.root, stable_id("trace", noun.id, hashlib.sha256(value).hexdigest()), "trace", value)
