"""An app that counts what is in the files of a Python package, one job per file."""
