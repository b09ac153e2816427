"""Rules for the arguments of models of diffusers: when each is made, of what shape, and what fills it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from xray.sources.diffusion import packing
from xray.sources.diffusion.needs import Needs

When = Callable[[Needs], Any]
Shapes = Callable[[Needs], tuple[str, ...]]


@dataclass(frozen=True)
class Rule:
    """How an argument is made: the words for its shape, what fills it, and when it is made though it could be missed.

    The words are sizes of `Needs`, as in "batch words 4"; "own" is the width of the layer that reads the argument
    first, and "own|text_width" is the other where no such layer is known. "5@channels" is a size, and the word for its
    axis. A shape "told|batch" is that whose sizes the code unpacks, else the other. Where no shape is given, it is that
    of latents. Where there may be several, the likeliest is first: "batch words or batch rows", or a function lists
    them. What a forward cannot do without is made always.
    """

    shape: str | Shapes = ""
    fill: packing.Fill = packing.noise
    wanted: When = bool


def always(_: Needs) -> bool:
    return True


def never(_: Needs) -> bool:
    return False


def has(*names: str) -> When:
    """Whether one of these settings is set, and not to nothing."""
    return lambda needs: any(needs.setting(name) for name in names)


def reads(name: str) -> When:
    """Whether some layer of the model reads an argument."""
    return lambda needs: needs.reading(name).layer is not None


TIME = Rule("told|batch", packing.of_one(1), always)
TEXT = Rule("batch words own|text_width", wanted=lambda needs: needs.is_guided())
MASK = Rule("batch words", packing.whole(1), never)
RULES: Mapping[str, Rule] = {
    "sample": Rule(wanted=always),
    "hidden_states": Rule(wanted=always),
    "x": Rule("in_channels@channels 1@frames height width", packing.rows_of(packing.noise), always),
    **dict.fromkeys(("timestep", "timesteps", "t"), TIME),
    **dict.fromkeys(("r_timestep", "decoder_noise_time"), TIME),
    "timestep_r": Rule("batch", packing.of_one(1), has("use_meanflow")),
    "encoder_hidden_states": TEXT,
    "encoder_hidden_states_2": Rule("batch words_2 own", wanted=reads("encoder_hidden_states_2")),
    "encoder_hidden_states_t5": Rule("batch words_2 own", wanted=reads("encoder_hidden_states_t5")),
    "encoder_hidden_states_image": Rule("batch image_words own", wanted=reads("encoder_hidden_states_image")),
    "image_embeds": Rule("batch image_words own", wanted=reads("image_embeds")),
    "cap_feats": Rule("words text_width", packing.rows_of(packing.noise), always),
    "text_bth": TEXT,
    "text_lens": Rule("batch", packing.size_as_tensor("words")),
    "encoder_attention_mask": MASK,
    "encoder_mask": MASK,
    "encoder_attention_mask_2": Rule("batch words_2", packing.whole(1), reads("encoder_hidden_states_2")),
    "encoder_hidden_states_mask": Rule("batch words", packing.whole(1), always),
    "text_embedding_mask": Rule("batch words", packing.whole(1), always),
    "text_embedding_mask_t5": Rule("batch words_2", packing.whole(1), always),
    "pooled_projections": Rule("batch own|pooled_width", wanted=reads("pooled_projections")),
    "guidance": Rule("batch", packing.of_one(4.0), has("guidance_embeds")),
    "img_ids": Rule("places position_axes", packing.image_places, always),
    "txt_ids": Rule("words position_axes", packing.text_places, always),
    "img_shapes": Rule("batch", packing.image_shapes, always),
    "num_frames": Rule("1", packing.size_of("frames"), always),
    "height": Rule("1", packing.size_of("rows"), always),
    "width": Rule("1", packing.size_of("columns"), always),
    "added_cond_kwargs": Rule("batch", packing.image_sizes, has("use_additional_conditions")),
    "image_meta_size": Rule("batch 6", packing.of_one(1), has("use_style_cond_and_image_meta_size")),
    "style": Rule("batch", packing.whole(0), has("use_style_cond_and_image_meta_size")),
    "image_rotary_emb": Rule(
        "latent_places head", packing.rotary_pair, has("use_rotary_positional_embeddings", "cross_attention_dim_t5")
    ),
    "class_labels": Rule("batch", packing.whole(0), has("num_embeds_ada_norm", "num_class_embeds")),
    **dict.fromkeys(("original_size", "target_size"), Rule("batch 2", packing.pixels)),
    "crop_coords": Rule("batch 2", packing.of_one(0.0)),
    "prior_token_id": Rule("batch latent_places", packing.whole(5)),
    "prior_token_drop": Rule("batch latent_places", packing.truth(False)),
    "padding_mask": Rule("1 1 height width", packing.of_one(0.0), has("concat_padding_mask")),
    "text_encoder_layers": Rule("batch words text_encoder_dim", packing.list_of_layers, always),
    "control_hidden_states": Rule(wanted=always),
    "pose_hidden_states": Rule("batch own@channels frames-1@frames height width", wanted=always),
    "face_pixel_values": Rule("batch 3@channels face_frames@frames face_side face_side", wanted=always),
}
"""An argument is made by the rule of its name, whatever the model."""
ROWS_OF_TEXT: Mapping[str, Rule] = {
    "encoder_hidden_states": Rule("batch words num_text_layers text_hidden_dim", wanted=always),
    "position_ids": Rule("words+places 3", packing.joint_places),
}
"""For models that are given the text as several layers of an encoder gave it."""
INDICATED: Mapping[str, Rule] = {
    "hidden_states": Rule("batch words+places own", wanted=always),
    "encoder_hidden_states": Rule("batch words+places own", wanted=always),
    "position_ids": Rule("batch words+places 3", packing.joint_places),
    "segment_ids": Rule("batch words+places", packing.whole(0)),
    "indicator": Rule("batch words+places", packing.indicated),
}
"""For models in whose one sequence numbers tell which place is a word, and which one of the image."""
SOUNDS: Mapping[str, Rule] = {
    "audio_hidden_states": Rule("batch ticks own", wanted=always),
    "audio_encoder_hidden_states": Rule("batch words own", wanted=always),
    "audio_num_frames": Rule("1", packing.size_of("ticks"), always),
    "sigma": Rule("batch", packing.of_one(1), has("prompt_modulation")),
}
"""For models of films with sound."""
KANDINSKY: Mapping[str, Rule] = {
    "visual_rope_pos": Rule("1", packing.film_axes),
    "text_rope_pos": Rule("words", packing.counting),
}
"""For models that are told the places of rows, columns and words."""
MUSIC: Mapping[str, Rule] = {
    "hidden_states": Rule("batch ticks audio_acoustic_hidden_dim", wanted=always),
    "context_latents": Rule("batch ticks context_channels", wanted=always),
    "timestep_r": TIME,
}
"""For models that go on from other sounds, laid beside their own."""
GLOBAL: Mapping[str, Rule] = {
    "global_hidden_states": Rule("batch own"),
    "local_add_cond": Rule("batch local_add_cond_dim ticks", wanted=always),
}
GLOBAL_ROW: Mapping[str, Rule] = {
    "global_hidden_states": Rule("batch 1 own", wanted=always),
    "rotary_embedding": Rule("ticks+1 half_head", packing.rotary_pair, always),
}
"""For sounds of which a row tells all, such as how long they are."""
PRIOR: Mapping[str, Rule] = {
    "hidden_states": Rule("batch own", wanted=always),
    "proj_embedding": Rule("batch own"),
    "encoder_hidden_states": Rule("batch num_embeddings own", wanted=reads("encoder_hidden_states")),
    "attention_mask": Rule("batch num_embeddings", packing.truth(True), reads("encoder_hidden_states")),
}
"""For models that make the row of an image from that of a text."""
LISTED: Mapping[str, Rule] = {
    "encoder_hidden_states": Rule("batch words own|text_width", wanted=always),
    "img_mask": Rule("batch words+quarter_places", packing.image_slots),
}
"""For models that are told at which places of a text an image is."""
LATENT_WORDS: Mapping[str, Rule] = {
    "input_ids": Rule("batch side side", packing.whole(5)),
    "pooled_text_emb": Rule("batch cond_embed_dim"),
    "micro_conds": Rule("batch micro_conds", packing.of_one(1.0)),
}
"""For models of images made of words of a codebook."""
STACKED: Mapping[str, Rule] = {
    "encoder_hidden_states_t5": Rule("batch words_2 text_width", wanted=always),
    "encoder_hidden_states_llama3": Rule("text_layers batch words last_text_width", wanted=always),
    "pooled_embeds": Rule("batch text_emb_dim", wanted=always),
    "img_ids": Rule(wanted=never),
}
"""For models that read every layer of a language model."""
MIXED: Mapping[str, Rule] = {
    "input_ids": Rule("batch words", packing.whole(5)),
    "input_img_latents": Rule("0", packing.nothing(list)),
    "input_image_sizes": Rule("0", packing.nothing(dict)),
    "attention_mask": Rule("batch words+latent_places+1 words+latent_places+1", packing.of_one(1.0)),
    "position_ids": Rule("batch words+latent_places+1", packing.counting),
}
"""For models that read words and images as one sequence."""
PIECES: Mapping[str, Rule] = {
    "hidden_states": Rule("batch places in_channels@channels patch_frames patch_rows patch_columns", wanted=always),
    "shape_list": Rule("batch", packing.image_shapes, always),
}
"""For models that are given images cut into patches, each with its shape."""
HISTORY: Mapping[str, Rule] = {
    "indices_hidden_states": Rule("1 frames", packing.counting_from(20), always),
    "indices_latents_history_short": Rule("1 2", packing.counting_from(18), always),
    "indices_latents_history_mid": Rule("1 2", packing.counting_from(16), always),
    "indices_latents_history_long": Rule("1 16", packing.counting_from(0), always),
    "latents_history_short": Rule("batch own@channels 2@frames height width", wanted=always),
    "latents_history_mid": Rule("batch own@channels 2@frames height width", wanted=always),
    "latents_history_long": Rule("batch own@channels 16@frames height width", wanted=always),
}
"""For films that go on from what was seen a moment ago, before that, and long ago."""
FRAMES_BEFORE: Mapping[str, Rule] = {
    "indices_latents": Rule("batch frames", packing.counting_from(20)),
    "latents_clean": Rule("batch in_channels@channels 2@frames height width", wanted=has("has_clean_x_embedder")),
    "indices_latents_clean": Rule("batch 2", packing.counting_from(18), has("has_clean_x_embedder")),
    "latents_history_2x": Rule("batch in_channels@channels 2@frames height width", wanted=has("has_clean_x_embedder")),
    "indices_latents_history_2x": Rule("batch 2", packing.counting_from(16), has("has_clean_x_embedder")),
    "latents_history_4x": Rule("batch in_channels@channels 16@frames height width", wanted=has("has_clean_x_embedder")),
    "indices_latents_history_4x": Rule("batch 16", packing.counting_from(0), has("has_clean_x_embedder")),
}
"""The same in other words."""
CHUNKS: Mapping[str, Rule] = {"chunk_partition": Rule("frames", packing.chunks)}
"""For films that are made a few frames at a time."""
FILMED_SOUND: Mapping[str, Rule] = {
    "encodings_and_masks": Rule("batch words d_model", packing.masked_pairs),
    "decoder_input_tokens": Rule("batch targets_length input_dims"),
}
"""For spectrograms made from encodings, each with a mask."""
TURNED: Mapping[str, Rule] = {"image_rotary_emb": Rule("384 384 own_head", packing.turned)}
"""For models that are given the rotations of all places of a large image, as complex numbers."""
MARKS: tuple[tuple[str, Mapping[str, Rule]], ...] = (
    ("indicator", INDICATED),
    ("audio_hidden_states", SOUNDS),
    ("visual_rope_pos", KANDINSKY),
    ("context_latents", MUSIC),
    ("local_add_cond", GLOBAL),
    ("rotary_embedding", GLOBAL_ROW),
    ("proj_embedding", PRIOR),
    ("img_mask", LISTED),
    ("micro_conds", LATENT_WORDS),
    ("encoder_hidden_states_llama3", STACKED),
    ("input_img_latents", MIXED),
    ("shape_list", PIECES),
    ("latents_history_short", HISTORY),
    ("indices_latents", FRAMES_BEFORE),
    ("chunk_partition", CHUNKS),
    ("encodings_and_masks", FILMED_SOUND),
    ("encoder_mask", TURNED),
)
"""Arguments by which a forward tells that it is given things in another way, and the rules for that."""


def choose_rules(needs: Needs) -> Mapping[str, Rule]:
    """The rules for a model with such arguments and settings."""
    special: dict[str, Rule] = {}
    for mark, rules in MARKS:
        if mark in needs.parameters:
            special |= rules
    if needs.setting("num_text_layers"):
        special |= ROWS_OF_TEXT
    return {**RULES, **special}
