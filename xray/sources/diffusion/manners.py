"""Rules for models of diffusers that are given things in another way, which they tell by an argument or a setting."""

from collections.abc import Mapping

from torch import nn

from xray.sources.diffusion import packing
from xray.sources.diffusion.needs import Needs
from xray.sources.diffusion.rules import MASK, TIME, Rule, When, always, has, never, reads, takes, takes_all

JOINT_MASK: Mapping[str, Rule] = {"attention_mask": Rule("batch words+places", packing.truth(True), always)}
"""For models that are given a mask of the words and the places of an image as one."""
TEXT_MASK: Mapping[str, Rule] = {"attention_mask": Rule("batch words", packing.truth(True), always)}
"""For models that call that of the words so."""
FILM_TURNED: Mapping[str, Rule] = {"image_rotary_emb": Rule("head", packing.film_rotations, always)}
"""For models that are given the rotations of frames, rows and columns, and which of them each place has."""
ROWS_OF_TEXT: Mapping[str, Rule] = {
    "encoder_hidden_states": Rule("batch words num_text_layers text_hidden_dim", wanted=always),
    "position_ids": Rule("words+places 3", packing.joint_places),
}
"""For models that are given the text as several layers of an encoder gave it."""
INJECTED: Mapping[str, Rule] = {
    "encoder_hidden_states": Rule("batch injections+1 words cap_feat_dim", wanted=always),
}
"""The same where some layers read one each of them."""
CAMERAS: Mapping[str, Rule] = {
    "timestep": Rule("batch 1 frames", packing.of_one(1), always),
    "camera_conditions": Rule("batch frames 20", wanted=always),
    "chunk_plucker": Rule("batch own@channels frames height width", wanted=reads("chunk_plucker")),
}
"""For films seen by a camera that moves."""
PROTEINS: Mapping[str, Rule] = {
    "bb_ca": Rule("batch residues 3"),
    "local_latents": Rule("batch residues latent_dim"),
    "bb_ca_time": Rule("batch", packing.of_one(0.5)),
    "local_latents_time": Rule("batch", packing.of_one(0.5)),
    "padding_mask": Rule("batch residues", packing.truth(True)),
    "token_type": Rule("batch residues", packing.whole(0), always),
    "atom37_mask": Rule("batch residues 37", packing.truth(True), always),
    "conditioning": Rule("batch residues", packing.one_chain, always),
}
"""For models of proteins: places of residues, and what is known of the chain."""
BESIDE: Mapping[str, Rule] = {"encoder_hidden_states": Rule("batch ticks condition_dim", wanted=always)}
"""For models in which what guides stands beside each frame of a sound."""
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
    "audio_encoder_attention_mask": MASK,
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
    "encoder_attention_mask": Rule(wanted=never),
    "rotary_embedding": Rule("ticks+1 half_head", packing.rotary_pair, always),
}
"""For sounds of which a row tells all, such as how long they are."""
PRIOR: Mapping[str, Rule] = {
    "hidden_states": Rule("batch own or batch num_embeddings own", wanted=always),
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
    "attention_mask": Rule("batch words+latent_places+1 words+latent_places+1", packing.words_then_image),
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
    "latents_history_short": Rule("batch in_channels@channels 2@frames height width", wanted=always),
    "latents_history_mid": Rule("batch in_channels@channels 2@frames height width", wanted=always),
    "latents_history_long": Rule("batch in_channels@channels 16@frames height width", wanted=always),
}
"""For films that go on from what was seen a moment ago, before that, and long ago."""
FRAMES_BEFORE: Mapping[str, Rule] = {
    "indices_latents": Rule("frames", packing.counting_from(20)),
    "latents_clean": Rule("batch in_channels@channels 2@frames height width", wanted=has("has_clean_x_embedder")),
    "indices_latents_clean": Rule("2", packing.counting_from(18), has("has_clean_x_embedder")),
    "latents_history_2x": Rule("batch in_channels@channels 2@frames height width", wanted=has("has_clean_x_embedder")),
    "indices_latents_history_2x": Rule("2", packing.counting_from(16), has("has_clean_x_embedder")),
    "latents_history_4x": Rule("batch in_channels@channels 16@frames height width", wanted=has("has_clean_x_embedder")),
    "indices_latents_history_4x": Rule("16", packing.counting_from(0), has("has_clean_x_embedder")),
}
"""The same in other words."""
CHUNKS: Mapping[str, Rule] = {
    "hidden_states": Rule("batch frames in_channels@channels height width", wanted=always),
    "timestep": Rule("batch frames", packing.of_one(1), always),
    "r_timestep": Rule("batch frames", packing.of_one(0), always),
    "chunk_partition": Rule("frames", packing.chunks),
}
"""For films that are made a few frames at a time."""
FILMED_SOUND: Mapping[str, Rule] = {
    "encodings_and_masks": Rule("batch words d_model", packing.masked_pairs),
    "decoder_input_tokens": Rule("batch targets_length input_dims"),
}
"""For spectrograms made from encodings, each with a mask."""
TURNED: Mapping[str, Rule] = {
    "image_rotary_emb": Rule("384 384 own_head", packing.turned),
    "cross_attention_kwargs": Rule("0", packing.nothing(dict), always),
}
"""For models that are given the rotations of all places of a large image, as complex numbers."""
ONE_SEQUENCE: Mapping[str, Rule] = {
    "hidden_states": Rule("batch places own", wanted=always),
    "audio_hidden_states": Rule("batch ticks own", wanted=always),
    "timestep": Rule("2", packing.of_one(0.5), always),
    "timestep_indices": Rule("words+places+ticks", packing.tagged(1, 0, 0)),
    "token_tags": Rule("words+places+ticks", packing.tagged(1, 0, 2)),
    "position_ids": Rule("words+places+ticks 3", packing.counting_rows),
    "text_indices": Rule("words", packing.counting),
    "video_indices": Rule("places", packing.counting_behind("words")),
    "audio_indices": Rule("ticks", packing.counting_behind("words", "places")),
}
"""For models that lay words, films and sounds into one sequence, and are told what is where."""
OMNI: Mapping[str, Rule] = {
    "input_ids": Rule("words", packing.whole(5)),
    "text_indexes": Rule("words", packing.counting),
    "position_ids": Rule("3 words+film_places", packing.counting),
    "und_len": Rule("1", packing.size_of("words")),
    "sequence_length": Rule("1", packing.size_of("words+film_places")),
    "vision_tokens": Rule("1 latent_channel@channels frames height width", packing.listed(packing.noise)),
    "vision_token_shapes": Rule("1", packing.listed(packing.film_shape)),
    "vision_sequence_indexes": Rule("film_places", packing.counting_behind("words")),
    "vision_mse_loss_indexes": Rule("film_places", packing.counting_behind("words")),
    "vision_timesteps": Rule("film_places", packing.of_one(1.0)),
    "vision_noisy_frame_indexes": Rule("frames", packing.listed(packing.counting)),
}
"""For models that read a text, and behind it a film, as one sequence without a batch."""
REFERENCES: Mapping[str, Rule] = {
    "hidden_states": Rule("16@channels frames height width", packing.rows_of(packing.noise), always),
    "condition_latents": Rule("in_channels-16@channels frames height width", packing.rows_of(packing.noise)),
    "encoder_hidden_states": Rule("words text_width", packing.rows_of(packing.noise)),
    "encoder_hidden_states_image": Rule("batch image_words own", wanted=has("use_img_emb")),
    "kv_cache": Rule("1", packing.cache_of_layers),
    "kv_cache_mode": Rule("1", packing.constant("extract")),
    "seq_len": Rule("1", packing.size_of("film_places")),
    "offset_grid_sizes": Rule("batch 3", packing.film_shapes, always),
}
"""For models whose pass over a reference is kept for those that follow."""
REFINER: Mapping[str, Rule] = {"video_rotary_emb": Rule("batch places inner", packing.rotary_pair)}
"""For models that are given the rotations of all heads side by side."""


