"""Gates by their formulas, their initial values in the network that is built, and their sizes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from dtqn import networks
from dtqn.networks.gates import make_gate
from tests.cases import SMALL, SPACES, network_config, randomise
from tests.networks.parameters import gate_parameters
from tests.reference.gates_twin import gate as twin

BIAS = {"gru": 2.0, "output": 1.0, "highway": 1.0, "sigtanh": 1.0, "input": None, "residual": None}


@pytest.mark.parametrize("name", BIAS)
def test_formula(name: str) -> None:
    gate = randomise(make_gate(name, width=6, bias=None).double())
    x, y = torch.randn(2, 4, 5, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = torch.stack(
        [
            twin(name, gate_parameters(name, gate), a, b)
            for a, b in zip(x.flatten(0, 1), y.flatten(0, 1), strict=True)
        ]
    )
    torch.testing.assert_close(gate(x, y), expected.view(4, 5, 6), rtol=0, atol=1e-9)


@pytest.mark.parametrize("steps", [4, 1])
def test_the_gradient_of_the_gru_gate(steps: int) -> None:
    """It is written by hand: against finite differences, in the weights and in inputs that are no block."""
    gate = randomise(make_gate("gru", width=3, bias=None).double())
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, steps, 2, 3, generator=generator, dtype=torch.float64).requires_grad_()

    def of(x: Tensor, y: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(dict(gate.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(gate, named, (x.transpose(0, 1), y.transpose(0, 1)))

    assert torch.autograd.gradcheck(of, (x, y, *gate.parameters()))


def built(gate: str, **settings: object) -> list[nn.Module]:
    """All gates of a network as it is after the whole of it is built."""
    torch.manual_seed(0)
    network = networks.build(network_config(**(SMALL | {"gate": gate} | settings)), SPACES["box"], 3)
    return [g for layer in network.core.layers for g in (layer.attention_gate, layer.mlp_gate)]


@pytest.mark.parametrize("gate, bias", BIAS.items())
@pytest.mark.parametrize("setting", [None, -0.75])
def test_bias_of_the_built_network(gate: str, bias: float | None, setting: float | None) -> None:
    gates = built(gate, gate_bias=setting)
    if bias is None:
        assert not any("bias" in name for g in gates for name, _ in g.named_parameters())
    else:
        expected = bias if setting is None else setting
        assert all(torch.equal(g.bias, torch.full((8,), expected)) and g.bias.requires_grad for g in gates)


@pytest.mark.parametrize("gate", [name for name in BIAS if name != "residual"])
def test_weights_of_the_built_network_are_truncated_normal(gate: str) -> None:
    """Deviation 1/sqrt(width), cut at two deviations (which leaves 0.88 of it)."""
    for module in built(gate, width=128):
        for name, weight in module.named_parameters():
            if name != "bias":
                assert weight.abs().max() <= 2 * 128**-0.5
                assert weight.std().item() == pytest.approx(0.88 * 128**-0.5, rel=0.03)
                assert abs(weight.mean()) < 0.03 * 128**-0.5


@pytest.mark.parametrize("gate", BIAS)
def test_each_place_has_a_gate_of_its_own(gate: str) -> None:
    gates = built(gate)
    parameters = [parameter for g in gates for parameter in g.parameters()]
    assert len({id(g) for g in gates}) == 4
    assert len({parameter.data_ptr() for parameter in parameters}) == len(parameters)
    weights = [p for g in gates for name, p in g.named_parameters() if name != "bias"]
    assert not any(
        torch.equal(a, b) for i, a in enumerate(weights) for b in weights[:i] if a.shape == b.shape
    )
