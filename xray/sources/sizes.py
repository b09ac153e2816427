"""The sizes of a model's inputs, looked up in its settings by the words in which the rules for inputs speak."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

BATCH = 2
WORDS = 10
ANSWER = 7
RESIDUES = 22
MEMORY_ROWS = 13
"""So many inputs at a time, so many words of text, of an answer, of a protein, and rows to look at: no two alike."""
IMAGE_SIDE = 224
MOST_PLACES = 2_000
"""An encoder of sound with no more places than these is made for sounds of just that length."""
VISION, AUDIO, TEXT = ("vision", "visual", "image", "backbone"), ("audio", "speech"), ("text", "language", "llm")


@dataclass(frozen=True)
class Wishes:
    """What somebody asked of the inputs that are to be made: how many, how long, how large; None leaves it to X-Ray.

    The words of a `prompt`, as ids, stand in for those that would be made.
    """

    batch: int | None = None
    seq_len: int | None = None
    image_size: int | None = None
    prompt: tuple[int, ...] = ()


@dataclass(frozen=True)
class Setting:
    """Where a size stands: under the first of these names, searched for in the parts called so first."""

    names: tuple[str, ...]
    of: tuple[str, ...] = ()
    default: int | None = None


SIDES = ("image_size", "img_size", "input_image_size", "resolution", "max_img_size", "crop_size")
MELS = (
    "num_chroma",
    "input_feat_size",
    "feature_projection_input_dim",
    "num_mel_bins",
    "feature_size",
    "n_mels",
    "mel_bins",
    "input_feat_per_channel",
    "num_mels",
    "input_dim",
    "input_size",
)

SETTINGS: Mapping[str, Setting] = {
    "channels": Setting(("num_channels", "in_channels", "in_chans", "num_image_channels", "input_channels"), VISION, 3),
    "image_side": Setting(SIDES, VISION, IMAGE_SIDE),
    "fine_side": Setting(SIDES, ("high_res",), IMAGE_SIDE),
    "tiles": Setting(("max_num_tiles",), VISION, 1),
    "patch": Setting(("patch_size", "spatial_patch_size"), VISION, 16),
    "patch_frames": Setting(("temporal_patch_size",), VISION, 1),
    "merge": Setting(("spatial_merge_size", "merge_size", "downsample_factor", "pooling_kernel_size"), VISION, 1),
    "frames": Setting(("num_frames", "frames_per_clip"), VISION, 8),
    "mels": Setting(MELS, AUDIO, 80),
    "fewer_ticks": Setting(("time_reduction",), AUDIO, 1),
    "hop": Setting(("hop_length",), AUDIO, 160),
    "sound_channels": Setting(("audio_channels", "num_audio_channels"), AUDIO, 1),
    "vocab": Setting(("vocab_size", "text_vocab_size"), TEXT, 1000),
    "d_model": Setting(("hidden_size", "d_model", "embed_dim", "dim", "n_embd"), TEXT, 64),
    "vision_width": Setting(("hidden_size", "embed_dim", "d_model"), VISION, 64),
    "audio_width": Setting(("hidden_size", "d_model"), AUDIO, 64),
    "regions": Setting(("visual_embedding_dim",)),
    "latents": Setting(("latent_query_num",), (), 64),
    "memory": Setting(("encoder_hidden_size", "encoder_width"), (), 64),
    "heard": Setting(("audio_length_per_tok",)),
    "codebooks": Setting(("num_codebooks", "n_codebooks", "num_channels"), AUDIO),
    "state": Setting(("max_state_dim", "state_dim"), (), 32),
    "action": Setting(("max_action_dim", "act_dim", "action_dim"), (), 32),
    "chunk": Setting(("chunk_size",), (), 50),
    "task_words": Setting(("task_seq_len",), (), 77),
    "context": Setting(("context_length", "prediction_length", "window_size"), (), 32),
    "prediction": Setting(("prediction_length",), (), 24),
    "variates": Setting(("num_input_channels", "input_size"), (), 1),
    "time_features": Setting(("num_time_features",), (), 0),
    "static_categories": Setting(("num_static_categorical_features",), (), 0),
    "static_numbers": Setting(("num_static_real_features",), (), 0),
}


class Sizes:
    """Every word that the rules for inputs use, as a number."""

    def __init__(
        self,
        config: Any,
        wishes: Wishes,
        settings: Mapping[str, Setting] = SETTINGS,
        *,
        entrance: int = 0,
        side: int = 0,
        end: int | None = None,
    ) -> None:
        self.config = config
        self.entrance = entrance  # what the model's first linear layer reads
        self.side = side  # of the images that a part of the model says it is for
        self.end = end  # the id at which a text ends, where the model searches for it
        self.wishes = wishes
        self.settings = settings

    def __getitem__(self, word: str) -> int:
        if word.isdigit():
            return int(word)
        return int(DERIVED[word](self)) if word in DERIVED else self.look_up(word)

    def shape(self, words: str) -> tuple[int, ...]:
        """The sizes for words such as "batch channels height width"; "2*words" and "a*b" are products."""
        return tuple(prod(self[part] for part in word.split("*")) for word in words.split())

    def knows(self, words: str) -> bool:
        """Whether there is a size for each of the words."""
        parts = [part for word in words.split() for part in word.split("*") if part in self.settings]
        return all(self[part] or self.settings[part].default is not None for part in parts)

    def look_up(self, word: str) -> int:
        """A size as the settings have it."""
        setting = self.settings[word]
        found = find_setting(self.config, setting.names, setting.of)
        return first_number(found) or setting.default or 0

    def are_mels(self) -> bool:
        """Whether the setting that says how many numbers a frame holds says that these are mels.

        They are of two frames in Wav2Vec2-BERT, and of the twelve notes of an octave in MusicGen Melody. Of models of
        diffusers no such setting is known.
        """
        setting = self.settings.get("mels")
        return setting is not None and "mel" in find_named_setting(self.config, setting.names, setting.of)[0]

    def count_numbers(self) -> int:
        """The numbers of a patch, behind those of its row and its column."""
        wide = first_number(find_setting(self.config, ("patch_embed_hidden_size",), VISION))
        return 2 + (wide or self["patch_numbers"])

    def count_ticks(self) -> int:
        """Frames of a spectrogram: as many as the encoder has places for, each of which takes up two (Whisper).

        More places than that are the most that there may be: as attention grows with their square, 200 frames do.
        """
        places = first_number(find_setting(self.config, ("max_source_positions",), AUDIO))
        if places and places <= MOST_PLACES:
            return 2 * places
        longest = first_number(find_setting(self.config, ("max_length", "spec_size"), AUDIO))
        return longest if longest and longest > 100 else 200

    def count_heard(self) -> int:
        """Words of a text written while it is heard, one for so many frames; 0 where none is (Voxtral Realtime)."""
        each = self.look_up("heard")
        return self["ticks"] // each if each else 0

    def count_pieces(self, side: int) -> int:
        """How many patches an image is high, or wide: a whole number of those that become one."""
        return max(1, self.image()[side] // (self["patch"] * self["merge"])) * self["merge"]

    def image(self) -> tuple[int, int]:
        """Height and width of an image: as asked for, else as the settings have it."""
        if self.wishes.image_size:
            return self.wishes.image_size, self.wishes.image_size
        found = find_setting(self.config, SIDES, VISION)
        if isinstance(found, Mapping):
            return found.get("height", IMAGE_SIDE), found.get("width", IMAGE_SIDE)
        if isinstance(found, Sequence) and len(found) >= 2 and not isinstance(found, str):
            return int(found[-2]), int(found[-1])
        side = first_number(found) or self._side_of_places() or self.side or IMAGE_SIDE
        return side, side

    def _side_of_places(self) -> int | None:
        """The side of an image with as many patches as the settings have places for."""
        places = first_number(find_setting(self.config, ("num_position_embeddings", "num_patches"), VISION))
        return None if places is None else isqrt(places) * self["patch"]


DERIVED: dict[str, Callable[[Sizes], int]] = {
    "batch": lambda sizes: sizes.wishes.batch or BATCH,
    "words": lambda sizes: len(sizes.wishes.prompt) or sizes.wishes.seq_len or WORDS,
    "answer": lambda sizes: max(1, sizes.wishes.seq_len * ANSWER // WORDS) if sizes.wishes.seq_len else ANSWER,
    "residues": lambda sizes: RESIDUES,
    "memory_rows": lambda sizes: MEMORY_ROWS,
    "streams": lambda sizes: sizes["codebooks"] + 1,
    "entrance": lambda sizes: sizes.entrance or sizes["mels"],
    "half": lambda sizes: sizes["height"] // 2,
    "height": lambda sizes: sizes.image()[0],
    "width": lambda sizes: sizes.image()[1],
    "rows": lambda sizes: sizes.count_pieces(0),
    "columns": lambda sizes: sizes.count_pieces(1),
    "patches": lambda sizes: sizes["rows"] * sizes["columns"],
    "patch_numbers": lambda sizes: sizes["channels"] * sizes["patch_frames"] * sizes["patch"] ** 2,
    "flat_patch": Sizes.count_numbers,
    "samples": lambda sizes: 1_920 * 9,  # a whole number of frames for the codecs that there are
    "ticks": Sizes.count_ticks,
    "heard": Sizes.count_heard,
    "past": lambda sizes: sizes["context"] + max(find_setting(sizes.config, ("lags_sequence",)) or [0]),
}
"""Sizes that are wished for, or follow from others."""


def find_setting(config: Any, names: Sequence[str], of: Sequence[str] = ()) -> Any:
    """The first of these settings that there is: in the parts that are called so, then in the whole, then elsewhere."""
    return find_named_setting(config, names, of)[1]


def find_named_setting(config: Any, names: Sequence[str], of: Sequence[str] = ()) -> tuple[str, Any]:
    """The same with its name; "" and None where there is none."""
    for place in list_places(config, of):
        for name in names:
            value = read_setting(place, name)
            if value is not None:
                return name, value
    return "", None


def read_setting(place: Any, name: str) -> Any:
    """A setting; None where there is none, or it cannot be told without saying of which layer."""
    try:
        return getattr(place, name, None)
    except Exception:  # whatever a library's own settings raise when they are asked
        return None


def list_places(config: Any, of: Sequence[str]) -> Iterator[Any]:
    """Settings and the settings inside them, those first whose name holds one of these words."""
    seen, waiting = [], deque([("", config)])
    while waiting:
        name, one = waiting.popleft()
        seen.append((name, one))
        waiting.extend((f"{name}.{key}", part) for key, part in vars(one).items() if hasattr(part, "model_type"))
    yield from (one for name, one in seen if any(word in name for word in of))
    yield from (one for name, one in seen if not any(word in name for word in of))


def first_number(value: Any) -> int | None:
    """A setting as one whole number, the first where there are several."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
