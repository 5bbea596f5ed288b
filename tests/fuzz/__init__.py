"""Damaged files of every kind that is read, and command lines: each is answered, or refused in one line."""
