"""Django settings of the test suite, and of the tools that need some (mypy, Sphinx).

DATABASE_URL names the database. Under pytest `tests.database` sets it; a worker that a test
starts as a subprocess gets it from the `database_url` fixture, naming the test database itself.
"""

import tempfile
from pathlib import Path

import django
import environ

env = environ.Env()

SECRET_KEY = "only for tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-us"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "tests.urls"
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_claimq",
    "example_project.census",
    "tests",
]
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

_scratch_file = Path(tempfile.gettempdir()) / "claimq.sqlite3"
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{_scratch_file}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # As the documentation tells users to do it: readers and one writer side by side.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }
    # A file, not memory, so that several processes can share the test database.
    DATABASES["default"]["TEST"] = {"NAME": DATABASES["default"]["NAME"] + ".test"}
# As Django asks for behind a pooler in transaction mode.
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = env.bool("CLAIMQ_TEST_POOLED", False)

TASKS = {
    "default": {
        "BACKEND": "django_claimq.backend.ClaimqBackend",
        "QUEUES": ["default", "mail", "reports", "census"],
        "OPTIONS": {},
    },
}
