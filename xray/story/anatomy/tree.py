"""The anatomy of a network as a tree: towers, groups of layers, stages, branches. Every field is proven or None."""

from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from xray.story.anatomy.attentions import Attention, DeformableAttention, NormKind
from xray.story.anatomy.beside_layers import Boxes, Bridge, EntrancePart, Span
from xray.story.anatomy.branches import Branch, Convolution

Reads = Literal["ids", "image", "map", "video", "audio", "vectors", "noise"]
"""What a tower begins with: a "map" has a height and a width and may be an image.

"vectors" are numbers that the caller hands it, "noise" is drawn by chance inside.
"""
NormPlace = Literal["before", "after", "both", "none"]
"""Where a norm stands, seen from the branch."""


@dataclass(frozen=True)
class Norm:
    """The normalisation of a stage, and where it stands.

    `before` the branch, `after` it, `both`, or `none`; None where it stands within the branch. `on` says what a norm
    that stands after normalises: the branch before it is added, the stream after the sum, or both, each by one of its
    own (Gemma 4 Audio). `adaptive` ones are scaled or shifted by something that is worked out of data, and not learned
    alone (DiT). `times` says how many the stream goes through one behind the other, where it is not one (Grounding
    DINO). `learned` is False where none of them has numbers of its own (OLMo). `weighs_first` is True where one
    multiplies by its numbers before it divides (Muse Spark).
    """

    kind: NormKind | None
    place: NormPlace | None
    on: Literal["branch", "stream", "both"] | None = None
    adaptive: bool | None = None
    times: int | None = None
    learned: bool | None = None
    weighs_first: bool | None = None

    @property
    def is_behind_sum(self) -> bool:
        """Whether one normalises the stream behind the sum."""
        return self.on in ("stream", "both")


@dataclass(frozen=True)
class Stage:
    """One residual sum: the branches that are added to the stream there, and their norm.

    `scale` says by what the last branch is multiplied before it is added: by "learned" numbers, the
    same "number" for all, or "tanh" of a learned one (Idefics). It is "gates" where branch and stream are both
    multiplied by gates that they work out together (D-FINE). `replaces` is True where nothing is added: what the branch
    gives takes the stream's place (SAM's first attention). `stream_scale` says where the stream itself is multiplied:
    by one number "before" the branch is added to it (LASR), by "learned" ones before that (Doge), by one number "after"
    the sum (Gemma 4), or by learned ones there, "learned after" (MobileBERT). Where the branches follow one another,
    `beside` are those, by their number from 0, that the next one does not read: they stand beside it (the LAuReL of
    Gemma 3n). `past` is what the stream goes through on its way past the branches, where that changes its numbers: a
    convolution and a norm in the first layer of a ResNet's stage. `since` is how many other sums stand between where
    the branches read the stream and where they are added (the experts of LongCat). Where some sublayers of a layer work
    on a part of the rows alone, and these stand beside the others again behind the last of them, `others` is what those
    go through meanwhile: nothing, or a branch of their own (InstructBLIP). `cleared` is True where rows that a mask
    names are set to 0 in all that goes on from the sum (Gemma 3n's sounds). `merged` is True where what branches beside
    each other give is laid end to end, and one linear layer leads it all back to the stream (Flux).
    """

    branches: tuple[Branch, ...]
    parallel: bool
    norm: Norm
    scale: Literal["learned", "number", "tanh", "gates"] | None = None
    replaces: bool | None = None
    stream_scale: Literal["before", "learned", "after", "learned after"] | None = None
    beside: tuple[int, ...] | None = None
    past: tuple[str, ...] | None = None
    since: int | None = None
    others: tuple[Branch, ...] | None = None
    cleared: bool | None = None
    merged: bool | None = None

    def is_beside(self, number: int) -> bool:
        """Whether a branch stands beside the one before it."""
        return number > 0 and (self.parallel or number - 1 in (self.beside or ()))


