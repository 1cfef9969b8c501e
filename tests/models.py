from django.db import models


class Effect(models.Model):
    """What a task has done; nothing keeps it from being done twice."""

    what = models.CharField(max_length=200)
    fence = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.what
