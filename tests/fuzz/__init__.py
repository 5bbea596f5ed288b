"""Damaged files of every kind that this program reads, and command lines: each is answered, or refused in one line."""
