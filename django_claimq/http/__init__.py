"""One job's state and progress for the product's own pages, at a signed address."""

from django_claimq.http.signing import job_status_url

__all__ = ["job_status_url"]
