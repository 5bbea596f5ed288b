"""The commands of the command line: each reads its arguments and calls the part that does the work."""
