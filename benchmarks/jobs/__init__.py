"""The no-op job, as each library wants it defined; imported by workers and producers."""
