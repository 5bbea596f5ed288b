"""Many runs: comparisons, sweeps, and the statistics of both."""
