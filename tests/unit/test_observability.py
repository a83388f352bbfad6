import json
import logging

import pytest

from daemon.config import LoggingSettings
from daemon.logs import get_logger, set_up
from daemon.metrics import Metrics


def test_every_exposed_metric_is_in_the_table_and_named_by_the_rules():
    metrics = Metrics()
    metrics.requests.labels("completions", "200", "ok").inc()
    metrics.capture_dropped.labels("queue_full").inc(3)
    exposed = {
        line.split()[2]: line.split()[3] for line in metrics.render().decode().splitlines() if line.startswith("# TYPE")
    }
    exposed = {name: kind for name, kind in exposed.items() if not name.endswith("_created")}
    table = metrics.table()
    # The Prometheus text format knows no info: it is exposed as a gauge that is always 1.
    assert {n: "gauge" if row.kind == "info" else row.kind for n, row in table.items()} == exposed
    for name, row in table.items():
        assert name.startswith("secondnature_")
        assert row.help.endswith(".")
        assert name.endswith("_total") == (row.kind == "counter")
        assert not {"adapter", "version", "session", "trace", "hint"} & set(row.labels) or row.kind == "info"
    assert 'secondnature_capture_dropped_total{reason="queue_full"} 3.0' in metrics.render().decode()


def test_two_daemons_in_one_process_share_nothing():
    first, second = Metrics(), Metrics()
    first.base_fallbacks.inc()
    assert b"secondnature_base_fallbacks_total 0.0" in second.render()


@pytest.fixture
def root_logger():
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield
    root.handlers[:], level = before
    root.setLevel(level)


@pytest.mark.usefixtures("root_logger")
def test_lines_are_json_and_strangers_texts_are_inert(capsys: pytest.CaptureFixture[str]):
    set_up(LoggingSettings.model_validate({"json": True}))
    get_logger("daemon.x").info("told", text="a\nb\x1b[31m\u202e", long="x" * 10_000)
    logging.getLogger("third.party").warning("say %s", "it\nnow")
    get_logger("daemon.x").debug("unseen")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("told", "info", "daemon.x")
    assert first["text"] == "a\\x0ab\\x1b[31m\\x202e"
    assert len(first["long"]) < 5000
    assert second["event"] == "say it\\x0anow"


@pytest.mark.usefixtures("root_logger")
def test_text_for_people(capsys: pytest.CaptureFixture[str]):
    set_up(LoggingSettings.model_validate({"json": False, "level": "debug"}))
    get_logger("daemon.x").debug("told", text="a\x1b[31m")
    password = "hunter" + "2"
    try:
        int("broken")
    except ValueError:
        get_logger("daemon.x").exception("failed")
    said = capsys.readouterr().err
    assert "told" in said
    assert password not in said
    assert "\x1b[31m" not in said
    assert "ValueError: invalid literal" in said
