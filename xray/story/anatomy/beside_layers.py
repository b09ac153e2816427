"""The anatomy beside layers: what stands before the first, what between two, and boxes beside the stream."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EntrancePart:
    """One thing that stands between the input and the first layer.

    `size` is how many rows a table has or are put in front, or how wide what a convolution or projection makes is.
    A resampler is an attention in which as many learned rows as its size look at what another tower gives.
    `learned` is true where its numbers are parameters that are trained, false where they are none, or are frozen and
    others beside them are trained (Whisper's places); None where neither is known, as of a model that is frozen whole.
    `beside` is true of places that only rows get which are put among those of words. `kernel` is how large patches are,
    in pixels, with pictures of a video first. `sines` is true of places whose numbers were known, and are sines: of a
    table whose columns all are (FSMT's, be it that it may be trained). `columns` are those of an `argument` with
    several ids for each place that are looked up in a table, from 0; of two it is the first less the second. They are
    `made_whole` where the argument holds numbers of which ids are made, and looked up `with_others` where those of
    other rows stand beside them (UDOP). `added` is true of a convolution that mixes neighbouring places, and is added
    to what it reads (wav2vec 2.0).
    """

    part: Literal[
        "words",
        "positions",
        "table",
        "patches",
        "projection",
        "scale",
        "norm",
        "class token",
        "learned rows",
        "resampler",
        "convolution",
    ]
    size: int | None = None
    learned: bool | None = None
    beside: bool = False
    kernel: tuple[int, ...] = ()
    sines: bool | None = None
    columns: tuple[tuple[int, ...], ...] = ()
    argument: str = ""
    made_whole: bool = False
    with_others: bool = False
    added: bool = False


@dataclass(frozen=True)
class Bridge:
    """What stands between two layers and changes the stream: it is `before` the layer of that number, from 0.

    `joined` is how many rows become one there, `d_in` and `d_out` how wide the stream is before and behind. One that is
    `within` that layer stands beside its first sublayer: the stream goes through it on its way past (Hiera, MaxViT).
    `heads` is how many an attention has that is all there is of the stream behind it, without a way past (LeViT). Where
    what is made of the stream is `added` to it, that goes by as it is (Granite Speech). Where rows are put `beside` all
    that go by, it is how many (GroupViT). Where each row is repeated as often as weights work out of what a layer gave,
    `counted` is that layer's number, from 0 (FastSpeech 2). What an `earlier` layer, by its number, gave or read may be
    laid beside the stream (a U-Net).
    """

    before: int
    joined: int | None
    d_in: int
    d_out: int
    within: bool = False
    heads: int | None = None
    added: bool = False
    beside: int | None = None
    counted: int | None = None
    earlier: tuple[int, Literal["gave", "read"]] | None = None


@dataclass(frozen=True)
class Span:
    """Layers, from `first` to `last`, from 0, behind which a sum adds what the first began with (Swin2SR).

    It adds that to what the last gave, or to what is `made` of that by learned numbers.
    """

    first: int
    last: int
    made: bool


@dataclass(frozen=True)
class Boxes:
    """Four numbers for each row beside a stream, a box in a picture, which the next layer reads (RT-DETR).

    They are corrected `behind` layers of those numbers, from 0, by what each gives; `shared` where one set of weights
    does so behind all of them, None where only some weights are the same. `begun` is the layer behind which the
    numbers begin that are corrected then: boxes are made anew there, or those that the layer read are corrected by
    other weights first, where it is `behind` too (D-FINE). Of these numbers `steps` weigh as many others for each of
    the 4.
    """

    behind: tuple[int, ...]
    shared: bool | None = None
    begun: int | None = None
    steps: int | None = None
