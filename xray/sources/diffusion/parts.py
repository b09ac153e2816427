"""Rules for the parts of a pipeline of diffusers around its transformer: U-Nets, controls, encoders, autoencoders."""

from collections.abc import Mapping

from xray.sources.diffusion import conditions, packing
from xray.sources.diffusion.manners import MANNERS
from xray.sources.diffusion.needs import FRAMES, Needs
from xray.sources.diffusion.rules import RULES, TEXT, Rule, When, always, has, never, takes
from xray.sources.diffusion.samples import FILM, list_controls, list_large, list_samples

Rules = Mapping[str, Rule]


def list_text_widths(needs: Needs) -> list[int]:
    """How wide each of the texts is at which the layers of a block look in turn, where the settings list them."""
    of_blocks = needs.setting("cross_attention_dim")
    first = of_blocks[0] if isinstance(of_blocks, (list, tuple)) and of_blocks else None
    return [one for one in first if one] if isinstance(first, (list, tuple)) else []


def looks_at_itself(needs: Needs) -> bool:
    """Whether a U-Net has no text to look at, as the settings tell of its own widths in place of that of one."""
    widths = needs.setting("cross_attention_dim")
    return isinstance(widths, (list, tuple)) and list(widths) == list(needs.setting("block_out_channels") or ())


def list_texts(needs: Needs) -> tuple[str, ...]:
    """The words for the shape of a text: one for each of a batch, or for each frame of each film."""
    width = next(iter(list_text_widths(needs)), "own|text_width")
    return f"batch words {width}", f"batch*frames words {width}"


