import os
from pathlib import Path
from typing import Any

import pytest

from daemon.config import Settings, child_environment, load
from daemon.kafka_log import KafkaLog
from daemon.lifecycle import open_log
from harness_adapters.errors import ConfigError

BASE: dict[str, Any] = {"model": {"path": "weights"}}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("SECONDNATURE_"):
            monkeypatch.delenv(name)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "secondnature.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_later_sources_win_and_the_rest_of_a_section_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = write(tmp_path, '[model]\nname = "desk"\npath = "w"\n[server]\nport = 1\nhost = "0.0.0.0"\ndrain_s = 3.5\n')
    monkeypatch.setenv("SECONDNATURE_SERVER__PORT", "2")
    monkeypatch.setenv("SECONDNATURE_SERVER__HOST", "::")
    settings = load(file, {"server": {"port": 3}})
    assert (settings.server.port, settings.server.host, settings.server.drain_s) == (3, "::", 3.5)
    assert settings.model.name == "desk"


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECONDNATURE_CONFIG", str(write(tmp_path, '[model]\npath = "w"\nname = "named"\n')))
    assert load().model.name == "named"


def test_paths_follow_the_data_folder_unless_said_otherwise(tmp_path: Path):
    settings = load(None, BASE | {"data_dir": tmp_path})
    assert settings.log_path == tmp_path / "log.sqlite"
    assert settings.store_url == f"sqlite:///{tmp_path}/store.sqlite"
    assert {p.parent for p in (settings.spool_dir, settings.adapters_dir, settings.rounds_dir)} == {tmp_path}
    elsewhere = load(None, BASE | {"log": {"path": "/l"}, "store": {"url": "postgresql://h/n"}})
    assert (elsewhere.log_path, elsewhere.store_url) == (Path("/l"), "postgresql://h/n")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[server]\nprot = 1", "server.prot: unknown name; did you mean server.port?"),
        ("[learner.stopping]\nmax_step = 1", "did you mean learner.stopping.max_steps?"),
        ("[judge]\nvote = 1", "did you mean judge.votes?"),
        ('[judge]\nurl = "http://h/v1"', "judge: model is missing: with a judge's url say which model there judges"),
        ('[judge]\nurl = "http://u:hunter2@h"\nmodel = "m"', "judge.url: "),
        ("[gate.bounds]\nmax_kl_nat = 1", "did you mean gate.bounds.max_kl_nats?"),
        ("[serve]\nport = 1", "serve: unknown name; did you mean server?"),
        ("port = 1", "port: unknown name; did you mean server.port?"),
        ("[logging]\njsn = true", "did you mean logging.json?"),
        ('[[graders]]\nkind = "rule"\nclauses = [{max_char = 3}]', "did you mean graders.clauses.max_chars?"),
        ("[store]\nqqqqq = 1", "store.qqqqq: unknown name (valid here: url)"),
        ('[server]\nport = "many"', "server.port: "),
        ("[rounds]\nvalidate_share = 0.6\ngate_share = 0.6", "no session is left to train on"),
    ],
)
def test_faults_in_a_file_are_named(tmp_path: Path, text: str, wanted: str):
    file = write(tmp_path, text + '\n[model]\npath = "w"\n')
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert str(file) in str(refused.value)
    assert wanted in str(refused.value)


def test_every_fault_is_named_at_once(tmp_path: Path):
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, '[server]\nprot = 1\nhots = "x"\n[model]\npath = "w"\n'))
    assert str(refused.value).count("did you mean") == 2


@pytest.mark.parametrize(
    ("variable", "wanted"),
    [
        ("SECONDNATURE_SERVER__PROT", "did you mean SECONDNATURE_SERVER__PORT?"),
        ("SECONDNATURE_SERVR__PORT", "did you mean SECONDNATURE_SERVER__PORT?"),
        ("SECONDNATURE_PORT", "did you mean SECONDNATURE_SERVER__PORT?"),
        ("secondnature_data_dri", "did you mean SECONDNATURE_DATA_DIR?"),
    ],
)
def test_unknown_variables_are_refused(monkeypatch: pytest.MonkeyPatch, variable: str, wanted: str):
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ConfigError) as refused:
        load(None, BASE)
    assert wanted in str(refused.value)
    assert variable in str(refused.value)


