"""Django settings of the growth benchmarks: a queue in each of two databases of one server."""

import os

from psycopg.conninfo import conninfo_to_dict

from benchmarks.database import PREFIX

_parts = conninfo_to_dict(os.environ["DATABASE_URL"])
_server = {
    "ENGINE": "django.db.backends.postgresql",
    "USER": _parts.pop("user", ""),
    "PASSWORD": _parts.pop("password", ""),
    "HOST": _parts.pop("host", ""),
    "PORT": _parts.pop("port", ""),
    "CONN_MAX_AGE": None,
    "OPTIONS": {name: value for name, value in _parts.items() if name != "dbname"},
}

SECRET_KEY = "only for benchmarks"
DEBUG = False
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "django_claimq"]
# "default" holds nothing but the jobs of a drain, "grown" has something beside them.
DATABASES = {alias: {**_server, "NAME": f"{PREFIX}{alias}"} for alias in ("default", "grown")}
TASKS = {
    alias: {
        "BACKEND": "django_claimq.backend.ClaimqBackend",
        "QUEUES": ["default", "other"],
        "OPTIONS": {"DATABASE": alias},
    }
    for alias in DATABASES
}
