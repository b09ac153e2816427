"""What fills the arguments of a model of diffusers that are no chance numbers: places, sizes, lists, rotations."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from xray.sources.diffusion.needs import Needs
from xray.sources.family_inputs import make_noise, read_dtype

Shape = tuple[int, ...]
Fill = Callable[[Needs, str, Shape], Any]


def noise(needs: Needs, _: str, shape: Shape) -> Tensor:
    """Chance numbers of the model's own type."""
    return make_noise(shape, has_storage=needs.has_storage).to(read_dtype(needs.model))


def of_one(number: float) -> Fill:
    """A tensor of one number, a whole one where the forward says so, and where it says nothing and it is whole."""

    def fill(needs: Needs, name: str, shape: Shape) -> Tensor:
        is_whole = "Long" in needs.annotated(name) or isinstance(number, bool)
        return torch.full(shape, number, dtype=torch.long if is_whole else torch.float32)

    return fill


def whole(number: int) -> Fill:
    """A tensor of one whole number."""
    return lambda needs, name, shape: torch.full(shape, number, dtype=torch.long)


def rows_of(fill: Fill) -> Fill:
    """A list with a tensor for each of a batch, where the shape is that of one of them."""
    return lambda needs, name, shape: [fill(needs, name, shape) for _ in range(needs["batch"])]


def listed(fill: Fill) -> Fill:
    """A list with that alone."""
    return lambda needs, name, shape: [fill(needs, name, shape)]


def constant(value: Any) -> Fill:
    """Always the same."""
    return lambda needs, name, shape: value


def size_of(word: str) -> Fill:
    """A size as a number."""
    return lambda needs, name, shape: needs[word]


def image_places(needs: Needs, _: str, shape: Shape) -> Tensor:
    """Row and column of each place of an image in two of the axes, and nothing in the others, as the pipelines do."""
    places = torch.zeros(shape[-2:])
    grid = torch.cartesian_prod(torch.arange(needs["rows"]), torch.arange(needs["columns"]))
    places[:, 1 : 1 + grid.shape[1]] = grid
    return places.expand(shape).contiguous()


def text_places(needs: Needs, _: str, shape: Shape) -> Tensor:
    """The place of each word: in the last axis where there are four of them, else in none."""
    places = torch.zeros(shape[-2:])
    if shape[-1] > 3:
        places[:, -1] = torch.arange(shape[-2])
    return places.expand(shape).contiguous()


def image_shapes(needs: Needs, _: str, shape: Shape) -> list[list[tuple[int, int, int]]]:
    """Frames, rows and columns of the one image of each of a batch."""
    return [[(1, needs["rows"], needs["columns"])] for _ in range(shape[0])]


def image_sizes(needs: Needs, _: str, shape: Shape) -> Mapping[str, Tensor]:
    """How large an image is to be, and how much wider than high."""
    height, width = 8 * needs["height"], 8 * needs["width"]
    return {
        "resolution": torch.tensor([[height, width]] * shape[0], dtype=torch.float32),
        "aspect_ratio": torch.tensor([[height / width]] * shape[0]),
    }


