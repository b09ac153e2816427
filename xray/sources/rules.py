"""Rules for the inputs of a model of the library: which arguments are made, of what shape, and what fills them."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """How an argument is made: the shapes that it may have, the likeliest first, and what they are filled with.

    It is made where the forward cannot do without it, and where it is `wanted` as well; one that may not be empty is
    left out where the settings leave no room for numbers.
    """

    shapes: tuple[str, ...]
    fill: str = "noise"
    wanted: bool = True
    may_be_empty: bool = True


IMAGES = (
    "batch channels height width",
    "batch 1 channels height width",
    "batch 2 channels height width",
    "batch frames channels height width",
    "batch channels frames height width",
    "batch channels 4*height 4*width",
    "batch patches patch_numbers",
    "batch*patches patch_numbers",
)
VIDEOS = ("batch frames channels height width", "batch channels frames height width")
SOUND_ROWS = (
    "batch mels ticks",
    "batch ticks mels",
    "batch 1 ticks mels",
    "batch mels 4*ticks",
    "batch ticks entrance",
    "batch ticks 128",
)
RULES: Mapping[str, Rule] = {
    "input_ids": Rule(("batch heard", "batch words", "batch words codebooks", "batch words streams"), "ids"),
    "decoder_input_ids": Rule(("batch answer", "batch answer codebooks", "batch*codebooks answer"), "ids"),
    "attention_mask": Rule(("batch words",), "ones", wanted=False),
    "pixel_values": Rule(IMAGES),
    "pixel_values_videos": Rule(VIDEOS, wanted=False),
    "high_res_pixel_values": Rule(("batch channels fine_side fine_side",), wanted=False),
    "pixel_attention_mask": Rule(("batch 1",), "yes", wanted=False),
    "prompt_pixel_values": Rule(("batch channels height width",), wanted=False),
    "prompt_masks": Rule(("batch channels height width",), wanted=False),
    "input_features": Rule(SOUND_ROWS),
    "input_features_mask": Rule(("batch ticks",), "yes"),
    "feature_attention_mask": Rule(("batch ticks",), "ones"),
    "padding_mask": Rule(("batch ticks", "batch samples"), "ones", wanted=False),
    "audio_mel": Rule(("batch ticks mels",), wanted=False),
    "audio_mel_mask": Rule(("batch ticks",), "no", wanted=False),
    "input_values": Rule(
        ("batch samples", "batch sound_channels samples", "batch ticks mels", "batch sound_channels ticks*hop")
    ),
    "latents": Rule(("batch d_model words", "batch words d_model"), wanted=False),
    "bbox": Rule(("batch words 4",), "zeros"),
    "flattened_patches": Rule(("batch patches flat_patch",), "flat"),
    "chunk_sample_lengths": Rule(("batch",), "lengths", wanted=False),
    "visual_feats": Rule(("batch 36 2048",)),
    "visual_embeds": Rule(("batch 36 regions",)),
    "visual_pos": Rule(("batch 36 4",)),
    "protein_input_ids": Rule(("batch residues",), "residues"),
    "protein_attention_mask": Rule(("batch residues",), "ones"),
    "qformer_input_ids": Rule(("batch words",), "ids"),
    "classes_input_ids": Rule(("batch*2 words",), "ids", wanted=False),
    "classes_attention_mask": Rule(("batch*2 words",), "ones", wanted=False),
    "classes_structure": Rule(("batch",), "twos", wanted=False),
    "tasks_input_ids": Rule(("batch words",), "ids", wanted=False),
    "tasks_attention_mask": Rule(("batch words",), "ones", wanted=False),
    "task_inputs": Rule(("batch task_words",), "ids", wanted=False),
    "query_embeds": Rule(("batch words d_model",), wanted=False),
    "inputs_embeds": Rule(("batch words d_model",), wanted=False),
    "noise_embeds": Rule(("batch words d_model",), wanted=False),
    "context_hidden_states": Rule(("batch words d_model", "batch words entrance"), wanted=False),
    "hidden_states": Rule(("batch words d_model", "batch d_model words", "batch 1 samples"), wanted=False),
    "lang_ids": Rule(("batch",), "zeros"),
    "state": Rule(("batch state",), wanted=False),
    "states": Rule(("batch words state",)),
    "actions": Rule(("batch words action",)),
    "rewards": Rule(("batch words 1",)),
    "returns_to_go": Rule(("batch words 1",)),
    "timesteps": Rule(("batch words",), "zeros"),
    "past_values": Rule(("batch past", "batch context variates", "batch past variates")),
    "past_values_padding": Rule(("batch context",), "zeros", wanted=False),
    "freq": Rule(("batch 1",), "zeros", wanted=False),
    "past_time_features": Rule(("batch past time_features",)),
    "past_observed_mask": Rule(("batch past",), "ones", wanted=False),
    "future_values": Rule(("batch prediction",)),
    "future_time_features": Rule(("batch prediction time_features",)),
    "static_categorical_features": Rule(("batch static_categories",), "zeros", may_be_empty=False),
    "static_real_features": Rule(("batch static_numbers",), may_be_empty=False),
}
TEXTS = frozenset({"input_ids", "decoder_input_ids"})
SOUNDS = frozenset(
    ["input_features", "input_features_mask", "feature_attention_mask", "input_values", "padding_mask"]
) | frozenset(["audio_mel", "audio_mel_mask", "chunk_sample_lengths", "audio_input_features", "audio_embed_sizes"])
"""Arguments for words, and for what is heard."""
PATCH_LISTS = (
    "batch*patches patch_numbers",
    "batch*patches channels patch patch",
    "batch*patches 2*patch_numbers",
    "batch*patches merge*patch merge*patch channels",
)
GRIDS: Mapping[str, Rule] = {
    "pixel_values": Rule(PATCH_LISTS),
    "hidden_states": Rule(PATCH_LISTS),
    "image_grid_thw": Rule(("batch 3",), "grid"),
    "grid_thw": Rule(("batch 3",), "grid"),
    "merge_sizes": Rule(("batch",), "merges", wanted=False),
    "image_merge_sizes": Rule(("batch",), "merges", wanted=False),
}
"""The rules for models that take images as one long list of patches, with a table of how many rows and columns."""
PATCHES: Mapping[str, Rule] = {
    "pixel_values": Rule(
        (
            "batch patches patch_numbers",
            "batch channels patch patches*patch",
            "1 channels patch batch*patches*patch",
        )
    ),
    "pixel_attention_mask": Rule(("batch patches",), "ones"),
    "spatial_shapes": Rule(("batch 2",), "sides"),
    "target_sizes": Rule(("batch 2",), "sides"),
    "pixel_position_ids": Rule(("batch patches 2",), "places"),
    "image_position_ids": Rule(("batch patches 2",), "places"),
}
"""The rules for models that take the patches of each image in a row, and their places."""
HALVES = dict.fromkeys(("pixel_values", "prompt_pixel_values", "prompt_masks"), Rule(("batch channels half width",)))
"""The rules for models that see an image below another one, both together as large as their settings say."""
ASKING: Mapping[str, Rule] = {"encoder_hidden_states": Rule(("batch memory_rows memory",))}
"""The rules for a transformer whose learned queries look at what another network made."""
ROWS_OF_IMAGES: Mapping[str, Rule] = {
    "pixel_values": Rule(("batch 1 channels height width",)),
    "image_attention_mask": Rule(("batch words 1",), "ones"),
}
"""The rules for models in which every word says at which of several images it looks."""
RESIZED: Mapping[str, Rule] = {
    "pixel_values": Rule(
        ("batch channels height width", "batch 3 channels height width", "batch 2 channels height width")
    ),
    "image_sizes": Rule(("batch 2",), "pixels"),
}
"""The rules for models that are told how large an image was before it was cut into pieces of one size."""
TILES: Mapping[str, Rule] = {
    "pixel_values": Rule(("batch 1 tiles channels height width",)),
    "aspect_ratio_ids": Rule(("batch 1",), "ones"),
    "aspect_ratio_mask": Rule(("batch 1 tiles",), "first"),
    "cross_attention_mask": Rule(("batch words 1 tiles",), "first"),
}
"""The rules for models that cut an image into tiles, of which a small one fills the first."""
PLACED: Mapping[str, Rule] = {
    "input_ids": Rule(("batch latents",), "ids"),
    "image_embeds_position_mask": Rule(("batch latents",), "ones"),
}
"""The rules for models that are told by a mask where the rows of an image stand among the words."""
CROPS: Mapping[str, Rule] = {
    "image_pixel_values": Rule(("batch 2 channels height width",)),
    "image_sizes": Rule(("batch 2",), "pixels"),
    "image_attention_mask": Rule(("batch 2 rows columns",), "yes"),
    "audio_input_features": Rule(("batch ticks mels",)),
    "audio_embed_sizes": Rule(("batch",), "heard_rows"),
}
"""The rules for models that take an image as a whole and cut up, with a mask of its patches, and sounds beside it."""
CAMERAS: Mapping[str, Rule] = {
    "pixel_values": Rule(("batch 1 channels height width",)),
    "pixel_attention_mask": Rule(("batch 1",), "yes"),
    "actions": Rule(("batch chunk action",)),
}
"""The rules for models that act, with an image of every camera."""
MARKS = (
    ({"image_grid_thw", "grid_thw"}, GRIDS),
    (set(PATCHES) - {"pixel_values", "pixel_attention_mask"}, PATCHES),
    ({"aspect_ratio_ids"}, TILES),
    ({"prompt_masks"}, HALVES),
    ({"query_embeds"}, ASKING),
    ({"image_pixel_values"}, CROPS),
    ({"timestep"}, CAMERAS),
    ({"image_embeds_position_mask"}, PLACED),
    ({"perceiver_embeddings"}, ROWS_OF_IMAGES),
)
"""Arguments by which a forward tells that it takes images in another way, and the rules for that."""


def choose_rules(parameters: Mapping[str, inspect.Parameter], needed: Collection[str]) -> Mapping[str, Rule]:
    """The rules for a forward with such parameters, where images and sounds need those besides."""
    special = (rules for marks, rules in MARKS if marks & set(parameters))
    resized = RESIZED if "image_sizes" in needed else {}
    return {**RULES, **next(special, resized)}


AXES: Mapping[str, str] = {
    "words": "seq_len",
    "answer": "tgt_len",
    "memory_rows": "memory_len",
    "ticks": "frames",
    "mels": "mels",
    "batch*patches": "patches",
    "ticks*hop": "samples",
    **{word: word for word in ("batch", "channels", "height", "width", "frames", "samples")},
}
"""The words of axes by those of the rules."""


def spell_axes(words: str, *, are_mels: bool) -> tuple[str, ...]:
    """The words of an input's axes; unless a frame holds mels for sure, it has none for what it holds."""
    return tuple("" if word == "mels" and not are_mels else AXES.get(word, "") for word in words.split())
