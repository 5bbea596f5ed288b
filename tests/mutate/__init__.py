"""Deliberate bugs that the tests must notice: `table` has them, `python -m tests.mutate` tries them."""