def test_the_command_lines_own_variables_are_let_be(monkeypatch: pytest.MonkeyPatch):
    for name in ("SECONDNATURE_URL", "SECONDNATURE_ADMIN_TOKEN", "SECONDNATURE_TEST_BROKER"):
        monkeypatch.setenv(name, "x")
    assert load(None, BASE).server.admin_token is None


def test_faults_do_not_repeat_values(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECONDNATURE_ENGINE__URL", "user:hunter2@host")
    with pytest.raises(ConfigError) as refused:
        load(None, BASE)
    assert "SECONDNATURE_ENGINE__URL" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("content", [b"[server\nport = 1", b"\xff\xfe"])
def test_what_is_not_toml(tmp_path: Path, content: bytes):
    file = tmp_path / "x.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="is not TOML"):
        load(file)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.toml cannot be read: No such file"):
        load(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, "model.path is missing"),
        ({"engine": {"kind": "vllm"}}, "engine.url is missing"),
        ({"model": {"path": "w", "name": "base"}}, "must differ from engine.base_model"),
    ],
)
def test_what_is_needed_is_asked_for(given: dict[str, Any], wanted: str):
    with pytest.raises(ConfigError, match=wanted):
        load(None, given)


def test_children_get_the_environment_without_our_settings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECONDNATURE_SERVER__ADMIN_TOKEN", "hunter2")
    monkeypatch.setenv("secondnature_engine__api_key", "hunter2")
    monkeypatch.setenv("KEPT", "1")
    given = child_environment(KEPT_TOO="2")
    assert "hunter2" not in given.values()
    assert (given["KEPT"], given["KEPT_TOO"], given["PATH"]) == ("1", "2", os.environ["PATH"])


def test_kafka_clients_are_told_what_the_file_says(tmp_path: Path):
    file = write(
        tmp_path,
        '[model]\npath = "w"\n[log]\nkind = "kafka"\nmax_request_bytes = 2000000\n[log.client]\n'
        'security_protocol = "SASL_SSL"\nsasl_plain_password = "hunter2"\nssl_check_hostname = false\n'
        "api_version_auto_timeout_ms = 7\n",
    )
    log = open_log(load(file))
    assert isinstance(log, KafkaLog)
    assert {"security_protocol": "SASL_SSL", "sasl_plain_password": "hunter2"}.items() <= log.client.items()
    assert log.client["ssl_check_hostname"] is False
    assert log.client["api_version_auto_timeout_ms"] == 7
    assert log.max_request_bytes == 2_000_000


def test_secrets_are_hidden():
    given = BASE | {
        "log": {"client": {"sasl_plain_password": "hunter2"}},
        "server": {"admin_token": "hunter2"},
        "engine": {"api_key": "hunter2"},
        "judge": {"url": "http://h", "model": "m", "api_key": "hunter2"},
        "store": {"url": "postgresql://u:hunter2@h/n"},
    }
    settings = load(None, given)
    assert "hunter2" not in str(settings.describe())
    assert "hunter2" not in repr(settings)
    assert "hunter2" in settings.store_url


def test_what_is_described_can_be_read_again():
    settings = load(None, BASE | {"graders": [{"kind": "schema"}], "logging": {"json": True}})
    assert Settings.model_validate(settings.describe()).describe() == settings.describe()


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("engine", "connect_timeout_s"),
        ("server", "drain_s"),
        ("judge", "timeout_s"),
        ("hints", "temperature"),
        ("rounds", "settle_s"),
        ("gate", "temperature"),
        ("gate.bounds", "max_kl_nats"),
        ("learner.lora", "alpha"),
        ("learner.optimizer", "max_grad_norm"),
        ("learner.stopping", "max_drift_nats"),
    ],
)
@pytest.mark.parametrize("number", ["inf", "-inf", "nan"])
def test_numbers_are_finite(tmp_path: Path, section: str, name: str, number: str):
    file = write(tmp_path, f'[model]\npath = "w"\n[{section}]\n{name} = {number}\n')
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert section in str(refused.value)
    assert name in str(refused.value)


def test_a_variable_whose_number_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECONDNATURE_HINTS__TEMPERATURE", "inf")
    with pytest.raises(ConfigError, match=r"SECONDNATURE_HINTS__TEMPERATURE: .*finite number"):
        load(None, BASE)
