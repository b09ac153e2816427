"""What a model of diffusers needs: the sizes of its latents, of the text that guides it, and of what else it reads."""

import inspect
from collections.abc import Callable, Mapping
from math import prod
from types import SimpleNamespace
from typing import Any

from torch import nn

from xray.sources.diffusion.reading import Reading, put_back, read_argument
from xray.sources.family_inputs import read_parameters
from xray.sources.sizes import DERIVED, Setting, Sizes, Wishes, find_setting, first_number

HEIGHT, WIDTH, FRAMES, SOUND_FRAMES = 24, 40, 5, 50
"""The latents' height, width and frames where the settings name none, and the frames of a sound."""
FEW_ROWS, FEW_COLUMNS = 16, 24
"""Their height and width where each of their numbers is a place."""
ROWS, COLUMNS = 6, 8
"""So many rows and columns of patches has an image that is handed over as rows of numbers."""
SECOND_WORDS, IMAGE_WORDS = 7, 14
"""So many words has the text of a second encoder, and so many rows the image that guides."""

SETTINGS: Mapping[str, Setting] = {
    "in_channels": Setting(("in_channels", "in_dim", "io_channels"), (), 4),
    "text_width": Setting(
        (
            "caption_channels",
            "cross_attention_dim",
            "joint_attention_dim",
            "text_embed_dim",
            "text_dim",
            "cap_feat_dim",
            "encoder_hidden_size",
            "context_in_dim",
            "condition_dim",
        ),
        (),
        64,
    ),
    "pooled_width": Setting(("pooled_projection_dim",), (), 64),
    "patch": Setting(("patch_size", "all_patch_size", "latent_patch_size"), (), 1),
    "temporal_patch": Setting(("patch_size_t", "temporal_patch_size"), (), 1),
    "head": Setting(("attention_head_dim", "head_dim"), (), 64),
    "axes": Setting(("axes_dims_rope", "axes_dim_rope", "axes_dims"), (), 3),
}
"""Sizes that stand in the settings."""
AXES: Mapping[str, str] = {
    **dict.fromkeys(("batch_size", "batch", "bs", "bsz", "b", "B", "bzs"), "batch"),
    **dict.fromkeys(("num_channels", "channels", "channel", "c", "C", "dim", "in_channels"), "in_channels"),
    **dict.fromkeys(
        ("num_frames", "num_frame", "frames", "frame", "f", "F", "t", "T", "duration", "video_length"), "frames"
    ),
    "batch_frames": "batch*frames",
    **dict.fromkeys(("height", "h", "H"), "height"),
    **dict.fromkeys(("width", "w", "W"), "width"),
}
"""How the code of diffusers calls the sizes of latents, and the words of X-Ray for them."""
MAIN = ("hidden_states", "sample")
"""How the latents of a model are called."""
OF_LAYERS = {
    nn.Conv1d: "batch in_channels ticks",
    nn.Conv2d: "batch in_channels height width",
    nn.Conv3d: "batch in_channels frames height width",
}
"""The latents that a convolution reads."""


