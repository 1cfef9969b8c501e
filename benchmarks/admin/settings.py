"""Django settings as a product would have them in production, around nothing but the admin."""

import os

from psycopg.conninfo import conninfo_to_dict

_parts = conninfo_to_dict(os.environ["DATABASE_URL"])

SECRET_KEY = "only for benchmarks"
DEBUG = False
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "benchmarks.admin.urls"
STATIC_URL = "static/"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_claimq",
]
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
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _parts.pop("dbname"),
        "USER": _parts.pop("user", ""),
        "HOST": _parts.pop("host", ""),
        "CONN_MAX_AGE": None,
        "OPTIONS": _parts,
    }
}
TASKS = {
    "default": {
        "BACKEND": "django_claimq.backend.ClaimqBackend",
        "QUEUES": [f"queue_{number:02}" for number in range(30)],
    }
}
