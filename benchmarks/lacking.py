"""What families lack among their default settings, and why some are drawn by blocks as they compute."""

from collections.abc import Mapping
from typing import Any

HEAD_DIM = {"head_dim": 128}
IN_ONE_ROW = {"image_token_id": 248_056, "vision_config": {"image_size": 256, "patch_size": 16}}
MROPE = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10_000.0,
        "partial_rotary_factor": 0.5,
        "mrope_section": [8, 12, 12],
    }
}
WIDE_MROPE = {**HEAD_DIM, **MROPE}
XD_ROPE = {**HEAD_DIM, "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [16] * 4}}
ROPE_BY_LAYER = {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10_000.0}}}
SPARSE = {
    "indexer_n_heads": 8,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
}
FORECAST = {"prediction_length": 24, "num_static_categorical_features": 1, "cardinality": [5]}
LAYER_TYPES = {"layer_types": ["full_attention", "conv"] * 16}
RF_DETR = {
    "model_type": "rf_detr_dinov2",
    "hidden_size": 384,
    "num_attention_heads": 6,
    "image_size": 560,
    "out_features": ["stage2", "stage5", "stage8", "stage11"],
}
SEEN_AS = {
    "qwen2_5_vl": 8192,
    "exaone4_5": 4096,
    "qwen3_5": 4096,
    "qwen3_5_moe": 2048,
    "qwen3_vl": 4096,
    "qwen3_vl_moe": 2048,
    "glm_ocr": 1024,
    "cosmos3_omni": 4096,
}
"""How wide rows of images have to be for the words of a family, where its defaults for the two do not fit."""
SPOKEN = {"projector_config": {"model_type": "blip_2_qformer", "encoder_hidden_size": 1024}}
SIDE_256, SIDE_512 = {"vision_config": {"image_size": 256}}, {"vision_config": {"image_size": 512}}
SIDE_512_PLAIN = {"vision_config": {"image_size": 512, "vision_use_head": False}}
VISUAL_TOKENS = {f"<|visual token {place:06d}|>": 151_854 + place for place in range(32_768)}
LACKING: Mapping[str, Mapping[str, Any]] = {
    "autoformer": FORECAST,
    "informer": FORECAST,
    "time_series_transformer": FORECAST,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
    "hunyuan_v1_dense": HEAD_DIM,
    "hunyuan_v1_moe": HEAD_DIM,
    "hunyuan_vl_text": XD_ROPE,
    "hunyuan_vl": {"text_config": XD_ROPE},
    "ministral": HEAD_DIM,
    "glm4v_text": MROPE,
    "glm_image_text": MROPE,
    "glm4v": {"text_config": MROPE},
    "glm46v": {"text_config": {"model_type": "glm4v_text", **MROPE}},
    "glm4v_moe_text": WIDE_MROPE,
    "glm4v_moe": {"text_config": WIDE_MROPE},
    "glmga": {"text_config": {"model_type": "glm4v_text", **MROPE}},
    "glm_image": {"text_config": MROPE},
    "cohere_compass_text": ROPE_BY_LAYER,
    "cohere_compass": {"text_config": ROPE_BY_LAYER, "vision_config": {"out_hidden_size": 8192}},
    **{family: {"vision_config": {"out_hidden_size": width}} for family, width in SEEN_AS.items()},
    "qwen3_asr": {"audio_config": {"output_dim": 2048}},
    "ovis2": {"hidden_size": 4096},
    "janus": {"text_config": {"hidden_size": 2048, "num_attention_heads": 16, "intermediate_size": 5632}},
    "aria": {"vision_config": {"model_type": "idefics3_vision", "image_size": 490, "patch_size": 14}},
    "idefics3": SIDE_256,
    "smolvlm": SIDE_256,
    "modernvbert": SIDE_512,
    "ultravbert": SIDE_512_PLAIN,
    "qwen2_vl": {"vision_config": {"hidden_size": 8192}},
    "voxtral": {"audio_token_id": 24},
    "dbrx": {"attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500_000.0}},
    "qwen4_exp_text": SPARSE,
    "qwen4_exp": {"text_config": SPARSE, "vision_config": {"out_hidden_size": 2048}},
    "qwen3_omni_moe_thinker": {
        "text_config": HEAD_DIM,
        "vision_config": {"out_hidden_size": 2048},
        "audio_config": {"output_dim": 2048},
    },
    "moonshine_streaming": {"num_key_value_heads": 8},
    "lw_detr": {"projector_scale_factors": [1.0]},
    "nemotron": {"num_key_value_heads": 8},
    "dots1": {"n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "deepseek_v2": {"num_experts_per_tok": 6, "n_group": 8, "topk_group": 3},
    "lfm2_moe": LAYER_TYPES,
    "reformer": {"is_decoder": True},
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    **dict.fromkeys(("granite_speech", "granite_speech_plus"), SPOKEN),
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}, "vision_config": {"image_size": 896, "patch_size": 14}},
    "granitemoehybrid": {"layer_types": (["mamba"] * 7 + ["attention"]) * 4},
    "glm5_next": {"vision_config": {"out_hidden_size": 4096}},
    "step3p7": {"text_config": {"sliding_window": 512, "vocab_size": 151_936}},
    "minicpm_ocr": {"image_token_id": 248_056},
    **dict.fromkeys(("minicpmv4_6", "minicpmv4_7"), IN_ONE_ROW),
    "chameleon": {"vocabulary_map": {"<image>": 8711}},
    "emu3": {"vocabulary_map": {"<image>": 151646, "<|extra_200|>": 151846, **VISUAL_TOKENS}},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 16}},
    "rf_detr": {"backbone_config": RF_DETR},
    "xmod": {"default_language": "en_XX"},
    "blip-2": {"image_token_index": 50265},
    "instructblipvideo": {"video_token_index": 32000},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense"] + ["sparse"] * 31}},
    "instructblip": {"image_token_index": 32000},
    "diffusion_gemma": {"text_config": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 704}},
}
"""Settings that a family has no default for, or whose defaults do not fit together; published models bring them."""
CHOSEN_DEPTH = "what a layer reads is chosen by attention over what earlier blocks gave, so no one stream goes through"
BACKBONE = "convolutions, each behind the other; its attention is in the class with a head"
REASONS: Mapping[str, str] = {
    "inkling2": CHOSEN_DEPTH,
    "inkling2_text": CHOSEN_DEPTH,
    "encodec": "convolutions and recurrent cells, in stages of different width",
    "mobilenet_v1": "convolutions, each behind the other, without a sum",
    "mra": "attention in blocks that are chosen by their scores, weighed without a softmax over all of them",
    "pp_ocrv6_small_rec": BACKBONE,
    "pp_ocrv6_tiny_rec": BACKBONE,
    "reformer": "reversible layers: two streams, inside an autograd function of their own",
}
"""Why families are drawn by blocks, as they compute."""
DIFFUSERS_LACKING: Mapping[str, Mapping[str, Any]] = {
    "HunyuanDiT2DModel": {
        "num_attention_heads": 16,
        "attention_head_dim": 88,
        "in_channels": 4,
        "patch_size": 2,
        "sample_size": 128,
        "hidden_size": 1408,
        "num_layers": 40,
        "mlp_ratio": 4.3637,
        "cross_attention_dim": 1024,
        "cross_attention_dim_t5": 2048,
        "learn_sigma": True,
        "pooled_projection_dim": 1024,
        "text_len": 77,
        "text_len_t5": 256,
        "use_style_cond_and_image_meta_size": True,
    },
    "PixArtTransformer2DModel": {
        "num_attention_heads": 16,
        "attention_head_dim": 72,
        "in_channels": 4,
        "out_channels": 8,
        "num_layers": 28,
        "cross_attention_dim": 1152,
        "attention_bias": True,
        "sample_size": 128,
        "patch_size": 2,
        "norm_type": "ada_norm_single",
        "caption_channels": 4096,
        "interpolation_scale": 2,
    },
    "EasyAnimateTransformer3DModel": {
        "in_channels": 16,
        "out_channels": 16,
        "patch_size": 2,
        "text_embed_dim": 3584,
        "add_norm_text_encoder": True,
        "num_layers": 48,
        "mmdit_layers": 48,
    },
    "HiDreamImageTransformer2DModel": {
        "patch_size": 2,
        "in_channels": 16,
        "out_channels": 16,
        "num_layers": 16,
        "num_single_layers": 32,
        "attention_head_dim": 128,
        "num_attention_heads": 20,
        "caption_channels": [4096, 4096],
        "text_emb_dim": 2048,
        "num_routed_experts": 4,
        "num_activated_experts": 2,
        "axes_dims_rope": [64, 32, 32],
        "max_resolution": [128, 128],
        "llama_layers": [*range(32), *[31] * 16],
    },
    "LatteTransformer3DModel": {
        "num_attention_heads": 16,
        "attention_head_dim": 72,
        "in_channels": 4,
        "out_channels": 8,
        "num_layers": 28,
        "cross_attention_dim": 1152,
        "attention_bias": True,
        "sample_size": 64,
        "patch_size": 2,
        "activation_fn": "gelu-approximate",
        "num_embeds_ada_norm": 1000,
        "norm_type": "ada_norm_single",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-06,
        "caption_channels": 4096,
        "video_length": 16,
    },
    "LuminaNextDiT2DModel": {
        "hidden_size": 2304,
        "num_layers": 24,
        "num_attention_heads": 32,
        "num_kv_heads": 8,
        "cross_attention_dim": 2048,
    },
    "OmniGenTransformer2DModel": {
        "rope_scaling": {"type": "su", "long_factor": [1.0] * 48, "short_factor": [1.0] * 48}
    },
    "DreamLiteTransformer2DModel": {
        "in_channels": 320,
        "num_attention_heads": 5,
        "attention_head_dim": 64,
        "cross_attention_dim": 768,
        "norm_num_groups": 32,
    },
    "Transformer2DModel": {
        "in_channels": 320,
        "num_attention_heads": 8,
        "attention_head_dim": 40,
        "cross_attention_dim": 768,
        "norm_num_groups": 32,
        "norm_type": "layer_norm",
    },
    "TransformerTemporalModel": {
        "in_channels": 320,
        "num_attention_heads": 8,
        "attention_head_dim": 40,
        "norm_num_groups": 32,
        "positional_embeddings": "sinusoidal",
        "num_positional_embeddings": 32,
    },
    "HunyuanVideoFramepackTransformer3DModel": {
        "has_image_proj": True,
        "image_proj_dim": 1152,
        "has_clean_x_embedder": True,
    },
}
"""Settings that a class of diffusers has no default for, or whose defaults do not fit together."""
DIFFUSERS_REASONS: Mapping[str, str] = {}
"""Why models of diffusers are drawn by blocks, as they compute."""
