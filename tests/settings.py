"""Settings of small models, as a config.json has them: every size another number, so that none is taken for another."""

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 24,
    "intermediate_size": 53,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "vocab_size": 61,
    "dtype": "bfloat16",
}
JETMOE = {
    "architectures": ["JetMoeForCausalLM"],
    "model_type": "jetmoe",
    "hidden_size": 24,
    "intermediate_size": 53,
    "num_hidden_layers": 2,
    "num_key_value_heads": 3,
    "kv_channels": 8,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 61,
}
T5 = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "d_model": 21,
    "d_kv": 7,
    "d_ff": 37,
    "num_layers": 2,
    "num_heads": 3,
    "vocab_size": 61,
    "is_encoder_decoder": True,
    "decoder_start_token_id": 0,
}
VIT = {
    "architectures": ["ViTForImageClassification"],
    "model_type": "vit",
    "hidden_size": 21,
    "intermediate_size": 37,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "image_size": 12,
    "patch_size": 4,
}
LLAVA = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 60,
    "text_config": {**LLAMA, "dtype": "float32"},
    "vision_config": {**VIT, "model_type": "clip_vision_model", "num_attention_heads": 3},
}
DEEPSEEK = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 24,
    "intermediate_size": 53,
    "moe_intermediate_size": 11,
    "num_hidden_layers": 2,
    "first_k_dense_replace": 1,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "n_routed_experts": 6,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 9,
    "q_lora_rank": 13,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "vocab_size": 61,
}
WORDS_OF = {"vocab_size": 61, "hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2}
WORDS_OF |= {"num_attention_heads": 3, "num_key_value_heads": 3, "pad_token_id": 0}
SEEN = {"hidden_size": 24, "intermediate_size": 37, "num_hidden_layers": 2, "num_attention_heads": 3}
SEEN |= {"image_size": 12, "patch_size": 4}
LLAVA_NEXT = {
    "architectures": ["LlavaNextForConditionalGeneration"],
    "model_type": "llava_next",
    "image_token_index": 60,
    "image_grid_pinpoints": [[12, 24], [24, 12]],
    "text_config": {**WORDS_OF, "model_type": "llama"},
    "vision_config": {**SEEN, "model_type": "clip_vision_model"},
}
IDEFICS = {
    "architectures": ["Idefics3ForConditionalGeneration"],
    "model_type": "idefics3",
    "image_token_id": 60,
    "scale_factor": 2,
    "text_config": {**WORDS_OF, "model_type": "llama"},
    "vision_config": {**SEEN, "image_size": 16, "model_type": "idefics3_vision"},
}
MLLAMA = {
    "architectures": ["MllamaForConditionalGeneration"],
    "model_type": "mllama",
    "image_token_index": 60,
    "text_config": {
        **WORDS_OF,
        "num_hidden_layers": 3,
        "cross_attention_layers": [1],
        "model_type": "mllama_text_model",
    },
    "vision_config": {
        "attention_heads": 3,
        "hidden_size": 24,
        "image_size": 12,
        "intermediate_layers_indices": [0, 1],
        "intermediate_size": 37,
        "max_num_tiles": 4,
        "model_type": "mllama_vision_model",
        "num_global_layers": 1,
        "num_hidden_layers": 2,
        "patch_size": 4,
        "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1], [2, 2]],
        "vision_output_dim": 72,
    },
}
KOSMOS = {
    "architectures": ["Kosmos2_5ForConditionalGeneration"],
    "model_type": "kosmos-2.5",
    "latent_query_num": 7,
    "text_config": {"attention_heads": 3, "embed_dim": 24, "ffn_dim": 37, "layers": 2, "vocab_size": 61},
    "vision_config": {
        "head_dim": 8,
        "hidden_size": 24,
        "image_size": 12,
        "intermediate_size": 37,
        "max_num_patches": 10,
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "patch_embed_hidden_size": 48,
        "patch_size": 4,
    },
}
GRANITE_DOCLING = {
    "architectures": ["GraniteDoclingForConditionalGeneration"],
    "model_type": "granite_docling",
    "image_token_id": 60,
    "text_config": {**WORDS_OF, "model_type": "granite_docling_text"},
    "vision_config": {
        "deepstack_visual_indexes": [0],
        "hidden_size": 24,
        "image_size": 16,
        "intermediate_size": 37,
        "model_type": "granite_docling_vision",
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "patch_size": 4,
        "out_hidden_size": 24,
    },
}
QWEN_AUDIO = {
    "architectures": ["Qwen2AudioForConditionalGeneration"],
    "model_type": "qwen2_audio",
    "audio_token_id": 60,
    "text_config": {**WORDS_OF, "model_type": "qwen2"},
    "audio_config": {
        "d_model": 24,
        "encoder_attention_heads": 3,
        "encoder_ffn_dim": 37,
        "encoder_layers": 2,
        "max_source_positions": 20,
        "model_type": "qwen2_audio_encoder",
        "num_mel_bins": 8,
    },
}
