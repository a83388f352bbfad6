"""The error tree. Every error Second Nature raises on purpose derives from `SecondNatureError`."""


class SecondNatureError(Exception):
    """Root of the tree. The message says what happened, where, and what to do."""


class RecordError(SecondNatureError):
    """A foreign record (a trace line, a log record, a request body) cannot be read."""


class ConfigError(SecondNatureError):
    """The configuration is wrong; nothing was started."""


class LogUnavailableError(SecondNatureError):
    """The event log cannot be reached; the caller keeps the record and tries again."""


class StoreError(SecondNatureError):
    """The store refused a row or a change."""


class StoreUnavailableError(StoreError):
    """The store cannot be reached or is locked; the caller keeps what it has and tries again."""


class AliasMovedError(StoreError):
    """Someone else flipped the alias first; read it again and decide anew."""


class EngineError(SecondNatureError):
    """The inference engine refused a call or cannot be reached."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status

    @property
    def passing(self) -> bool:
        """Whether the engine is only away or overloaded, which says nothing of what it was asked: try again later.

        An error without an HTTP status is one of an engine that could not be reached at all.
        """
        return self.status in (None, 408, 429, 502, 503, 504)

    @property
    def refusal(self) -> bool:
        """Whether the engine refused the prompt itself, as too long or malformed.

        Any other error says nothing of the prompt: the engine is away, is dying, answers in a shape of its own, or does
        not have the adapter, perhaps not yet again after a start.
        """
        return self.status in (400, 413, 422)


class VersionError(EngineError):
    """A version cannot serve: there is none of that name, an engine refuses it, or does not show what was learnt."""

    @property
    def passing(self) -> bool:
        """Never: the same again would end the same."""
        return False


class RenderError(SecondNatureError):
    """A sample cannot be turned into token ids that round-trip; it is refused, never guessed."""


class LearnerError(SecondNatureError):
    """A round cannot run or has failed; the adapter now serving is untouched."""


class CheckpointError(SecondNatureError):
    """A checkpoint does not match its manifest, its base model or its tokenizer."""
