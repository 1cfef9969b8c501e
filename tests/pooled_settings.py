"""The tests' settings with Django's own connection pool; needs psycopg[pool]."""

from tests.settings import *  # noqa: F403
from tests.settings import DATABASES

DATABASES["default"].setdefault("OPTIONS", {})["pool"] = {"min_size": 1, "max_size": 12}
