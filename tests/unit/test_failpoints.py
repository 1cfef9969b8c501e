import os
import signal
import subprocess
import sys
import time

import pytest

from django_claimq import failpoints
from django_claimq.failpoints import failpoint


@pytest.mark.parametrize(
    ("text", "armed"),
    [
        ("", {}),
        ("after_claim=kill", {"after_claim": "kill"}),
        ("a=kill,b=sleep:2", {"a": "kill", "b": "sleep:2"}),
        ("a=exit:3,", {"a": "exit:3"}),
    ],
)
def test_the_environment_arms_points(text, armed):
    assert failpoints._parse(text) == armed


def test_a_point_that_is_not_armed_does_nothing(monkeypatch):
    monkeypatch.setattr(failpoints, "_armed", {})
    assert failpoint("after_claim") is None


def test_only_the_named_point_acts(monkeypatch):
    monkeypatch.setattr(failpoints, "_armed", {"elsewhere": "nonsense"})
    failpoint("after_claim")
    with pytest.raises(ValueError, match="unknown action 'nonsense' at 'elsewhere'"):
        failpoint("elsewhere")


def test_a_point_can_wait(monkeypatch):
    monkeypatch.setattr(failpoints, "_armed", {"here": "sleep:0.05"})
    began = time.monotonic()
    failpoint("here")
    assert time.monotonic() - began >= 0.05


@pytest.mark.parametrize(
    ("action", "code"), [("kill", -signal.SIGKILL), ("exit", 0), ("exit:7", 7)]
)
def test_a_point_can_end_the_process(action, code):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from django_claimq.failpoints import failpoint; failpoint('here'); print('survived')",
        ],
        env={**os.environ, "CLAIMQ_FAILPOINTS": f"here={action}"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, b"")
