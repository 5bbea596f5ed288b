"""oneDNN's products beside torch's own: values, gradients, and which of the two multiplies."""

import contextlib

import pytest
import torch
from torch.nn import functional as F

from dtqn.networks import packing, products
from dtqn.networks.gates import GRUGate
from dtqn.networks.products import FeedForward, Linear, add_product, fill_up, linear, product, weight_gradient

SHAPES = [(256, 64, 64), (1056, 64, 128), (1056, 128, 64), (320, 100, 150), (288, 32, 64)]
needs_kernel = pytest.mark.skipif(not products.kernel_works(), reason="this torch has no such kernel")


@pytest.fixture(autouse=True)
def the_kernel_wherever_it_works(monkeypatch):
    """It is exact on processors that gain nothing by it, too."""
    monkeypatch.setattr(products, "has_kernel", products.kernel_works)


def _close(found: torch.Tensor, exact: torch.Tensor) -> None:
    """To float32's rounding of sums of that size."""
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)


@contextlib.contextmanager
def kernel_calls(monkeypatch):
    """The row counts that oneDNN multiplies while this lasts."""
    rows = []
    with monkeypatch.context() as patch:
        for name in ("_kernel", "_kernel_onto"):
            own = getattr(products, name)

            def counted(*args, own=own, first=name == "_kernel"):
                rows.append(len(args[0 if first else 1]))
                return own(*args)

            patch.setattr(products, name, counted)
        yield rows


@pytest.mark.parametrize(("n", "inputs", "outputs"), SHAPES)
def test_products_are_those_of_float64(n, inputs, outputs, monkeypatch):
    """With the kernel where there is one, by torch elsewhere; views that lie row by row as well."""
    torch.manual_seed(0)
    wide = torch.randn(n, 2 * inputs)
    w, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    for x in (wide[:, :inputs].contiguous(), wide[:, inputs:]):
        for weight in (w, w.T.contiguous().T):
            exact = x.double() @ weight.double().T
            with kernel_calls(monkeypatch) as rows:
                _close(product(x, weight), exact)
                _close(product(x, weight, bias), exact + bias.double())
                total = torch.randn(n, 2 * outputs)[:, :outputs]
                expected = exact + total.double()
                _close(add_product(total, x, weight), expected)
            assert rows == ([n, n, n] if products.kernel_works() else [])
        grad = torch.randn(n, outputs)
        _close(weight_gradient(grad, x), grad.double().T @ x.double())