class Needs(Sizes):
    """The sizes for one model of diffusers, from its settings and from what its code tells of its arguments."""

    def __init__(self, model: nn.Module, wishes: Wishes, *, has_storage: bool) -> None:
        config: Any = model.config
        super().__init__(SimpleNamespace(**config), wishes, SETTINGS)
        self.model = model
        self.has_storage = has_storage
        self.parameters = read_parameters(model)
        self.readings: dict[str, Reading] = {}

    def __getitem__(self, word: str) -> int:
        """A size by its word: "words+1" and "frames-1" are sums, and any setting that is a number is its own word."""
        if len(parts := word.replace("-", "+-").split("+")) > 1:
            return sum(-self[part[1:]] if part.startswith("-") else self[part] for part in parts)
        if word in SIZES:
            return int(SIZES[word](self))
        known = word.isdigit() or word in DERIVED or word in self.settings
        return super().__getitem__(word) if known else self.number(word)

    def reading(self, name: str) -> Reading:
        """What the model's code tells of an argument."""
        if name not in self.readings:
            self.readings[name] = read_argument(self.model, name)
        return self.readings[name]

    def setting(self, *names: str) -> Any:
        """The first of these settings that there is, or the model keeps by such a name; None where there is none."""
        found = find_setting(self.config, names)
        kept = (vars(self.model).get(name) for name in names)
        return next((one for one in kept if one is not None), None) if found is None else found

    def number(self, *names: str) -> int:
        """The same as a whole number, 0 where there is none."""
        return first_number(self.setting(*names)) or 0

    def annotated(self, name: str) -> str:
        """What the forward says of which type an argument is; "" where it says nothing."""
        told = self.parameters[name].annotation
        return "" if told is inspect.Parameter.empty else str(told)

    def width(self, name: str) -> int | None:
        """So many numbers of a row does the first layer read that is given this argument; None where none is known."""
        layer: Any = self.reading(name).layer
        if layer is None or isinstance(layer, nn.Embedding):
            return None
        if hasattr(layer, "in_channels"):
            return int(layer.in_channels)
        return int(layer.weight.shape[-1])

    def patches(self) -> tuple[int, int, int]:
        """How many frames, rows and columns of the latents become one place."""
        size = self.setting(*SETTINGS["patch"].names)
        if isinstance(size, (list, tuple)) and len(size) == 3:
            return int(size[0]), int(size[1]), int(size[2])
        side = first_number(size) or 1
        return self["temporal_patch"], side, side

    def latent_side(self, place: int) -> int:
        """Height or width of the latents: as the settings have it, else small, the more so where no patches are cut."""
        if self.setting("use_learned_positional_embeddings"):
            return self.number(("sample_height", "sample_width")[place])
        size = self.setting("sample_size")
        if isinstance(size, (list, tuple)) and len(size) >= 2:
            return int(size[place - 2])
        each_is_a_place = self.setting(*SETTINGS["patch"].names) is not None and self.patches()[1] == 1
        return first_number(size) or ((FEW_ROWS, FEW_COLUMNS) if each_is_a_place else (HEIGHT, WIDTH))[place]

    def count_words(self, *names: str) -> int:
        """The words of a text for which a model has places, in no other number; 0 where they may be of any."""
        return 0 if self.wishes.seq_len else self.number(*names)

    def is_guided(self) -> bool:
        """Whether a text guides the model: a layer reads it, or the settings say how wide it is."""
        return self.width("encoder_hidden_states") is not None or bool(self.setting(*SETTINGS["text_width"].names))

    def count_frames(self) -> int:
        """Frames of the latents: those for which there are places, or a whole number of those that become one."""
        if self.setting("use_learned_positional_embeddings"):
            return (self.number("sample_frames") - 1) // (self.number("temporal_compression_ratio") or 1) + 1
        each = self.patches()[0]
        return self.number("video_length") or (FRAMES if each == 1 else 3 * each)

    def count_places(self) -> int:
        """The places that the latents become, each of a patch of them."""
        frames, rows, columns = self.film_shape()
        main = next((name for name in MAIN if name in self.parameters), MAIN[0])
        return (frames if "frames" in self.latents(main)[0].split() else 1) * rows * columns

    def film_shape(self) -> tuple[int, int, int]:
        """The frames, rows and columns of patches of latents."""
        frames, rows, columns = self.patches()
        return self["frames"] // frames, self["height"] // rows, self["width"] // columns

    def latents(self, name: str) -> tuple[str, ...]:
        """The words for the shape of latents that are given under a name, the likeliest first.

        The code unpacks their sizes, or a layer reads them that takes but one kind. Where neither is to be seen, they
        are images, rows of numbers, or films. "5@channels" is a size and the word for its axis.
        """
        reading = self.reading(name)
        words = tuple(AXES.get(one.removeprefix("sample_"), "") for one in reading.sizes)
        if len(words) in {4, 5} and words[0] in {"", "batch", "batch*frames"} and words.count("") <= 2:
            return (" ".join(self.fill_in(name, words)),)
        kind = next((one for one in OF_LAYERS if isinstance(reading.layer, one)), None)
        if kind is not None and (reading.order is not None or not words):
            channels = self["in_channels"] if reading.order is None else self.width(name)
            told = OF_LAYERS[kind].replace("in_channels", f"{channels}@channels").split()
            return (" ".join(put_back(told, reading.order) or told),)
        if reading.layer is not None:
            return (f"batch places {self.width(name)}",)
        return ("batch in_channels height width", "batch places in_channels", "batch in_channels frames height width")

    def fill_in(self, name: str, words: tuple[str, ...]) -> list[str]:
        """The words with those of the sizes that the code gives no name: they are of the batch, and channels."""
        channels = f"{self.count_channels(name)}@channels"
        return [words[0] or "batch", *(channels if word in {"", "in_channels"} else word for word in words[1:])]

    def count_channels(self, name: str) -> int:
        """The channels of latents: what a convolution reads of them as they are, else what the settings say.

        Where these say nothing, a layer reads all numbers of a patch, or of a place.
        """
        reading, width = self.reading(name), self.width(name)
        if width is not None and reading.order is not None and isinstance(reading.layer, tuple(OF_LAYERS)):
            return width
        told = self.number(*SETTINGS["in_channels"].names) if name in MAIN else 0
        if told or width is None:
            return told or self["in_channels"]
        each = prod(self.patches())
        return width // each if width % each == 0 else width