@dataclass(frozen=True)
class Group:
    """Layers that are alike in structure, by their numbers from 0; `shared` where they use one set of weights.

    `d_model` is how wide the stream is behind them.
    Where they are run several times each (HRM), `sets` are the layers that each set of weights serves. `dropouts` are
    the lowest and the highest share that is dropped in them, where layers differ in nothing but that; `drop_paths` the
    same of whole branches, of which all is dropped or nothing. `shared_in_part` says that each has some weights of its
    own and uses others that are one and the same for several, of which there are `shared_sets`.
    `weights_of` are the layers of a stack that runs again here with the very same weights.
    """

    layers: tuple[int, ...]
    stages: tuple[Stage, ...]
    d_model: int | None = None
    shared: bool | None = None
    sets: tuple[tuple[int, ...], ...] = ()
    dropouts: tuple[float, float] | None = None
    drop_paths: tuple[float, float] | None = None
    shared_in_part: bool | None = None
    shared_sets: int | None = None
    weights_of: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many layers it holds."""
        return len(self.layers)

    @property
    def weight_sets(self) -> int | None:
        """How many sets of weights serve them where some run several times; None where none is known to."""
        serving = sum(not {*self.layers}.isdisjoint(one) for one in self.sets)
        return serving if 0 < serving < self.count else None


@dataclass(frozen=True)
class Tower:
    """A residual stream with its layers, from what it reads to its last norm; `bridges` stand between layers.

    `conditions` are the arguments of the model out of which it is worked out how its sublayers are scaled, shifted and
    gated (DiT), `conditioned` is what of these is done to them.
    `streams` is how many rows side by side it has for each place, where a sublayer reads a weighted sum of them and
    gives each its share (hyper-connections), or whose layers mix them (AltUp). `weighed_by` is how the rows that are
    weighed give their own weights, step by step, and how the share of each stream (Qwen4). `balanced` is how often the
    matrix that mixes them is divided by the sums of its columns and rows in turn. `also` is what it reads besides, in
    rows beside the others (ViLT), `among` what rows are made of that are put in the place of some of these (Fuyu).
    `rows_added` are the numbers of the layers, from 0, behind which rows of another tower are added to some places of
    the stream (Qwen3-VL), `tapped` those of which something is handed out before the last layer (DeepStack), and that
    one with them, where its rows leave beside what is made of them (SAM-HQ).
    `blocks` is how many blocks the model numbers where some, `idle_blocks`, hold no layer: nothing is added in these
    (EfficientNet), which stand `idle_at`: before the layers, between them, or behind. `unlisted` are the layers, from
    0, that stand in no block of the list that holds most of them, each in one (SAM's last attention).
    `looked_at` tells that its attentions look at rows that are made beside it, by no tower, of what comes in
    (Perceiver).
    `own_numbers` tells that it begins with numbers of the model's own, learned or the same in every run: nothing comes
    in (SAM 2 without points).
    `before` is what stands before its first layer and is no part of an entrance: an attention that nothing goes past.
    `boxes` are what its layers correct beside its stream.
    `weights_of` is the tower before it with whose weights its layers work (DiffusionGemma), `some_weights_of` one some
    of whose weights they work with (LXMERT: both sides look at each other with the same).
    `from_one` is where norms stand that multiply by 1 + their weights (Gemma), `not_from_one` where others stand in it
    then, that multiply by their weights as they are: around a "sublayer", in one, by its part or the kind of its state,
    in the "entrance", or "last", behind its layers. `spans` are groups of its layers that a sum reaches over.
    `renewed` are the layers, from 0, before which other numbers take the place of some of those of rows (FIBO).
    `words_alone` tells that it begins at each place with the row of one id, and none but scores meet places later.
    """

    name: str
    reads: Reads | None
    causal: bool | None
    d_model: int | None
    vocab: int | None
    entrance: tuple[EntrancePart, ...]
    groups: tuple[Group, ...]
    final_norm: NormKind | None
    bridges: tuple[Bridge, ...] = ()
    conditions: tuple[str, ...] = ()
    conditioned: tuple[str, ...] = ()
    streams: int | None = None
    balanced: int | None = None
    weighed_by: tuple[tuple[tuple[str, float | None], ...], tuple[tuple[str, float | None], ...]] = ((), ())
    also: Reads | None = None
    rows_added: tuple[int, ...] = ()
    tapped: tuple[int, ...] = ()
    blocks: int | None = None
    idle_blocks: int = 0
    idle_at: tuple[str, ...] = ()
    unlisted: tuple[int, ...] = ()
    looked_at: bool = False
    own_numbers: bool = False
    before: str | None = None
    boxes: Boxes | None = None
    weights_of: str | None = None
    some_weights_of: str | None = None
    among: Reads | None = None
    from_one: tuple[str, ...] = ()
    not_from_one: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    renewed: tuple[int, ...] = ()
    words_alone: bool = False

    @property
    def turns(self) -> tuple[int, ...]:
        """Which stack of layers each group is, from 1, where stacks run again with the very same weights; else none."""
        firsts = [group.weights_of or group.layers for group in self.groups]
        stacks = list(dict.fromkeys(firsts))
        is_again = any(group.weights_of for group in self.groups)
        return tuple(stacks.index(one) + 1 for one in firsts) if is_again else ()

    @property
    def layers(self) -> int:
        """How many layers it has."""
        return sum(group.count for group in self.groups)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The branches of one layer of each group, in order."""
        return tuple(branch for group in self.groups for stage in group.stages for branch in stage.branches)

    @property
    def is_convolved(self) -> bool:
        """Whether its layers are made of convolutions alone, so that what they add to has channels."""
        return bool(self.branches) and all(isinstance(one, Convolution) for one in self.branches)


@dataclass(frozen=True)
class Link:
    """How one tower reaches another: as memory of its cross-attention, joined into its stream, or compared with it.

    It may also be "multiplied" with that stream inside of layers that look at nothing (UnivNet), or ids are "chosen" of
    it, whose rows of a table that stream begins with (X-Codec), or what its layers "scored" is added to the scores of
    the other's layers (LiLT). What it gives may have "met" what the other gives, behind that one's layers and in its
    block, on the way to a third (RT-DETR's finer maps). Its layers may give "keys" and values, each to that one of the
    other which has its number, to stand beside what that makes itself (π0).

    `behind` are the numbers of the layers of the source, from 0, behind which its rows are taken, where that is not its
    end alone (LLaVA: the last layer but one); where it is, or that is not known, there are none.
    """

    kind: Literal["memory", "joined", "compared", "multiplied", "chosen", "scored", "met", "keys"]
    source: str
    target: str
    behind: tuple[int, ...] = ()
    joins: Literal["whole", "some", ""] = field(default="some", compare=False)
    """Whether the target's stream begins with "some" rows of what is joined into it, or with these and no others.

    "" where that is not proven: they may only weigh what the stream begins with.
    """


@dataclass(frozen=True)
class Head:
    """What is made of the stream in the end; `tied` where it uses the table of the words.

    `size` is how many numbers that are for each row.
    "numbers" are of each place, and what they are scores of is not known: classes, or words of another table.
    `scale` is the number by which they are multiplied, `cap` the one that they cannot pass (c·tanh(score / c)), and
    `rows_scale` the number by which the rows are multiplied that the last layer reads (T5). The table is `of_last`
    where it is that of the last tower's words, and another tower looks its words up in one of its own (T5Gemma).
    """

    kind: Literal["vocabulary", "classes", "numbers", "none"]
    size: int | None = None
    tied: bool | None = None
    scale: float | None = None
    cap: float | None = None
    rows_scale: float | None = None
    of_last: bool = False


@dataclass(frozen=True)
class Untold:
    """A part of the model that has parameters and no place in the anatomy, or of which no step used one.

    It is `lost` where it ran and no other part reads what it gives, or what becomes of that: it is not handed out
    either.
    """

    path: str
    params: int
    lost: bool = False


@dataclass(frozen=True)
class Anatomy:
    """What a network is made of, as far as the steps of a trace prove it.

    `untold` are parts that ran and have no place in it. `unused` are parts that took no part in what was recorded, the
    largest first: a tower that got no input, experts that nobody chose. `divided` are the numbers by which weights were
    divided in place before what was recorded worked with them (RWKV). Attention `attends_elsewhere` where some of it is
    part of no layer of a tower, as that of a learned row that looks at what a tower gives (SigLIP).
    """

    towers: tuple[Tower, ...]
    links: tuple[Link, ...]
    head: Head | None
    params: int | None
    active_params: int | None
    untold: tuple[Untold, ...] = field(default=())
    unused: tuple[Untold, ...] = field(default=())
    divided: tuple[float, ...] = field(default=())
    attends_elsewhere: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists and words, for JSON."""
        found: dict[str, Any] = write_plain(self)
        return found

    def tower(self, name: str) -> Tower | None:
        """The tower of a name; None if there is none."""
        return next((tower for tower in self.towers if tower.name == name), None)

    def __repr__(self) -> str:
        towers = ", ".join(f"{tower.name} {tower.layers}×{tower.d_model or '?'}" for tower in self.towers)
        return f"Anatomy({towers or 'no tower'}; {self.params or 0:,} parameters)"


RENAMED = {
    (Attention, "source"): "from",
    (DeformableAttention, "source"): "from",
    (Link, "source"): "from",
    (Link, "target"): "to",
}
"""Fields whose name in JSON is a word that Python keeps for itself."""


def write_plain(thing: object) -> Any:  # noqa: ANN401  # whatever JSON can hold
    """Dataclasses as dicts, tuples as lists; a group also says how many layers it has."""
    if isinstance(thing, tuple):
        return [write_plain(one) for one in thing]
    if not is_dataclass(thing):
        return thing
    kind, names = type(thing), [one.name for one in fields(thing)]
    found = {RENAMED.get((kind, name), name): write_plain(getattr(thing, name)) for name in names}
    if isinstance(thing, Group):
        found["count"] = thing.count
    return {"part": found.pop("part"), **found} if "part" in found else found