@pytest.mark.parametrize("n", [7, 256, 1000, 1056])
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_is_torchs_own(n, bias, monkeypatch):
    """Values and gradients, of rows that are a multiple and of others, in blocks, before an in-place ReLU."""
    torch.manual_seed(1)
    own = Linear(96, 128, bias=bias)
    x = torch.randn(2, n // 2 + n % 2, 96, requires_grad=True)
    weigh = torch.randn(2, n // 2 + n % 2, 128)
    found = {}
    with kernel_calls(monkeypatch) as rows:
        for name in ("own", "torch"):
            layer = own if name == "own" else own.double()
            given = x.detach().to(layer.weight.dtype).requires_grad_()
            y = F.relu(layer(given), inplace=True)
            parameters = [given, *layer.parameters()]
            found[name] = [y, *torch.autograd.grad((y * weigh).sum(), parameters)]
    for mine, exact in zip(found["own"], found["torch"], strict=True):
        _close(mine, exact)
    multiple = -(-(2 * (n // 2 + n % 2)) // products.ROWS) * products.ROWS
    expected = {multiple, 96, 128} if products.kernel_works() and n >= 256 else set()
    assert set(rows) <= expected and bool(rows) == bool(expected)


def test_a_gate_of_rows_that_are_no_multiple_is_exact():
    torch.manual_seed(2)
    gate = GRUGate(64, 2.0)
    with torch.no_grad():
        gate.bias.normal_()
    x, y, weigh = (torch.randn(1, 777, 64) for _ in range(3))
    found = []
    for dtype in (torch.float32, torch.float64):
        gate = gate.to(dtype)
        rows = [part.to(dtype).requires_grad_() for part in (x, y)]
        g = gate(*rows)
        found.append([g, *torch.autograd.grad((g * weigh).sum(), [*rows, *gate.parameters()])])
    for mine, exact in zip(*found, strict=True):
        _close(mine, exact)


def test_a_gate_of_no_rows_has_none():
    nothing = torch.zeros(2, 0, 8)
    assert GRUGate(8, 2.0)(nothing, nothing).shape == (2, 0, 8)


@needs_kernel
def test_other_types_few_rows_and_a_switch_leave_it_to_torch(monkeypatch):
    with kernel_calls(monkeypatch) as rows:
        for x, w in (
            (torch.randn(512, 64).double(), torch.randn(64, 64).double()),
            (torch.randn(512, 64).bfloat16(), torch.randn(64, 64).bfloat16()),
            (torch.randn(128, 64), torch.randn(64, 64)),
            (torch.randn(512, 16), torch.randn(16, 16)),
            (torch.randn(500, 64), torch.randn(64, 64)),  # to fill these up would cost as much
        ):
            assert torch.equal(linear(x, w), F.linear(x, w))
            assert fill_up(x, w.numel()) is x
        x, w = torch.randn(512, 64), torch.randn(64, 64)
        with torch.backends.mkldnn.flags(enabled=False):
            assert torch.equal(linear(x, w), F.linear(x, w))
        assert torch.equal(
            weight_gradient(x, torch.randn(512, 128)[:, :64]).isfinite().all(), torch.tensor(True)
        )
    assert rows == []


@pytest.mark.parametrize(
    ("vendor", "family", "instructions", "faster"),
    [
        ("AuthenticAMD", 26, "AVX512", True),
        ("AuthenticAMD", 25, "AVX512", False),
        ("AuthenticAMD", 26, "AVX2", False),
        ("GenuineIntel", 26, "AVX512", False),
    ],
)
def test_zen_5_alone_is_faster_with_the_kernel(monkeypatch, vendor, family, instructions, faster):
    text = f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: 17\n"
    with monkeypatch.context() as patch:
        patch.setattr(products.Path, "read_text", lambda self: text)
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
        assert products._processor_is_faster_with_it() is faster


@needs_kernel
def test_a_torch_without_the_kernel_or_with_another_has_none(monkeypatch):
    """It is asked for once; here anew each time."""
    ask = products.kernel_works.__wrapped__
    assert ask()
    monkeypatch.setattr(products, "_kernel", lambda x, w, bias: torch.ops.mkldnn.no_such_product(x, w))
    assert not ask()
    monkeypatch.setattr(products, "_kernel", lambda x, w, bias: x @ w)
    assert not ask()


def test_packed_rows_come_in_multiples_and_the_others_are_not_read():
    real = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])
    rows = packing._rows(real, torch.zeros(3, dtype=torch.int64))
    assert rows.real == 3 and len(rows.place) == len(rows.sequence) == len(rows.position) == products.ROWS
    assert rows.place[:3].tolist() == [0, 1, 6] and set(rows.place[3:].tolist()) == {0}
    assert rows.position[:3].tolist() == [0, 1, 0] and set(rows.position[3:].tolist()) == {packing.NOWHERE}
    packed = rows.pack(torch.arange(9.0).view(3, 3, 1)).requires_grad_()
    block = rows.unpack(packed)
    assert block.flatten().tolist() == [0, 1, 0, 0, 0, 0, 6, 0, 0]
    (grad,) = torch.autograd.grad((block * torch.arange(1.0, 10.0).view(3, 3, 1)).sum(), packed)
    assert grad.flatten()[:3].tolist() == [1, 2, 7] and not grad[3:].any()
    nothing = packing._rows(torch.zeros(2, 3, dtype=torch.bool), torch.zeros(2, dtype=torch.int64))
    assert (nothing.real, len(nothing.place)) == (0, 0)


@pytest.mark.parametrize("n", [7, 256, 777])
def test_a_feed_forward_part_is_its_three_modules(n):
    torch.manual_seed(3)
    own = FeedForward(64, 128)
    x, weigh = torch.randn(3, n, 64), torch.randn(3, n, 64)
    found = []
    for dtype in (torch.float32, torch.float64):
        own, given = own.to(dtype), x.to(dtype).requires_grad_()
        y = own(given) if dtype is torch.float32 else own[2](F.relu(own[0](given)))
        found.append([y, *torch.autograd.grad((y * weigh).sum(), [given, *own.parameters()])])
    for mine, exact in zip(*found, strict=True):
        _close(mine, exact)
    assert list(own.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
