"""Settings of the example project: for your own machine, not for the internet.

Whoever can open its page can have the Python files of any folder counted.
DATABASE_URL names the database (default: a SQLite file beside this one), DEBUG=0 turns
the debug mode off.
"""

from pathlib import Path

import django
import environ

HERE = Path(__file__).resolve().parent
env = environ.Env()

SECRET_KEY = env.str("SECRET_KEY", default="only for the example, which stays on this machine")
DEBUG = env.bool("DEBUG", default=True)
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
USE_TZ = True
TIME_ZONE = "UTC"
USE_THOUSAND_SEPARATOR = True
ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"
STATIC_URL = "static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_claimq",
    "example_project.census",
]
if django.VERSION < (6, 0):
    # Django 5.2 has no tasks of its own; the backport brings them.
    INSTALLED_APPS.append("django_tasks")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
if django.VERSION >= (6, 0):
    MIDDLEWARE.append("django.middleware.csp.ContentSecurityPolicyMiddleware")
    SECURE_CSP = {"default-src": ["'self'"]}

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

DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{HERE / 'census.sqlite3'}")}
# Workers like to keep their connections (the demo gives them 60), the development server,
# with a thread for every request, does not.
DATABASES["default"]["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE", default=0)
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        # Readers and one writer side by side; a writer waits for the lock at its start,
        # not in the middle, where it could no longer wait.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL",
    }

TASKS = {
    "default": {
        "BACKEND": "django_claimq.backend.ClaimqBackend",
        "QUEUES": ["default", "census"],
        # A file is parsed within milliseconds: what takes a minute hangs.
        "OPTIONS": {"TIMEOUT": "1m"},
    },
}
