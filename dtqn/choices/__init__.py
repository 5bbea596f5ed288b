"""What settings choose among, each a class of settings; no file here imports torch."""
