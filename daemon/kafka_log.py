"""The event log for production: a Kafka topic, read by a consumer group whose workers share its partitions."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

import zstandard
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError, TopicAlreadyExistsError

# The stubs that pyright ships describe kafka-python 2, which had neither.
from kafka.structs import MemberState, OffsetAndMetadata, TopicPartition  # pyright: ignore

from daemon.log import POLL_BYTES, LogRecord, Position, StoredRecord
from harness_adapters.errors import LogUnavailableError, RecordError

RECORD_OVERHEAD_BYTES = 1024
"""Room left in a produce request for headers and framing."""
ZSTD = b"zstd"
UNPACKED_AT_ONCE = 8
"""Records taken from the client at once: how long they are is only known once they are unpacked."""


class KafkaLog:
    """EventLog over one topic.

    `assignment="group"` joins the consumer group; `"all"` reads every partition without joining, which is immediate
    and right where there is exactly one reader. `client` holds further settings of kafka-python's clients, such as
    `security_protocol` and `sasl_mechanism`. Connects on first use, so that a proxy starts while the broker is away.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        topic: str,
        group: str,
        *,
        assignment: Literal["group", "all"] = "group",
        partitions: int = 12,
        replication: int = 1,
        timeout_s: float = 10.0,
        max_request_bytes: int = 1_048_576,
        client: Mapping[str, Any] | None = None,
    ) -> None:
        servers = [bootstrap_servers] if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
        self._topic = topic
        self._group = group
        self._assignment = assignment
        self._partitions = partitions
        self._replication = replication
        self._timeout_s = timeout_s
        self._timeout_ms = int(timeout_s * 1000)
        self.max_request_bytes = max_request_bytes
        self.client: dict[str, Any] = {
            "bootstrap_servers": servers,
            "request_timeout_ms": self._timeout_ms,
            "bootstrap_timeout_ms": self._timeout_ms,
            "reconnect_backoff_max_ms": 2000,
            **(client or {}),
        }
        self._where = f"the topic {topic} at {','.join(servers)}"
        self._known: list[TopicPartition] = []
        self._producer: Any = None
        self._consumer: Any = None

    def append(self, records: Sequence[LogRecord]) -> None:
        """Append all and wait until every in-sync replica has them, `timeout_s` seconds at most."""
        packed = [self._pack(record) for record in records]
        deadline = time.monotonic() + self._timeout_s
        with self._reached("append to"):
            producer = self._producing()
            try:
                futures = [producer.send(self._topic, **record) for record in packed]
                for future in futures:
                    future.get(timeout=max(deadline - time.monotonic(), 0))
            except BaseException:
                # kafka-python's accumulator has no bound, and what it still holds must not follow the caller's retry.
                self._drop_producer()
                raise

    def check(self, record: LogRecord) -> None:
        """Raise RecordError for a record that `max_request_bytes` leaves no room for, compressed."""
        self._pack(record)

    def poll(self, *, max_records: int, timeout_s: float, max_bytes: int = POLL_BYTES) -> list[StoredRecord]:
        """Return the records after the last poll; in order within each partition."""
        records: list[StoredRecord] = []
        timeout_ms = int(timeout_s * 1000)
        with self._reached("read"):
            while len(records) < max_records and sum(len(record.value) for record in records) < max_bytes:
                few = min(max_records - len(records), UNPACKED_AT_ONCE)
                batches = self._consuming().poll(timeout_ms=0 if records else timeout_ms, max_records=few)
                if not batches:
                    break
                records += [_unpack(record) for batch in batches.values() for record in batch]
        return records

    def commit(self, records: Sequence[StoredRecord]) -> None:
        """Move the group's positions behind these records, where they are not there already."""
        behind: dict[TopicPartition, int] = {}
        for record in records:
            partition = TopicPartition(self._topic, record.position.partition)
            behind[partition] = max(behind.get(partition, 0), record.position.offset + 1)
        with self._reached("commit to"):
            consumer = self._consuming()
            offsets = {
                partition: OffsetAndMetadata(offset, "", -1)
                for partition, offset in behind.items()
                if offset > (consumer.committed(partition, timeout_ms=self._timeout_ms) or 0)
            }
            if offsets:
                consumer.commit(offsets, timeout_ms=self._timeout_ms)

    def rewind(self) -> None:
        """Seek every assigned partition to its committed position."""
        with self._reached("rewind"):
            consumer = self._consuming()
            for partition in consumer.assignment():
                committed = consumer.committed(partition, timeout_ms=self._timeout_ms)
                if committed is None:
                    consumer.seek_to_beginning(partition)
                else:
                    consumer.seek(partition, committed)

    def lag_records(self) -> int:
        """Return how many records stand after the committed positions of this reader's partitions.

        Before the reader has been given its partitions, those of the whole topic count.
        """
        with self._reached("ask the lag of"):
            consumer = self._consuming()
            joined = self._assignment == "all" or consumer.group_metadata().state == MemberState.STABLE
            partitions = list(consumer.assignment()) if joined else self._known
            if not partitions:
                return 0
            first = consumer.beginning_offsets(partitions, timeout_ms=self._timeout_ms)
            end = consumer.end_offsets(partitions, timeout_ms=self._timeout_ms)
            return sum(self._lag(consumer, p, first[p], end[p]) for p in partitions)

    def _lag(self, consumer: Any, partition: TopicPartition, first: int, end: int) -> int:
        # A position may stand before the first record the broker still keeps. Tansu 0.6 tells the start of the last
        # batch for the end of the log; what came with the last fetch is right there too.
        committed = consumer.committed(partition, timeout_ms=self._timeout_ms) or 0
        fetched = consumer.highwater(partition) if partition in consumer.assignment() else None
        return max(end, fetched or 0) - max(committed, first)

    def close(self) -> None:
        """Leave the group and close all connections."""
        if self._producer is not None:
            self._drop_producer()
        if self._consumer is not None:
            with suppress(KafkaError):
                self._consumer.close(autocommit=False, timeout_ms=self._timeout_ms)
            self._consumer = None

    def _pack(self, record: LogRecord) -> dict[str, Any]:
        key, value = record.key.encode("utf-8", "replace"), record.value
        headers = [("id", record.id.encode("utf-8", "replace")), ("kind", record.kind.encode("utf-8", "replace"))]
        room = self.max_request_bytes - RECORD_OVERHEAD_BYTES - len(key) - len(headers[0][1])
        if len(value) > room:
            # The client checks the size before its own compression, which works on whole batches.
            value = zstandard.compress(value)
            headers.append(("encoding", ZSTD))
        if len(value) > room:
            raise RecordError(
                f"record {record.id} has {len(value)} bytes compressed, more than the {room} that {self._where} takes:"
                " raise the broker's message.max.bytes and log.max_request_bytes together"
            )
        return {"key": key, "value": value, "headers": headers}

    def _producing(self) -> Any:
        if self._producer is None:
            self._ensure_topic()
            self._producer = KafkaProducer(
                **self.client,
                acks="all",
                enable_idempotence=True,
                compression_type="zstd",
                max_request_size=self.max_request_bytes,
                max_block_ms=self._timeout_ms,
                # A batch that expired by itself would let the next one of its partition overtake it.
                delivery_timeout_ms=self._timeout_ms * 4,
            )
        return self._producer

    def _drop_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            # close() alone flushes first, and raises without closing when the broker is away.
            producer._sender.force_close()
            with suppress(KafkaError):
                producer.close(timeout=self._timeout_s)

    def _consuming(self) -> Any:
        if self._consumer is None:
            self._ensure_topic()
            consumer: Any = KafkaConsumer(
                **self.client,
                group_id=self._group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                max_partition_fetch_bytes=max(self.max_request_bytes, 1_048_576),
            )
            if self._assignment == "all":
                consumer.assign(self._known)
            else:
                consumer.subscribe([self._topic])
            self._consumer = consumer
        return self._consumer

    def _ensure_topic(self) -> None:
        admin: Any = KafkaAdminClient(**self.client)
        try:
            with suppress(TopicAlreadyExistsError):
                options = {
                    "num_partitions": self._partitions,
                    "replication_factor": self._replication,
                    # Records of one key are different events: compaction would eat them.
                    "configs": {"cleanup.policy": "delete"},
                }
                admin.create_topics({self._topic: options}, timeout_ms=self._timeout_ms, wait_for_metadata=True)
            (described,) = admin.describe_topics([self._topic])
            self._known = [TopicPartition(self._topic, p["partition_index"]) for p in described["partitions"]]
        finally:
            admin.close()

    @contextmanager
    def _reached(self, action: str) -> Generator[None]:
        try:
            yield
        except MessageSizeTooLargeError as error:
            raise RecordError(
                f"{self._where} takes no record of this size: {error}; set log.max_request_bytes to the broker's"
                " message.max.bytes"
            ) from error
        except KafkaError as error:
            late = f" within {self._timeout_s:g} s" if isinstance(error, KafkaTimeoutError) else ""
            raise LogUnavailableError(
                f"could not {action} {self._where}{late}: {error}; check that the broker runs and can be reached,"
                " what was recorded is kept meanwhile"
            ) from error


def _unpack(record: Any) -> StoredRecord:
    headers = {name: value or b"" for name, value in record.headers or ()}
    value: bytes = record.value or b""
    if headers.get("encoding") == ZSTD:
        # Left as it is when damaged: the reader then keeps the original bytes as a dead letter.
        with suppress(zstandard.ZstdError):
            value = zstandard.decompress(value)
    return StoredRecord(
        Position(record.partition, record.offset),
        (record.key or b"").decode("utf-8", "replace"),
        headers.get("id", b"").decode("utf-8", "replace"),
        headers.get("kind", b"").decode("utf-8", "replace"),
        value,
    )
