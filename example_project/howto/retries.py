"""The code of docs/howto/retries.md."""

from __future__ import annotations

from django_claimq import Cancel, Exponential, Fail, Retry, Snooze, Steps, task
from django_claimq.context import ClaimqContext
from django_claimq.models import Job


# -- often
@task(max_attempts=10, backoff=Exponential(base=5, max="1h"))
def call_partner(order_id: int) -> None: ...


@task(max_attempts=4, backoff=Steps([10, 60, "10m"]))
def send_newsletter(issue_id: int) -> None: ...


# -- classes
@task(max_attempts=5, retry_on=[ConnectionError, TimeoutError])
def fetch(address: str) -> None:
    connect(address)


@task(max_attempts=5, fail_on=[OSError], retry_on=[ConnectionError])
def read(address: str) -> None:
    connect(address)


# -- function
def patient(error: BaseException, attempt: int) -> float | None:
    if isinstance(error, PermissionError):
        return None  # No attempt can mend this.
    return 60.0 * attempt


@task(max_attempts=5, backoff=patient)
def upload(address: str) -> None:
    connect(address)


# -- verdicts
@task(max_attempts=5)
def charge(payment_id: str) -> str:
    try:
        return provider.charge(payment_id)
    except CardDeclined as error:
        raise Fail(str(error)) from error
    except TooManyRequests as error:
        raise Retry(error.retry_after) from error
    except AlreadyRefunded as error:
        raise Cancel("it was refunded meanwhile") from error


# -- snooze
@task(takes_context=True)
def publish(context: ClaimqContext, article: str) -> str:
    if not images_ready(article):
        raise Snooze(30)
    return f"{article} is published"


# -- crash
@task(on_crash="fail")
def transfer(amount: int) -> None: ...


# -- history
def what_went_wrong(job: Job) -> list[str]:
    return [f"attempt {ended['attempt']}: {ended['exception']}" for ended in job.history]


# -- back
def again() -> int:
    return Job.objects.failed().filter(task="example_project.howto.retries.charge").requeue()


# -- end
class CardDeclined(Exception):
    """No money."""


class AlreadyRefunded(Exception):
    """No need."""


class TooManyRequests(Exception):
    retry_after = "1h"


class Provider:
    """Of payments; fails as its test likes it."""

    trouble: Exception | None = None

    def charge(self, payment_id: str) -> str:
        if self.trouble is not None:
            raise self.trouble
        return f"{payment_id} is charged"


provider = Provider()
ready: set[str] = set()
errors: dict[str, BaseException] = {}


def connect(address: str) -> None:
    raise errors[address]


def images_ready(article: str) -> bool:
    return article in ready
