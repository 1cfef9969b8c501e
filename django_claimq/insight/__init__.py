"""What the queue looks like now and of late: figures for people and for monitoring."""
