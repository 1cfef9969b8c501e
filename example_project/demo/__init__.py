"""See the queue work, and one of its workers die: `python -m example_project.demo`."""
