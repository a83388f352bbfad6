"""The detector held against hand labels: the recordings' where they are, and the invented sets', always here."""

import json
import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hint_cases import trace_of
from typer.testing import CliRunner

from daemon.config_sections import HintSettings
from harness_adapters.errors import RecordError
from harness_adapters.trace import Author, ToolCall
from hinting.place import Finding
from hinting.place import finding as place_of
from hinting.score import FileFacts, Label, read_labels, score
from hinting.signal import Fault, SignalKind, shown
from ops.cli import app
from ops.finding import score_signals

INVENTED = Path(__file__).parents[1] / "labelled"
HELD_OUT = Path(__file__).parents[1] / "labelled_held_out"
RECORDED = Path(__file__).parents[3] / "shared" / "traces"
MIN_CONFIDENCE = 0.5

needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"the recordings are not at {RECORDED}")


@cache
def report(folder: Path) -> dict[str, Any]:
    return score_signals(folder, folder, MIN_CONFIDENCE)


@needs_recordings
def test_recorded_failures_and_corrections_are_found() -> None:
    kinds = report(RECORDED)["kinds"]
    assert kinds["tool_error_retry"]["f1"] >= 0.85
    assert kinds["user"]["f1"] >= 0.75
    assert kinds["rejected_action"]["r"] == 1


@needs_recordings
def test_few_places_without_a_signal_would_train() -> None:
    assert report(RECORDED)["false_alarm_rate"] <= 0.10


@needs_recordings
def test_the_turn_that_went_wrong_is_told() -> None:
    assert report(RECORDED)["target_exact"] >= 0.90


def test_invented_failures_and_corrections_in_other_domains_and_languages_are_found() -> None:
    kinds = report(INVENTED)["kinds"]
    assert kinds["tool_error_retry"]["n"] + kinds["user"]["n"] >= 150
    assert kinds["tool_error_retry"]["f1"] >= 0.85
    assert kinds["user"]["f1"] >= 0.75
    assert report(INVENTED)["false_alarm_rate"] <= 0.10


def test_the_rules_carry_to_sessions_they_were_not_written_for() -> None:
    told = report(HELD_OUT)
    assert told["kinds"]["tool_error_retry"]["f1"] >= 0.85
    assert told["kinds"]["user"]["f1"] >= 0.65
    assert told["false_alarm_rate"] <= 0.10


@needs_recordings
@pytest.mark.parametrize("kind", ["tool_error_retry", "user"])
def test_both_sets_agree(kind: str) -> None:
    recorded, invented = (report(folder)["kinds"][kind]["f1"] for folder in (RECORDED, INVENTED))
    assert abs(recorded - invented) <= 0.10


def test_the_invented_set_has_enough_places_in_every_language() -> None:
    labels = read_labels(INVENTED)
    assert len(labels) >= 200
    folders = {label.file.split("/")[0] for label in labels}
    assert folders >= {"telecom_de", "voyages_fr", "banco_es", "office_zh", "hotel_desk", "web_app"}


def finding(turn: int, kind: SignalKind, **changes: Any) -> Finding:
    members: dict[str, Any] = {
        "file": "d/a.jsonl",
        "session": "s",
        "turn": turn,
        "kind": kind,
        "target": turn - 1,
        "fix": None,
        "fault": Fault.AGENT,
        "confidence": 0.9,
        "evidence": "",
    }
    return Finding(**{**members, **changes})


def label(turn: int, kind: str, **changes: Any) -> Label:
    members: dict[str, Any] = {"file": "d/a.jsonl", "session": "s", "turn": turn, "kind": kind, "target": turn - 1}
    members |= {"agent_fault": True, **changes}
    return Label(**members)


def scored(labels: list[Label], findings: list[Finding]) -> dict[str, Any]:
    return score(labels, findings, {"d/a.jsonl": FileFacts(agent_turns=50, sessions={"s"})}, MIN_CONFIDENCE)


CORRECTION, ERROR = SignalKind.USER_CORRECTION, SignalKind.TOOL_ERROR_RETRY


def test_a_score_by_hand() -> None:
    labels = [
        label(3, "user_correction"),
        label(7, "user_repeat"),
        label(11, "tool_error_retry", agent_fault=False),
        label(20, "none", trap="closing"),
        label(30, "none", trap="poll"),
    ]
    findings = [
        finding(3, CORRECTION),
        finding(8, CORRECTION, target=1),  # one off, as a kind of the same group, about another turn
        finding(11, ERROR),
        finding(20, CORRECTION),
        finding(40, ERROR),  # where nobody has looked
    ]
    told = scored(labels, findings)
    assert told["kinds"]["user"] == {"p": 2 / 3, "r": 1.0, "f1": 0.8, "n": 2}
    assert told["kinds"]["tool_error_retry"] == {"p": 1.0, "r": 1.0, "f1": 1.0, "n": 1}
    assert told["kinds"]["rejected_action"] == {"p": None, "r": None, "f1": None, "n": 0}
    assert told["false_alarm_rate"] == 0.5
    assert told["traps"] == {"closing": {"alarms": 1, "n": 1}, "poll": {"alarms": 0, "n": 1}}
    assert told["signals_per_100_turns"] == {"d": 10.0}
    assert told["target_exact"] == 2 / 3
    assert told["fault_accuracy"] == 2 / 3
    assert [place["turn"] for place in told["false_alarms"]] == [20]
    assert told["missed"] == []


