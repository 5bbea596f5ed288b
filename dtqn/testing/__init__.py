"""The contract of cores and encoders as checks: what makes the actor and the learner mean the same.

    from dtqn.testing import check_core
    check_core(make_core)

The suite's own cores pass the same checks, and a run asks them of a user's core before it starts. Each check
raises a `ContractError` of one line, which names the promise that is broken and by how much.

Rounding hides a small leak, and a few timesteps hide one between many environments. So a core is held to all
promises in float64, with few timesteps, and to those that timesteps and numbers can break in float32, as in a
run, with many.
"""

from dtqn.testing.cores import check_core
from dtqn.testing.encoders import check_encoder
from dtqn.testing.faults import SMALL, ContractError

__all__ = ["SMALL", "ContractError", "check_core", "check_encoder"]
