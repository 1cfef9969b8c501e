from django.db import models


class Job(models.Model):
    id = models.BigAutoField(primary_key=True)
    status = models.SmallIntegerField(default=0)
    priority = models.SmallIntegerField(default=0)
    queue = models.TextField(default="default")
    name = models.TextField()
    args = models.JSONField()
    run_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        app_label = "floor"
        db_table = "job"

    def __str__(self):
        return f"{self.name} {self.id}"
