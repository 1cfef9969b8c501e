"""Who may do what to jobs: one permission for each verb, and none of them by default."""

from __future__ import annotations

from django.http import HttpRequest


class JobPermissions:
    """Each `has_..._permission` is what an admin action names by `permissions=[...]`."""

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return _may(request, "requeue_job")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return _may(request, "cancel_job")

    def has_run_permission(self, request: HttpRequest) -> bool:
        return _may(request, "run_job")

    def has_move_permission(self, request: HttpRequest) -> bool:
        return _may(request, "move_job")

    def has_reprioritise_permission(self, request: HttpRequest) -> bool:
        return _may(request, "reprioritise_job")

    def has_remove_permission(self, request: HttpRequest) -> bool:
        # has_delete_permission() would offer Django's own way to delete, which knows no claims.
        return _may(request, "delete_job")

    def has_duplicate_permission(self, request: HttpRequest) -> bool:
        # The one way to add a job here; has_add_permission() would offer an empty form.
        return _may(request, "add_job")

    def has_payload_permission(self, request: HttpRequest) -> bool:
        """Whether arguments, results and notes may be seen."""
        return _may(request, "view_payload")


def _may(request: HttpRequest, codename: str) -> bool:
    return request.user.has_perm(f"django_claimq.{codename}")
