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
    axis. A shape "told:timestep|batch" is that whose sizes the code unpacks of another argument or the same, else the
    other; of shapes with an " or " the likeliest is first, as of those that a function lists. Where no shape is given,
    it is that of latents. What a forward cannot do without is made always.
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


def takes(*names: str) -> When:
    """Whether the forward takes one of these arguments."""
    return lambda needs: not set(names).isdisjoint(needs.parameters)


def takes_all(*names: str) -> When:
    """Whether it takes each of these."""
    return lambda needs: set(names) <= set(needs.parameters)


TIME = Rule("told:timestep|batch", packing.of_one(1), always)
TEXT = Rule("batch words own|text_width", wanted=lambda needs: needs.is_guided())
MASK = Rule("batch words", packing.truth(True), lambda needs: "hidden_states" in needs.parameters and needs.is_guided())
RULES: Mapping[str, Rule] = {
    "sample": Rule(wanted=always),
    "hidden_states": Rule(wanted=always),
    "x": Rule("in_channels@channels 1@frames height width", packing.rows_of(packing.noise), always),
    **dict.fromkeys(("timestep", "timesteps", "t"), TIME),
    "decoder_noise_time": TIME,
    "r_timestep": Rule("told:timestep|batch", packing.of_one(0), always),
    "timestep_r": Rule("batch", packing.of_one(1), has("use_meanflow")),
    "encoder_hidden_states": TEXT,
    "encoder_hidden_states_2": Rule("batch words_2 own", wanted=reads("encoder_hidden_states_2")),
    "encoder_hidden_states_t5": Rule("batch words_2 own", wanted=reads("encoder_hidden_states_t5")),
    "encoder_hidden_states_image": Rule("image_batch image_words own", wanted=reads("encoder_hidden_states_image")),
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
    "pooled_projections": Rule("batch own|pooled_width", wanted=has("pooled_projection_dim")),
    "additional_t_cond": Rule("batch", packing.whole(0), has("use_additional_t_cond")),
    "ofs": Rule("1", packing.of_one(2.0), has("ofs_embed_dim")),
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
    "fps": Rule("1", packing.constant(16), has("rope_scale")),
    "text_encoder_layers": Rule("batch words text_encoder_dim", packing.list_of_layers, always),
    "control_hidden_states": Rule(wanted=always),
    "pose_hidden_states": Rule("batch own@channels frames-1@frames height width", wanted=always),
    "face_pixel_values": Rule("batch 3@channels face_frames@frames face_side face_side", wanted=always),
}
"""An argument is made by the rule of its name, whatever the model."""
