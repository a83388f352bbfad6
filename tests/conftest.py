"""Servers that tests share. Each is started by the first test that asks for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker import Broker, running_broker
from tiny_model import make_tiny_model
from vllm_server import VllmServer, require_vllm, vllm_server


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """One Kafka-protocol broker for all tests, each of which uses a topic of its own."""
    with running_broker() as running:
        yield running


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small base model that nothing writes to."""
    return make_tiny_model(tmp_path_factory.mktemp("tiny-base"))


@pytest.fixture(scope="session")
def vllm(tiny_base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """One vLLM for all tests, serving the tiny model as `base`; tests load adapters under names of their own."""
    log = tmp_path_factory.mktemp("vllm") / "vllm.log"
    with vllm_server(require_vllm(), tiny_base, log) as server:
        yield server
