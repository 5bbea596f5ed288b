"""The package's packed parameters under the papers' names: views, so that gradients reach them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


def gate_parameters(name: str, gate: nn.Module) -> dict[str, Tensor]:
    p = dict(gate.named_parameters())
    match name:
        case "residual":
            return {}
        case "input":
            return {"W": p["w"]}
        case "output" | "highway":
            return {"W": p["w"], "b": p["bias"]}
        case "sigtanh":
            w, u = p["wu"].chunk(2)
            return {"W": w, "U": u, "b": p["bias"]}
    w_r, w_z, w_g = p["w_rzg"].chunk(3)
    u_r, u_z = p["u_rz"].chunk(2)
    return {"W_r": w_r, "W_z": w_z, "W_g": w_g, "U_r": u_r, "U_z": u_z, "U_g": p["u_g"], "b": p["bias"]}


def gates_parameters(name: str, layer: nn.Module) -> dict[str, Any]:
    return {
        "gate_1": gate_parameters(name, layer.attention_gate),
        "gate_2": gate_parameters(name, layer.mlp_gate),
    }


def block_parameters(layer: nn.Module, norm: nn.Module) -> dict[str, Any]:
    """Those of the network behind a mixing of timesteps, and of both norms, of which `norm` is the first."""
    return {
        "W_1": layer.mlp[0].weight, "b_1": layer.mlp[0].bias,
        "W_2": layer.mlp[2].weight, "b_2": layer.mlp[2].bias,
        "norm_1": dict(norm.named_parameters()), "norm_2": dict(layer.mlp_norm.named_parameters()),
    }  # fmt: skip


def layer_parameters(name: str, layer: nn.Module) -> dict[str, Any]:
    attention = layer.attention
    w_q, w_k, w_v = attention.qkv.weight.chunk(3)
    return {
        "W_q": w_q,
        "W_k": w_k,
        "W_v": w_v,
        "W_R": attention.relative.weight,
        "W_O": attention.output.weight,
        "u": attention.u.squeeze(1),
        "v": attention.v.squeeze(1),
        **block_parameters(layer, layer.attention_norm),
        **gates_parameters(name, layer),
        **span_parameters(attention.span),
        **({} if layer.compressor is None else {"compressor": dict(layer.compressor.named_parameters())}),
    }


def span_parameters(span: nn.Module | None) -> dict[str, Any]:
    """z in steps of each head, and R."""
    return {} if span is None else {"z": span.memory_length * span.share, "R": span.ramp}


def lstm_parameters(lstm_module: nn.Module, suffix: str = "_l0") -> dict[str, Tensor]:
    """By gate; torch packs input, forget, candidate, output, and adds two biases."""
    p = dict(lstm_module.named_parameters())
    bias = p[f"bias_ih{suffix}"] + p[f"bias_hh{suffix}"]
    w, u, b = (x.chunk(4) for x in (p[f"weight_ih{suffix}"], p[f"weight_hh{suffix}"], bias))
    return {f"{n}_{gate}": x[i] for n, x in (("W", w), ("U", u), ("b", b)) for i, gate in enumerate("ifco")}


def decoder_parameters(name: str, layer: nn.Module) -> dict[str, Any]:
    w_q, w_k, w_v = layer.qkv.weight.chunk(3)
    b_q, b_k, b_v = layer.qkv.bias.chunk(3)
    return {
        "W_q": w_q, "W_k": w_k, "W_v": w_v, "b_q": b_q, "b_k": b_k, "b_v": b_v,
        "W_O": layer.output.weight,
        "b_O": layer.output.bias,
        **block_parameters(layer, layer.attention_norm),
        **gates_parameters(name, layer),
    }  # fmt: skip
