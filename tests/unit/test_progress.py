import resource
from pathlib import Path

import pytest
from round_dirs import progress_of

from harness_adapters.errors import LearnerError
from learner.config import PROGRESS_FILE
from learner.progress import ProgressLog


def test_each_event_is_on_disk_when_it_has_been_emitted(tmp_path: Path) -> None:
    with ProgressLog(tmp_path) as progress:
        progress.emit("step", step=3, figures={"loss": 0.5})
        assert progress_of(tmp_path)[0].figures == {"loss": 0.5}
        progress.emit("finding", message="nothing to learn")
    assert [event.event for event in progress_of(tmp_path)] == ["step", "finding"]


def test_a_line_torn_by_a_kill_is_cut_off_and_earlier_ones_stay(tmp_path: Path) -> None:
    with ProgressLog(tmp_path) as progress:
        progress.emit("started")
    path = tmp_path / PROGRESS_FILE
    path.write_bytes(path.read_bytes() + b'{"event": "st')
    with ProgressLog(tmp_path) as progress:
        progress.emit("started")
    assert len(progress_of(tmp_path)) == 2


def test_two_learners_cannot_work_on_one_round(tmp_path: Path) -> None:
    with ProgressLog(tmp_path), pytest.raises(LearnerError, match="another learner"):
        ProgressLog(tmp_path)
    with ProgressLog(tmp_path):
        pass


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(LearnerError, match="missing-round"):
        ProgressLog(tmp_path / "missing-round")


def test_a_failure_is_not_hidden_by_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with ProgressLog(tmp_path) as progress:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            progress.failed("the disk is full")
            with pytest.raises(OSError, match="large"):
                progress.emit("started")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert progress_of(tmp_path) == []
