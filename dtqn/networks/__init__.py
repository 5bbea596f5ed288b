"""Networks: one contract (`dtqn.networks.q_network`), one builder."""

from dtqn.networks.builder import build as build
