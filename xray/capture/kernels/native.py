"""torch's native kernels opened: a whole encoder layer, or a whole attention, that ran as one operation.

What is inside follows from the arguments and settings of the call; the steps put into it are marked "derived".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Setting, Step

LAYER, ATTENTION = "transformer_encoder_layer_fwd", "native_multi_head_attention"


def open_kernels(one_pass: Pass) -> Pass:
    """The pass with the steps inside each native kernel, of which the kernel is the block.

    What a kernel makes comes from the last step inside it, for all that read it.
    """
    made = {step.id: step for step in one_pass.steps}
    inside = {
        step.id: found
        for step in one_pass.steps
        if kernel_of(step) and step.id not in one_pass.blocks and (found := open_kernel(step, made))
    }
    if not inside:
        return one_pass
    makers = {kernel: steps[-1].id for kernel, steps in inside.items()}
    steps = (one for step in one_pass.steps for one in (step, *inside.get(step.id, ())))
    return replace(one_pass, steps=tuple(rename_makers(step, makers) for step in steps))


def rename_makers(step: Step, makers: Mapping[str, str]) -> Step:
    """The step with what it reads and makes coming from other steps."""
    if not any(record.source in makers for record in (*step.inputs, *step.outputs)):
        return step
    inputs, outputs = (
        tuple(
            replace(one, source=maker, output=None) if (maker := makers.get(one.source or "")) else one for one in side
        )
        for side in (step.inputs, step.outputs)
    )
    return replace(step, inputs=inputs, outputs=outputs)


def kernel_of(step: Step) -> str:
    """Which native kernel a step is; nothing for any other step."""
    name = step.op.lstrip("_")
    return name if name in (LAYER, ATTENTION) else ""


def open_kernel(step: Step, made: Mapping[str, Step]) -> list[Step]:
    """The steps inside a native kernel, all of them derived; none if its arguments do not fit, or if it failed."""
    kind = kernel_of(step)
    given = {record.name: record for record in step.inputs}
    heads = step.settings.get("num_heads", step.settings.get("num_head"))
    x = given.get("src", given.get("query"))
    if x is None or not step.outputs or len(x.shape) != 3 or not isinstance(heads, int) or heads < 1 or step.error:
        return []
    needed = {"qkv_weight", "proj_weight"} | ({"ffn_weight_1", "ffn_weight_2"} if kind == LAYER else {"key", "value"})
    if not needed <= set(given) or x.shape[-1] % heads:
        return []
    inside = Inside(step, given, heads, find_mask(step, given, made))
    if kind == ATTENTION:
        inside.attend(given["query"], given["key"], given["value"])
    else:
        inside.run_layer(x)
    return inside.steps


def find_mask(step: Step, given: Mapping[str, TensorRecord], made: Mapping[str, Step]) -> TensorRecord | None:
    """The mask of the call; for ragged tensors the one by which they were packed: what it leaves out is not there."""
    mask = given.get("mask")
    if mask is not None:
        is_padding = step.settings.get("mask_type") == 1 and mask.mask is not None and mask.mask.kind == "custom"
        return replace(mask, mask=replace(mask.mask, kind="padding")) if is_padding and mask.mask else mask
    here = given.get("src", given.get("query"))
    for _ in range(len(made)):
        maker = made.get(here.source or "") if here is not None else None
        if maker is None or not maker.inputs:
            return None
        if maker.op == "nested_tensor_from_mask":
            return maker.inputs[1] if len(maker.inputs) > 1 else None
        if not kernel_of(maker):
            return None
        here = maker.inputs[0]
    return None


@dataclass
class Inside:
    """The steps of one kernel while they are being put together."""

    kernel: Step
    given: Mapping[str, TensorRecord]
    heads: int
    mask: TensorRecord | None
    steps: list[Step] = field(default_factory=list)

    def add(
        self, name: str, op: str, inputs: tuple[TensorRecord | None, ...], *shapes: tuple[int, ...], **settings: Setting
    ) -> TensorRecord:
        """One more step; gives the first tensor that it makes."""
        kernel = self.kernel
        path = f"{kernel.path}.{name}"
        identity = f"{path}#{kernel.call}"
        like = kernel.outputs[0]
        outputs = tuple(
            TensorRecord("out", shape, ("",) * len(shape), like.dtype, like.device, "activation", identity)
            for shape in shapes
        )
        self.steps.append(
            replace(
                kernel,
                id=identity,
                path=path,
                op=op,
                parent=kernel.id,
                depth=kernel.depth + 1,
                params=0,
                inputs=tuple(record for record in inputs if record is not None),
                outputs=outputs,
                settings={**settings, "derived": True},
                error=None,
            )
        )
        return outputs[0]

    def linear(self, name: str, x: TensorRecord, weight: str, bias: str, width: int) -> TensorRecord:
        """A linear layer with the named weights."""
        return self.add(name, "linear", (x, self.given.get(weight), self.given.get(bias)), (*x.shape[:-1], width))

    def attend(self, query: TensorRecord, key: TensorRecord, value: TensorRecord) -> TensorRecord:
        """Projections, heads, scores, weights, weighted sum and output projection."""
        batch, width = query.shape[0], query.shape[-1]
        d_k = width // self.heads
        weights = (self.given.get("qkv_weight"), self.given.get("qkv_bias"))
        if query.source == key.source == value.source and query.shape == key.shape == value.shape:
            packed = self.add("in_proj", "linear", (query, *weights), (*query.shape[:-1], 3 * width))
            part = self.add("chunk", "chunk", (packed,), query.shape, query.shape, query.shape, dim=-1)
            projected = [part, part, part]
        else:
            thirds = tuple(
                None if one is None else replace(one, shape=(one.shape[0] // 3, *one.shape[1:])) for one in weights
            )
            projected = [
                self.add(f"{name}_proj", "linear", (one, *thirds), (*one.shape[:-1], width))
                for name, one in (("q", query), ("k", key), ("v", value))
            ]
        split = []
        for name, one in zip("qkv", projected, strict=True):
            viewed = self.add(f"{name}_view", "view", (one,), (batch, one.shape[1], self.heads, d_k))
            turned = (batch, self.heads, one.shape[1], d_k)
            split.append(self.add(f"{name}_transpose", "transpose", (viewed,), turned, dim0=1, dim1=2))
        queries, keys = split[0].shape[2], split[1].shape[2]
        across = self.add("key_t", "transpose", (split[1],), (batch, self.heads, d_k, keys), dim0=-2, dim1=-1)
        shape = (batch, self.heads, queries, keys)
        scores = self.add("scores", "matmul", (split[0], across), shape)
        scores = self.add("scale", "scale", (scores,), shape, factor=d_k**-0.5)
        if self.mask is not None:
            scores = self.add("mask", "mask_scores", (scores, replace(self.mask, name="mask", role="mask")), shape)
        shares = self.add("softmax", "softmax", (scores,), shape, dim=-1)
        mixed = self.add("weighted_sum", "matmul", (shares, split[2]), split[0].shape)
        turned = (batch, queries, self.heads, d_k)
        mixed = self.add("heads_transpose", "transpose", (mixed,), turned, dim0=1, dim1=2)
        joined = self.add("heads_view", "reshape", (mixed,), query.shape)
        return self.linear("out_proj", joined, "proj_weight", "proj_bias", width)

    def run_layer(self, x: TensorRecord) -> TensorRecord:
        """An encoder layer: attention and feed-forward, each with its sum, the norms before or after."""
        first = self.kernel.settings.get("norm_first") is True
        read = self.norm(1, x) if first else x
        x = self.add("attention_add", "add", (x, self.attend(read, read, read)), x.shape)
        x = x if first else self.norm(1, x)
        read = self.norm(2, x) if first else x
        width = self.given["ffn_weight_1"].shape[0]
        wide = self.linear("linear1", read, "ffn_weight_1", "ffn_bias_1", width)
        bent = self.add("activation", "gelu" if self.kernel.settings.get("use_gelu") else "relu", (wide,), wide.shape)
        narrow = self.linear("linear2", bent, "ffn_weight_2", "ffn_bias_2", x.shape[-1])
        x = self.add("forward_add", "add", (x, narrow), x.shape)
        return x if first else self.norm(2, x)

    def norm(self, number: int, x: TensorRecord) -> TensorRecord:
        """One of the layer's two norms."""
        weights = (self.given.get(f"norm_weight_{number}"), self.given.get(f"norm_bias_{number}"))
        eps = self.kernel.settings.get("eps", 1e-5)
        return self.add(f"norm{number}", "layer_norm", (x, *weights), x.shape, eps=eps)
