from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.core.signing import BadSignature, SignatureExpired
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from django_claimq.http.signing import unsign
from django_claimq.http.status import read


@login_not_required  # The signature is the permission.
@require_safe
@cache_control(no_store=True)
def job_status(request: HttpRequest, token: str) -> JsonResponse:
    """How far a job is, as JSON: 404 for no such job or address, 410 for one that has expired."""
    try:
        permit = unsign(token)
    except SignatureExpired:
        return JsonResponse({"error": "expired"}, status=410)
    except BadSignature:
        return JsonResponse({"error": "unknown"}, status=404)
    status = read(permit.job_id, position=permit.position)
    if status is None:
        return JsonResponse({"error": "unknown"}, status=404)
    return JsonResponse(status.as_json())