def is_beside_frames(needs: Needs) -> bool:
    """Whether a convolution over time is the first to read the text."""
    return isinstance(needs.reading("encoder_hidden_states").layer, nn.Conv1d)


MANNERS: tuple[tuple[When, Mapping[str, Rule]], ...] = (
    (takes("indicator"), INDICATED),
    (takes_all("txt_ids", "attention_mask"), JOINT_MASK),
    (takes("audio_hidden_states"), SOUNDS),
    (takes("token_tags"), ONE_SEQUENCE),
    (takes("visual_rope_pos"), KANDINSKY),
    (takes_all("context_latents", "timestep_r"), MUSIC),
    (takes("local_add_cond"), GLOBAL),
    (takes("rotary_embedding"), GLOBAL_ROW),
    (takes("proj_embedding"), PRIOR),
    (takes("img_mask"), LISTED),
    (takes("micro_conds"), LATENT_WORDS),
    (takes("encoder_hidden_states_llama3"), STACKED),
    (takes("input_img_latents"), MIXED),
    (takes("shape_list"), PIECES),
    (takes("latents_history_short"), HISTORY),
    (takes("indices_latents"), FRAMES_BEFORE),
    (takes("chunk_partition"), CHUNKS),
    (takes("encodings_and_masks"), FILMED_SOUND),
    (takes("encoder_mask"), TURNED),
    (takes("vision_tokens"), OMNI),
    (takes_all("condition_latents", "kv_cache"), REFERENCES),
    (takes("video_rotary_emb"), REFINER),
    (takes("camera_conditions"), CAMERAS),
    (takes("bb_ca"), PROTEINS),
    (is_beside_frames, BESIDE),
    (has("num_text_layers"), ROWS_OF_TEXT),
    (has("injection_layer_ids"), INJECTED),
    (has("video_length"), {"encoder_attention_mask": Rule(wanted=never)}),
    (has("context_in_dim"), TEXT_MASK),
    (has("interpolation_scale_h"), FILM_TURNED),
    (has("double_self_attention"), {"encoder_hidden_states": Rule(wanted=never)}),
)
"""By what a model tells that it is given things in another way, and the rules for that."""
