"""Measurements of the queue on a real server, for people to repeat: see each module."""

# The environment variable that names the file where the tasks leave their marks.
LEDGER = "CLAIMQ_BENCH_LEDGER"
