"""Django settings of the peers that live in Django, each in a process of its own."""

from benchmarks.context import Context
from benchmarks.peers import peer_of
from benchmarks.peers.django_peer import database_settings

peer = peer_of(Context.here())

SECRET_KEY = "only for benchmarks"
DEBUG = False
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", *peer.apps]
DATABASES = {"default": database_settings(peer)}
if peer.backend:
    TASKS = {"default": {"BACKEND": peer.backend}}
PROCRASTINATE_IMPORT_PATHS = ["benchmarks.jobs.procrastinate"]
