"""How fast one process enqueues: one by one, each committed, and with the call for many."""

from __future__ import annotations

from benchmarks.trial import Trial

SECONDS = 1.5


def one_by_one(trial: Trial) -> dict[str, float]:
    """Jobs per second of one client that enqueues for some seconds."""
    with trial.fresh():
        done = trial.step("enqueue", n=1_000_000, warmup=100, seconds=SECONDS * trial.scale)
    return {"rate": done["n"] / done["seconds"]}


def bulk(trial: Trial) -> dict[str, float]:
    """Jobs per second of one call that enqueues the variant's `bulk_jobs`."""
    with trial.fresh():
        done = trial.step("bulk", n=round(trial.variant.bulk_jobs * trial.scale))
    return {"rate": done["n"] / done["seconds"]}
