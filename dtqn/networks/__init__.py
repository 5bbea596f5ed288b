"""Networks: one contract (`dtqn.networks.recurrent`), one builder."""

from dtqn.networks.builder import build as build
