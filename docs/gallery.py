"""What hangs in the gallery: a title, a few words and the recipe of every picture, which is run as it stands there."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Picture:
    """A file in docs/pictures, and how it is made.

    A console recipe is one line that ends in a picture; Python leaves the bytes of a PNG in `picture`.
    """

    file: str
    title: str
    text: str
    source: str
    language: Literal["console", "python"] = "console"


def of_example(name: str, title: str, text: str, more: str = "") -> Picture:
    """The drawing of a model in examples/."""
    return Picture(f"{name}.webp", title, text, f"xray trace examples/{name}.py:build{more} -o {name}.png")


def of_family(name: str, title: str, text: str) -> Picture:
    """The drawing of a family of transformers by its settings alone, in examples/families."""
    return Picture(f"{name}.webp", title, text, f"xray trace examples/families/{name} -o {name}.png")


PICTURES = (
    Picture(
        "poster_dark.webp",
        "The poster",
        "A training step, and beside it an answer, of the science-fiction chatbot.",
        "xray trace -o poster_dark.png",
    ),
    Picture(
        "poster_light.webp",
        "For printing",
        "The same in the light theme.",
        "xray trace --theme light -o poster_light.png",
    ),
    Picture(
        "training.webp",
        "Training alone",
        "Eight pairs at once, teacher forcing, the loss, and the way back.",
        "xray trace --phase training -o training.png",
    ),
    Picture(
        "inference.webp",
        "An answer alone",
        "One question, encoded once; the decoder runs once for each word.",
        'xray trace --phase inference --ask "Who is Ripley?" -o inference.png',
    ),
    Picture(
        "kv_cache.webp",
        "An answer with a key-value cache",
        "One query row in each turn, keys and values that grow, and what that saves.",
        'xray trace --phase inference --ask "Who is Ripley?" --kv-cache -o kv_cache.png',
    ),
    Picture(
        "attention.webp",
        "Who looks at whom",
        "Cross-attention in all layers and heads: a row asks, a column is asked.",
        'xray attention "Who is Ripley?" -o attention.png',
    ),
    of_example("nn_transformer", "torch.nn.Transformer", "PyTorch's own encoder-decoder, with padding masks."),
    of_example("t5", "T5", "No positions are added; a bias of the scores tells how far apart two words are."),
    of_example("bart", "BART", "Encoder and decoder, with learnt positions."),
    of_example("marian", "Marian", "A translator."),
    of_example("bert", "BERT", "An encoder alone: every word sees every other one."),
    of_example("vit", "ViT", "An encoder for images: a convolution cuts the picture into patches."),
    of_example("gpt2", "GPT-2", "A decoder alone: no word sees a later one."),
    Picture(
        "gpt2_writes.webp",
        "GPT-2, writing",
        "A run of `generate()` in one picture: one place asks in each turn, keys and values grow.",
        "import xray\nfrom examples.gpt2 import write\n\npicture = xray.render(write(4), 'png')",
        "python",
    ),
    of_example("llama", "Llama", "Rotary positions, and several heads of queries for each head of keys."),
    of_example(
        "llama_405b",
        "A model that fits no machine",
        "126 layers, 16,384 wide, recorded without storage.",
        more=" --meta",
    ),
    of_example("whisper", "Whisper", "Sound in, words out: convolutions before the encoder."),
    of_family("mixtral", "Mixtral", "Experts: a router sends each place to two of eight."),
    of_family(
        "deepseek_v3",
        "DeepSeek-V3",
        "Latent attention through a narrow waist, which is what a cache keeps, and 256 experts beside a shared one.",
    ),
    of_family(
        "deepseek_v4",
        "DeepSeek-V4",
        "Four streams side by side, rows that stand for several places among the keys, experts chosen by a table.",
    ),
    of_family("gpt_oss", "gpt-oss", "Sinks, and windows in every other layer."),
    of_family("falcon", "Falcon", "Attention and feed-forward side by side, one key head for 71 heads of queries."),
    of_family(
        "gemma3_text",
        "Gemma 3",
        "Windows in five layers of six, here of 4 words; norms before and behind every sublayer, on queries and keys.",
    ),
    of_family(
        "swin", "Swin", "Windows that are rolled, cut, attended to and joined again, in stages of growing width."
    ),
    of_family("clip", "CLIP", "Two towers: one for images, one for words."),
    of_family(
        "qwen2_5_vl",
        "Qwen2.5-VL",
        "An image among words: windows, pieces that do not see each other, and rows put in where signs stand.",
    ),
    Picture(
        "dit.webp",
        "A diffusion transformer",
        "Adaptive norms: time and class say how much each row is scaled, shifted and let through.",
        "xray trace diffusers:examples/families/dit -o dit.png",
    ),
    of_family("mamba", "Mamba", "No attention: a state is handed on from place to place."),
    of_family("jamba", "Jamba", "State space, attention, experts and feed-forward, layer by layer."),
    of_family("qwen3_next", "Qwen3-Next", "Linear attention in three layers of four, a gate behind the others' heads."),
    of_example("lstm", "A recurrent tagger", "Not a transformer: drawn by its blocks."),
    of_example(
        "resnet", "A residual network", "No attention either, but a residual stream: convolutions are added to it."
    ),
)
