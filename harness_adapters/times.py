"""Times as recorders write them."""

from datetime import UTC, datetime

_SCALES = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3), (-1.0, 1.0))


def instant(value: object) -> float | None:
    """Return a time in Unix seconds; None where there is none.

    It may be ISO text, of which one without a zone is in UTC, or a number, also as text, of seconds, milli-, micro- or
    nanoseconds, which are told apart by their size.
    """
    if isinstance(value, str):
        try:
            value = int(value) if value.isdecimal() else datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e20:
        return None
    size = float(value)
    return size / next(scale for bound, scale in _SCALES if size > bound)
