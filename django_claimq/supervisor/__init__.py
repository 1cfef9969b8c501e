"""The parent of worker processes, and how they talk to each other."""
