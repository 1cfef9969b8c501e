"""What a worker sends to PostgreSQL, as regular expressions: each is a message of its own,
and its transaction ends with it."""

CLAIM = r"UPDATE claimq_job SET\s+state = 'RUNNING'"
SETTLE = r"UPDATE claimq_job AS job SET\s+state = 'SUCCESSFUL'"
HEARTBEATS = r'UPDATE "claimq_job" SET "(lease_expires_at|heartbeat_at)"'
