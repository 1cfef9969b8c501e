from django.apps import AppConfig


class CensusConfig(AppConfig):
    name = "example_project.census"
    verbose_name = "Code census"
    default_auto_field = "django.db.models.BigAutoField"
