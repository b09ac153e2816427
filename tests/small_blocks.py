"""Passes made by hand for models that are no transformer: chains, layers, branches, a generation loop."""

from dataclasses import replace

from xray.ir.records import MaskFacts, TensorRecord
from xray.ir.trace import Pass, Step


def tensor(name, shape, source=None, role="activation", dtype="float32", mask=None, preview=None):
    return TensorRecord(name, tuple(shape), ("",) * len(shape), dtype, "cpu", role, source, mask, preview)


def call(path, op, sources=(), shape=(2, 7), *, parent=None, number=0, module="", params=0, location=None, error=None):
    """A step that reads what the steps of these ids made ("" for an input of the whole) and makes one tensor."""
    own = f"{path}#{number}"
    return Step(
        id=own,
        path=path,
        call=number,
        op=op,
        module=module,
        parent=parent,
        depth=path.count("."),
        layer=None,
        params=params,
        location=location,
        inputs=tuple(tensor(name_input(op, place), shape, source or None) for place, source in enumerate(sources)),
        outputs=(tensor("out", shape, own),),
        error=error,
    )


def name_input(op, place):
    """What torch calls an operand: those of a list by their number."""
    return f"tensors.{place}" if op in ("cat", "stack") else ("x", "other", "third")[place]


def forward(*steps, number=0, tokens=None):
    return Pass("forward", number, tokens or {}, tuple(steps))


def model_of(*steps, shape=(2, 7)):
    """The steps inside one outermost block, "net", that is given "x" and gives back what the last of them made."""
    root = call("net", "net", [""], shape, module="Net")
    made = tensor("out", shape, steps[-1].outputs[0].source)
    return forward(Step(**{**vars(root), "outputs": (made,)}), *steps)


def layer(path, source, ops=("linear", "relu"), shape=(2, 7), parent="net#0", params=11):
    """A block with a chain of operations in it."""
    steps = [call(path, "layer", [source], shape, parent=parent, module="Layer", params=params)]
    for place, op in enumerate(ops):
        steps.append(call(f"{path}.part{place}", op, [source], shape, parent=f"{path}#0", location=f"model.py:{place}"))
        source = steps[-1].id
    return steps


def chain_of_layers(count, name="layer{}", **options):
    """Layers one after the other, and the id of what the last one made."""
    source, steps = "", []
    for number in range(count):
        steps += layer(f"net.{name.format(number)}", source, **options)
        source = steps[-1].id
    return steps, source


def flat_chain(count, ops, location="model.py:{}"):
    """Operations in one row, with no block around them but the model."""
    source, steps = "", []
    for number in range(count):
        op, shape = (ops(number), (2, 7)) if callable(ops) else (ops[number % len(ops)], (2, 7))
        where = location.format(number % 97)
        steps.append(call(f"net.op{number}", op, [source], shape, parent="net#0", location=where))
        source = steps[-1].id
    return steps


def blind_attention():
    """An attention, its steps inside a block "net", in which one of two queries sees nothing."""
    shape = (1, 2, 3)
    mask = MaskFacts("padding", 0.5, "true_is_hidden", (("...", "ppp"),))
    scores = call("net.scores", "matmul", ["", ""], shape, parent="net#0")
    hide = call("net.hide", "masked_fill", [scores.id], shape, parent="net#0")
    record = tensor("mask", shape, role="mask", dtype="bool", mask=mask)
    hide = replace(hide, inputs=(*hide.inputs, record), settings={"value": -1e9})
    weights = call("net.softmax", "softmax", [hide.id], shape, parent="net#0")
    return scores, hide, weights, call("net.out", "matmul", [weights.id, ""], shape, parent="net#0")