def test_one_finding_answers_one_label_and_the_nearest() -> None:
    told = scored([label(3, "user_correction"), label(4, "user_correction")], [finding(4, CORRECTION)])
    assert told["kinds"]["user"]["r"] == 0.5
    assert [place["turn"] for place in told["missed"]] == [3]


def test_an_ambiguous_place_counts_for_nothing() -> None:
    told = scored([label(3, "none", ambiguous=True), label(9, "user_repeat", ambiguous=True)], [finding(3, CORRECTION)])
    assert told["kinds"]["user"] == {"p": None, "r": None, "f1": None, "n": 0}
    assert told["false_alarm_rate"] is None
    assert told["missed"] == []


@pytest.mark.parametrize("changes", [{"fault": Fault.ENVIRONMENT}, {"confidence": 0.4}])
def test_a_finding_that_would_not_train_is_no_false_alarm_and_yet_imprecise(changes: dict[str, Any]) -> None:
    told = scored(
        [label(3, "user_correction"), label(9, "none")], [finding(3, CORRECTION), finding(9, CORRECTION, **changes)]
    )
    assert told["false_alarm_rate"] == 0
    assert told["kinds"]["user"]["p"] == 0.5


def test_a_session_that_the_source_does_not_name_is_found_by_place() -> None:
    told = scored([label(3, "user_correction", session="exchanges-0-9")], [finding(3, CORRECTION)])
    assert told["kinds"]["user"]["r"] == 1


def test_another_session_at_the_same_place_is_another_place() -> None:
    facts = {"d/a.jsonl": FileFacts(sessions={"s", "t"})}
    told = score([label(3, "user_correction", session="t")], [finding(3, CORRECTION)], facts, MIN_CONFIDENCE)
    assert told["kinds"]["user"]["r"] == 0


def test_labels_that_are_none_are_said_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/labels.jsonl").write_text('{"file": "a", "session": "s", "turn": 1, "kind": "none"}\n{"turn": 2}\n')
    with pytest.raises(RecordError, match=r"labels\.jsonl:2"):
        read_labels(tmp_path)
    (tmp_path / "d/labels.jsonl").write_text(json.dumps({"file": "a", "session": "s", "turn": 1, "kind": "anger"}))
    with pytest.raises(RecordError, match="anger"):
        read_labels(tmp_path)


@pytest.mark.parametrize("file", ["/etc/hosts", "../a.jsonl", "a\0b"])
def test_labels_name_files_below_their_folder(tmp_path: Path, file: str) -> None:
    (tmp_path / "labels.jsonl").write_text(json.dumps({"file": file, "session": "s", "turn": 1, "kind": "none"}))
    with pytest.raises(RecordError, match=r"labels\.jsonl:1: .*below the folder"):
        read_labels(tmp_path)


def test_a_labelled_file_that_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"file": "*.jsonl", "session": "s", "turn": 1, "kind": "none"}')
    with pytest.raises(RecordError, match=r"\*\.jsonl: there is no such file"):
        score_signals(tmp_path, tmp_path, MIN_CONFIDENCE)
    (tmp_path / "labels.jsonl").write_text('{"file": "gone.jsonl", "session": "s", "turn": 1, "kind": "none"}')
    with pytest.raises(RecordError, match=r"gone\.jsonl"):
        score_signals(tmp_path, tmp_path, MIN_CONFIDENCE)


def test_a_place_without_a_signal_takes_the_finding_right_there() -> None:
    labels = [label(3, "none"), label(4, "user_correction")]
    told = scored(labels, [finding(3, CORRECTION)])
    assert told["kinds"]["user"] == {"p": 0.0, "r": 0.0, "f1": 0.0, "n": 1}
    assert told["false_alarm_rate"] == 1
    told = scored(labels, [finding(4, CORRECTION)])
    assert told["kinds"]["user"]["r"] == 1


def test_the_right_target_wins_no_tie() -> None:
    labels = [label(3, "user_correction", target=9), label(5, "user_correction", target=1)]
    told = scored(labels, [finding(4, CORRECTION, target=1)])
    assert [place["turn"] for place in told["missed"]] == [5]
    assert told["target_exact"] == 0


@pytest.mark.parametrize(("kind", "wrong"), [("none", 1), ("user_repeat", 0)])
def test_doubt_beside_a_finding_excuses_it_only_where_no_label_is_sure(kind: str, wrong: int) -> None:
    labels = [label(3, "user_correction", ambiguous=True), label(4, kind), label(20, "user_correction")]
    found = [finding(4, CORRECTION), finding(20, CORRECTION)]
    told = scored(labels, found)
    assert told["kinds"]["user"]["p"] == (1 if not wrong else 1 / 2)


