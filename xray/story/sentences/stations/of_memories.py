"""What a tower takes from the memory that it looks at."""

from xray.story.anatomy.attentions import Attention
from xray.story.anatomy.tree import Group, Tower
from xray.story.sentences.sentence import Sentence, fixed, say_first


def describe_memory(tower: Tower) -> str:
    """What a tower takes from the memory that it looks at."""
    return say_first(OF_MEMORIES, tower)


def looks_elsewhere(group: Group) -> bool:
    """Whether layers have an attention whose values come from another tower."""
    branches = (branch for stage in group.stages for branch in stage.branches)
    return any(isinstance(one, Attention) and one.leaves_stream for one in branches)


def describe_takers(tower: Tower) -> str:
    every = bool(tower.groups) and all(map(looks_elsewhere, tower.groups))
    return f"keys and values for every {tower.name} layer" if every else ""


OF_MEMORIES: tuple[Sentence[Tower], ...] = (
    Sentence("memory of every layer", describe_takers),
    fixed("memory", "keys and values for some of the layers", lambda tower: any(map(looks_elsewhere, tower.groups))),
)
"""What is taken from a memory, the first that is proven."""
