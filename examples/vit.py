"""A vision transformer, small and untrained. See inside it: xray trace examples/vit.py:build -o vit.svg"""

import torch
from torch import Tensor, nn

try:
    from transformers import ViTConfig, ViTForImageClassification
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("this example needs transformers: pip install transformers") from error


def build() -> tuple[nn.Module, dict[str, Tensor]]:
    """The model, and two pictures of 32 by 32."""
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=10,
    )
    return ViTForImageClassification(config).eval(), {"pixel_values": torch.randn(2, 3, 32, 32)}
