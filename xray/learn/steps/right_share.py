"""How many held-out questions are answered word for word, while training goes on."""

from xray.learn.answers.decode import cut_answer, decode_greedily
from xray.learn.steps.processes import World
from xray.learn.steps.samples import Samples
from xray.model.transformer import Transformer

MOST_JUDGED, AT_A_TIME = 1000, 128
"""How many questions are asked, from all over those there are, and how many at a time."""


def count_right(model: Transformer, samples: Samples, world: World) -> tuple[int, int]:
    """How many answers are right of those that this process asks for, and how many these are.

    Where weights are divided only the writer has all of them, and asks for all.
    """
    asked = range(0, len(samples), max(1, len(samples) // MOST_JUDGED))
    mine = (asked if world.is_writer else ()) if world.shards else world.share(asked)
    right, device = 0, next(model.parameters()).device
    for start in range(0, len(mine), AT_A_TIME):
        src, tgt = samples.batch(mine[start : start + AT_A_TIME])
        wanted = [cut_answer(row, len(row)) for row in tgt[:, 1:].tolist()]
        said = decode_greedily(model, src.to(device), tgt.shape[1])
        right += sum(one == other for one, other in zip(said, wanted, strict=True))
    return right, len(mine)
