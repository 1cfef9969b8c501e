"""The code of docs/howto/results.md, where the words of texts are counted."""

# -- task
from typing import Any

from django_claimq import task


@task(takes_context=True)
def count_words(context: Any, texts: list[str]) -> int:
    total = 0
    for number, text in enumerate(texts, start=1):
        total += len(text.split())
        context.progress(number, len(texts), "counted")
    return total


# -- read
def words_in(result_id: str) -> int | None:
    result = count_words.get_result(result_id)
    return result.return_value if result.status == "SUCCESSFUL" else None


# -- show
from django.http import HttpRequest, JsonResponse  # noqa: E402

from django_claimq.models import Job  # noqa: E402


def show(request: HttpRequest, result_id: str) -> JsonResponse:
    result = count_words.get_result(result_id)
    job = Job.objects.get(id=result.id)
    return JsonResponse(
        {
            "status": result.status,
            "progress": result.progress,
            "ahead": job.position(),
            "expected_start": job.expected_start(),
        }
    )


# -- wait
from django_claimq import ResultTimeout  # noqa: E402


def count_now(request: HttpRequest) -> JsonResponse:
    result = count_words.enqueue([request.GET["text"]])
    try:
        result.wait("5s")
    except ResultTimeout:
        return JsonResponse({"id": result.id}, status=202)
    if result.status == "FAILED":
        return JsonResponse({"errors": len(result.errors)}, status=500)
    return JsonResponse({"words": result.return_value})


# -- await
import asyncio  # noqa: E402


async def count_all(request: HttpRequest) -> JsonResponse:
    results = [await count_words.aenqueue([text]) for text in request.GET.getlist("text")]
    await asyncio.gather(*(result.await_("30s") for result in results))
    return JsonResponse({"words": [result.return_value for result in results]})


# -- settings
OPTIONS = {
    "RETENTION": {"successful": "1d", "cancelled": "1d", "failed": None},
}


# -- retention
@task(retention="10m")
def refresh_cache(key: str) -> None: ...


@task(retention=None)
def close_books(year: int) -> int:
    return year


# -- end
