from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ClaimqConfig(AppConfig):
    name = "django_claimq"
    label = "django_claimq"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # Registers the framework's own checks and log receivers: nothing else
        # imports them in a project whose first task is defined late.
        from django_claimq import compat

        compat.connect()