MASK, SECOND_MASK = Rule("batch words", packing.whole(1), always), Rule("batch words_2", packing.whole(1), always)
SECONDS = Rule("batch", packing.of_one(10.0), always)
NETS: Rules = {
    "sample": Rule(list_samples, wanted=always),
    "encoder_hidden_states": Rule(list_texts, wanted=TEXT.wanted),
    "encoder_hidden_states_1": Rule(
        lambda needs: (f"batch words_2 {list_text_widths(needs)[-1]}",), wanted=list_text_widths
    ),
    "encoder_attention_mask_1": Rule("batch words_2", packing.whole(1), list_text_widths),
    "class_labels": Rule(conditions.spell_label, conditions.label, has("num_class_embeds", "class_embed_type")),
    "added_cond_kwargs": Rule("batch", conditions.added, has("addition_embed_type", "encoder_hid_dim_type")),
    "added_time_ids": Rule("batch 3", packing.of_one(1.0)),
    "timestep_cond": Rule("batch time_cond_proj_dim", wanted=has("time_cond_proj_dim")),
    "num_frames": Rule("1", lambda needs, name, shape: FRAMES, always),
    "conditioning_mask": Rule(
        lambda needs: tuple(spell_one_channel(one) for one in list_controls(needs)),
        packing.of_one(1.0),
        has("concat_conditioning_mask"),
    ),
    "control_type": Rule("batch num_control_type", packing.of_one(1.0)),
    "control_type_idx": Rule("1", conditions.sequence_of(lambda needs, name, shape: 0)),
    "timestep_ratio": Rule("batch", packing.of_one(0.5)),
    "clip_text_pooled": Rule("batch 1 own"),
    "clip_text": Rule("batch words clip_text_in_channels", wanted=has("clip_text_in_channels")),
    "clip_img": Rule("batch 1 clip_image_in_channels", wanted=has("clip_image_in_channels")),
    "effnet": Rule("batch effnet_in_channels height width", wanted=has("effnet_in_channels")),
    "image_latents": Rule(list_samples),
    "image_embeddings": Rule("batch own", wanted=always),
    "fps": Rule("batch", packing.whole(8)),
}
"""What takes a sample: U-Nets, the controls of such, and autoencoders."""
CONTROLS: Rules = {
    "controlnet_cond": Rule(list_controls, conditions.listed(packing.noise), always),
    "controlnet_mode": Rule("batch 1", packing.whole(0), has("num_mode")),
}
"""What controls a transformer or a U-Net by an image of edges, depths and the like."""
WORLD_CONTROLS: Rules = {
    "controls_latents": Rule("batch latent_channels-2@channels frames height width"),
    "latents": Rule("batch latent_channels-2@channels frames height width"),
    "condition_mask": Rule("batch 1 frames height width", packing.of_one(1.0)),
    "padding_mask": Rule("1 1 height width", packing.of_one(0.0), always),
}
"""The control of a model of worlds, which is given what it controls as well."""
ENCODERS: Rules = {
    "inputs_embeds": Rule("batch num_codebooks own"),
    "text_hidden_states": Rule("batch words own|text_encoder_dim", wanted=always),
    "text_attention_mask": MASK,
    "lyric_hidden_states": Rule("batch words_2 own"),
    "lyric_attention_mask": SECOND_MASK,
    "refer_audio_acoustic_hidden_states_packed": Rule("batch ticks own"),
    "refer_audio_order_mask": Rule("batch", conditions.counting),
    "source_hidden_states": Rule("batch words_2 own"),
    "source_attention_mask": SECOND_MASK,
    "target_input_ids": Rule("batch words", conditions.words),
    "target_attention_mask": MASK,
    "seconds": SECONDS,
    "start_seconds": SECONDS,
    "end_seconds": SECONDS,
}
"""What makes a text, a sound or a length of time ready for the model that it guides."""
TOGETHER: Rules = {
    "encoder_hidden_states": Rule(wanted=never),
    "latent_image_embeds": Rule(lambda needs: needs.latents("latent_image_embeds")),
    "image_embeds": Rule("batch 1 own"),
    "prompt_embeds": Rule("batch num_text_tokens own"),
    "timestep_img": Rule("batch", packing.of_one(1)),
    "timestep_text": Rule("batch", packing.of_one(1)),
}
"""What makes an image and a text at a time."""
DECODERS: Rules = {
    "z": Rule("batch latent_channels@channels 3@frames 8@height 8@width"),
    "mel": Rule("batch own ticks"),
    "prefix_embeds": Rule("batch prefix_length own"),
    "input_ids": Rule("batch words", conditions.words),
}
"""What makes an image, a sound or a text of what another model made."""
PROTEINS: Rules = {
    "z_latent": Rule("batch residues latent_dim"),
    "ca_coors_nm": Rule("batch residues 3"),
    "padding_mask": Rule("batch residues", packing.whole(1)),
    "token_type": Rule("batch residues", packing.whole(0), always),
    "conditioning": Rule("batch residues", conditions.residues_alone, always),
}
"""What makes the atoms of a protein."""
MARKS: tuple[tuple[When, Rules], ...] = (
    (lambda needs: set(needs.parameters) == {"x"} and needs.width("x") is not None, {"x": Rule("batch own")}),
    (takes("sample"), NETS),
    (looks_at_itself, {"encoder_hidden_states": Rule("1", lambda needs, name, shape: None, always)}),
    (takes("controlnet_cond"), CONTROLS),
    (takes("controls_latents"), WORLD_CONTROLS),
    (takes(*ENCODERS), ENCODERS),
    (takes("latent_image_embeds"), TOGETHER),
    (takes("z", "mel", "prefix_embeds"), DECODERS),
    (takes("ca_coors_nm"), PROTEINS),
    (takes("scale"), {"latents": Rule(FILM), "scale": Rule("1", conditions.first_of("scales"))}),
    (has("upsampling_ratios"), {"latents": Rule("batch latent_channels@channels ticks")}),
    (has("pool_window_size"), {"hidden_states": Rule("batch places own or batch places pool_window_size own")}),
    (has("condition_hidden_dim"), {"hidden_states": Rule("batch ticks num_condition_layers*condition_hidden_dim")}),
    (
        takes("hidden_states_1"),
        {
            "hidden_states": Rule("batch 1 own"),
            "attention_mask": Rule("batch 1", packing.whole(1), always),
            "hidden_states_1": Rule("batch words own", wanted=always),
            "attention_mask_1": MASK,
        },
    ),
    (has("adapter_type"), {"x": Rule(list_large)}),
    (has("redux_dim"), {"x": Rule("batch words own")}),
)
"""By what a model tells that it is such a part, and the rules for that: the later ones come first."""


def spell_one_channel(words: str) -> str:
    """The words for a mask of latents of such a shape."""
    batch, _, *places = words.split()
    return " ".join((batch, "1", *places))


def choose_rules(needs: Needs) -> Rules:
    """The rules for the arguments of one model."""
    chosen = dict(RULES)
    for is_such, rules in (*MANNERS, *MARKS):
        if is_such(needs):
            chosen |= rules
    return chosen