def rotary_pair(needs: Needs, _: str, shape: Shape) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles by which each place is turned."""
    angles = torch.arange(shape[-2])[:, None] / 10_000 ** (torch.arange(shape[-1]) // 2 * 2 / shape[-1])
    return angles.cos().expand(shape), angles.sin().expand(shape)


def words_then_image(needs: Needs, _: str, shape: Shape) -> Tensor:
    """A mask of words and a time, each of which sees those before, and of an image, whose places see all."""
    mask, words = torch.ones(shape), needs["words"] + 1
    mask[:, :words] = mask[:, :words].tril()
    return mask


def truth(value: bool) -> Fill:
    """A tensor of one truth."""
    return lambda needs, name, shape: torch.full(shape, value, dtype=torch.bool)


def nothing(kind: Callable[[], Any]) -> Fill:
    """A list, or whatever else, with nothing in it."""
    return lambda needs, name, shape: kind()


def size_as_tensor(word: str) -> Fill:
    """A size as many times as the shape says."""
    return lambda needs, name, shape: torch.full(shape, needs[word])


def counting_from(first: int) -> Fill:
    """Numbers one after the other along the last axis."""
    return lambda needs, name, shape: (first + torch.arange(shape[-1])).expand(shape).contiguous()


def counting(needs: Needs, name: str, shape: Shape) -> Tensor:
    """Numbers from 0 on along the last axis."""
    filled: Tensor = counting_from(0)(needs, name, shape)
    return filled


def pixels(needs: Needs, _: str, shape: Shape) -> Tensor:
    """Height and width of an image whose latents are an eighth of that."""
    return torch.tensor([[8.0 * needs["height"], 8.0 * needs["width"]]] * shape[0])


def list_of_layers(needs: Needs, name: str, shape: Shape) -> list[Tensor]:
    """What each layer of an encoder made of the text, for each layer of the model."""
    layers = needs.number("num_layers") + needs.number("num_single_layers")
    return [noise(needs, name, shape) for _ in range(layers)]


def joint_places(needs: Needs, _: str, shape: Shape) -> Tensor:
    """The places of words, and behind them of an image: a moment, a row and a column each."""
    words = torch.arange(needs["words"])[:, None].expand(-1, 3)
    grid = torch.cartesian_prod(torch.arange(needs["rows"]), torch.arange(needs["columns"]))
    image = torch.cat((torch.full((len(grid), 1), needs["words"]), grid + needs["words"]), dim=1)
    return torch.cat((words, image)).expand(shape).contiguous()


def indicated(needs: Needs, _: str, shape: Shape) -> Tensor:
    """Which places hold words (3), and which an image (2)."""
    kinds = torch.full(shape, 2)
    kinds[:, : needs["words"]] = 3
    return kinds


def image_slots(needs: Needs, _: str, shape: Shape) -> Tensor:
    """Which places of a text are those of an image: the last ones."""
    return (torch.arange(shape[-1]) >= needs["words"]).expand(shape).contiguous()


def film_axes(needs: Needs, _: str, shape: Shape) -> tuple[Tensor, ...]:
    """The frames, rows and columns of patches, counted."""
    return tuple(torch.arange(side) for side in needs.film_shape())


def chunks(needs: Needs, _: str, shape: Shape) -> list[int]:
    """Frames in chunks: the first alone, then two at a time."""
    return [1, *(2 for _ in range((shape[0] - 1) // 2))]


def masked_pairs(needs: Needs, name: str, shape: Shape) -> list[tuple[Tensor, Tensor]]:
    """Encodings, each with a mask that leaves all of it."""
    return [(noise(needs, name, shape), torch.ones(shape[:2]))]


def turned(needs: Needs, _: str, shape: Shape) -> Tensor:
    """Rotations as complex numbers of size one."""
    angles = torch.arange(shape[-2])[:, None] / 10_000 ** (torch.arange(shape[-1]) / shape[-1])
    return torch.polar(torch.ones_like(angles), angles).expand(shape).contiguous()


def film_shape(needs: Needs, name: str, shape: Shape) -> tuple[int, int, int]:
    """The frames, rows and columns of patches of a film."""
    return needs.film_shape()


def film_shapes(needs: Needs, name: str, shape: Shape) -> Tensor:
    """The same as a tensor, as often as the shape says."""
    return torch.tensor([needs.film_shape()] * shape[0])


def tagged(words: int, places: int, ticks: int) -> Fill:
    """A number for each word, for each place of an image or a film, and for each frame of a sound, in this order."""

    def fill(needs: Needs, _: str, shape: Shape) -> Tensor:
        counts = torch.tensor([needs["words"], needs["places"], needs["ticks"]])
        return torch.tensor([words, places, ticks]).repeat_interleave(counts)

    return fill


def counting_rows(needs: Needs, _: str, shape: Shape) -> Tensor:
    """The number of each row, in all of its columns."""
    return torch.arange(shape[0])[:, None].expand(shape).contiguous()


def counting_behind(*words: str) -> Fill:
    """Numbers that go on behind so many."""
    return lambda needs, name, shape: sum(needs[word] for word in words) + torch.arange(shape[0])


def cache_of_layers(needs: Needs, name: str, shape: Shape) -> Any:
    """The memory that a model's own module has for its layers, with nothing in it."""
    kind = getattr(sys.modules[type(needs.model).__module__], needs.annotated(name).split(".")[-1].strip("'>"))
    return kind(needs.number("num_layers"))


def one_chain(needs: Needs, _: str, shape: Shape) -> dict[str, Tensor]:
    """What is known of a protein of one chain, of which nothing is given."""
    places = torch.arange(shape[-1])
    apart = (places[:, None] - places).abs()
    group = "condition_index-group_1_token"
    alike = dict.fromkeys(("molecule_iid", "molecule_entity_id", group), torch.zeros(shape, dtype=torch.long))
    atoms = (
        f"condition_{one}_1_atom"
        for one in ("hbond", "pistack", "pication", "saltbridge", "hydrophobic", "metal-coord")
    )
    return {
        "is_in_context_conditioning": torch.zeros(shape, dtype=torch.bool),
        "supports_local_latent": torch.ones(shape, dtype=torch.bool),
        "token_bond_path_length": apart.expand(shape[0], -1, -1).contiguous(),
        **alike,
        **dict.fromkeys(atoms, torch.zeros(*shape, 37)),
    }


def film_rotations(needs: Needs, _: str, shape: Shape) -> tuple[tuple[tuple[Tensor, Tensor], ...], tuple[Tensor, ...]]:
    """Cosine and sine of each frame, row and column, and those of each place."""
    sides = needs.film_shape()
    width = shape[0] // 3
    turns = (torch.arange(side)[:, None] / 10_000 ** (torch.arange(width) // 2 * 2 / width) for side in sides)
    places = torch.cartesian_prod(*(torch.arange(side) for side in sides))
    return tuple((one.cos(), one.sin()) for one in turns), tuple(places.T[:, None])
