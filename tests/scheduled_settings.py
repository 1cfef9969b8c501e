"""The settings of the test suite, with a schedule."""

from tests.settings import *  # noqa: F403
from tests.settings import TASKS

TASKS = {
    "default": {
        **TASKS["default"],
        "OPTIONS": {
            "SCHEDULES": {
                "from settings": {"task": "tests.supervision_tasks.scheduled", "every": "1s"},
            },
        },
    },
}