def test_confidence_that_is_just_enough_rings_the_alarm() -> None:
    told = scored([label(9, "none")], [finding(9, CORRECTION, confidence=MIN_CONFIDENCE)])
    assert told["false_alarm_rate"] == 1


LABEL = '{"file": "a.jsonl", "session": "s", "turn": 1, "kind": "none", "note": "one\u2028two"}'


@pytest.mark.parametrize(
    ("written", "told"),
    [
        (LABEL.encode(), None),
        (b"\xef\xbb\xbf" + LABEL.encode() + b"\r\n\r\n", None),
        (LABEL.encode("utf-16"), r"labels\.jsonl:1: not a label"),
        (LABEL.encode()[:-3] + b"\xff", r"labels\.jsonl:1: not a label"),
        (b"[1]", r"labels\.jsonl:1: not a label"),
    ],
)
def test_labels_are_lines_of_utf_8(tmp_path: Path, written: bytes, told: str | None) -> None:
    (tmp_path / "labels.jsonl").write_bytes(written)
    if told is None:
        assert len(read_labels(tmp_path)) == 1
    else:
        with pytest.raises(RecordError, match=told):
            read_labels(tmp_path)


def test_archives_are_scored_and_folders_refused(tmp_path: Path) -> None:
    source = INVENTED / "web_app"
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("README.md", "no recording")
        for path in source.glob("*.jsonl"):
            if path.name != "labels.jsonl":
                archive.write(path, path.name)
    labels = [json.loads(line) for line in (source / "labels.jsonl").read_text().splitlines()]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps({**one, "file": "all.zip"}) + "\n" for one in labels))
    assert score_signals(tmp_path, tmp_path, MIN_CONFIDENCE)["kinds"] == score_signals(source, source, 0.5)["kinds"]
    (tmp_path / "folder").mkdir()
    (tmp_path / "labels.jsonl").write_text(json.dumps({**labels[0], "file": "folder"}))
    with pytest.raises(RecordError, match="folder is a folder"):
        score_signals(tmp_path, tmp_path, MIN_CONFIDENCE)
    (tmp_path / "one.jsonl").write_bytes((source / labels[0]["file"]).read_bytes())
    (tmp_path / "two.jsonl").symlink_to(tmp_path / "one.jsonl")
    both = [{**labels[0], "file": name} for name in ("one.jsonl", "two.jsonl")]
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(one) + "\n" for one in both))
    with pytest.raises(RecordError, match=r"two\.jsonl"):
        score_signals(tmp_path, tmp_path, MIN_CONFIDENCE)


def test_what_trains_is_as_configured_or_as_the_help_says(tmp_path: Path) -> None:
    assert HintSettings().min_confidence == 0.5, "as the help of `signals score` says"
    config = tmp_path / "c.toml"
    config.write_text('[engine]\nkind = "vllm"\nurl = "http://h"\n[hints]\nmin_confidence = 1.0\n')
    (tmp_path / "labels.jsonl").write_text(json.dumps({"file": "a.jsonl", "session": "s", "turn": 0, "kind": "none"}))
    messages = [
        ("user", "What is tea?"),
        ("assistant", "A tree."),
        ("user", "No, that's wrong."),
        ("assistant", "Sorry!"),
    ]
    told = {"messages": [{"role": role, "content": content} for role, content in messages]}
    (tmp_path / "a.jsonl").write_text(json.dumps(told))
    command = ["signals", "score", "--labels", str(tmp_path), str(tmp_path), "--json"]
    rates = [
        json.loads(CliRunner().invoke(app, [*command, *more]).stdout)["false_alarm_rate"]
        for more in ([], ["--config", str(config)], ["--config", str(config), "--min-confidence", "0.1"])
    ]
    assert rates == [1, 0, 1]


def test_of_several_calls_the_one_that_was_put_right_is_the_fix() -> None:
    def call(name: str, place: int, **arguments: Any) -> ToolCall:
        return ToolCall(id=f"c{place}", name=name, arguments=json.dumps(arguments), place=place)

    failed = call("look", 10, city="Bern")
    again = (call("look", 20, city="Bern"), call("note", 21, text="x"), call("look", 22, city="Basel"))
    trace = trace_of((Author.AGENT, "", [failed]), (Author.TOOL, "Error"), (Author.AGENT, "", again))
    turns = (trace.turns[0], replace(trace.turns[1], tool_call_id="c10", place=11), trace.turns[2])
    signal = shown(trace, ERROR, 0, turns[1], "tool_retry_fixed", fix=2)
    told = place_of("a", replace(trace, turns=turns), signal)
    assert (told.turn, told.target, told.fix) == (11, 10, 22)