SIZES: Mapping[str, Callable[[Needs], int]] = {
    "words": lambda needs: needs.count_words("text_len", "max_text_seq_length") or DERIVED["words"](needs),
    "words_2": lambda needs: needs.count_words("text_len_t5") or SECOND_WORDS,
    "image_words": lambda needs: needs.number("pos_embed_seq_len") // 2 or IMAGE_WORDS,
    "image_batch": lambda needs: needs["batch"] * (2 if needs.setting("pos_embed_seq_len") else 1),
    "height": lambda needs: needs.latent_side(0),
    "width": lambda needs: needs.latent_side(1),
    "frames": Needs.count_frames,
    "ticks": lambda needs: needs.number("sample_size") or SOUND_FRAMES,
    "rows": lambda needs: ROWS,
    "columns": lambda needs: COLUMNS,
    "places": lambda needs: ROWS * COLUMNS * (FRAMES if "num_frames" in needs.parameters else 1),
    "patch_frames": lambda needs: needs.patches()[0],
    "patch_rows": lambda needs: needs.patches()[1],
    "patch_columns": lambda needs: needs.patches()[2],
    "side": lambda needs: needs.latent_side(0),
    "own_head": lambda needs: needs.number("hidden_size") // (2 * needs.number("num_attention_heads") or 1),
    "film_places": lambda needs: prod(needs.film_shape()),
    "inner": lambda needs: needs.number("num_attention_heads") * needs["head"],
    "injections": lambda needs: len(needs.setting("injection_layer_ids") or ()),
    "quarter_places": lambda needs: needs["places"] // 4,
    "half_head": lambda needs: needs["head"] // 2,
    "context_channels": lambda needs: needs["in_channels"] - needs.number("audio_acoustic_hidden_dim"),
    "micro_conds": lambda needs: needs.number("micro_cond_embed_dim") // (needs.number("micro_cond_encode_dim") or 1),
    "last_text_width": lambda needs: needs.setting("caption_channels")[-1],
    "text_layers": lambda needs: max(needs.setting("llama_layers") or (0,)) + 1,
    "face_frames": lambda needs: 4 * (needs["frames"] - 1),
    "face_side": lambda needs: needs.number("motion_encoder_size") or 512,
    "latent_places": Needs.count_places,
    "position_axes": lambda needs: len(needs.setting(*SETTINGS["axes"].names) or (0, 0, 0)),
}
"""Sizes that are chosen, or follow from others."""
