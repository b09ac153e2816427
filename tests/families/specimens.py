"""A small model of each family with random weights, and what to call it with; its sizes are distinct where they may be.

Importing `transformers` takes seconds, so each builder imports only the model that it builds.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

BATCH, SRC_LEN, TGT_LEN, VOCAB = 2, 11, 7, 61
WIDTH, HEADS, ENCODERS, DECODERS = 35, 5, 2, 3
"""35 wide, 5 heads, hence 7 in a head."""
EVEN_WIDTH, EVEN_HEADS = 28, 4
"""torch packs ragged tensors only where the heads are even."""
Inputs = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Specimen:
    """A family's model: `build` makes it, the same one each time; `make_inputs` gives the keywords to call it with.

    `layers` counts those of the encoder and of the decoder.
    """

    name: str
    build: Callable[[], nn.Module]
    make_inputs: Inputs
    family: str
    layers: tuple[int, int]
    scores: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The shape of the scores of each kind of attention: "encoder", "decoder", "cross"."""


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """The model with the same weights each time; the random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make()


def make_ids(length: int, seed: int) -> Tensor:
    return torch.randint(3, 57, (BATCH, length), generator=torch.Generator().manual_seed(seed))


def make_padding() -> Tensor:
    """1 for a word, 0 for padding; the second row is shorter.

    Shapes:
        out: (batch, src_len)
    """
    words = torch.ones(BATCH, SRC_LEN, dtype=torch.long)
    words[1, 8:] = 0
    return words


def source_and_target() -> dict[str, Any]:
    return {
        "input_ids": make_ids(SRC_LEN, 1),
        "attention_mask": make_padding(),
        "decoder_input_ids": make_ids(TGT_LEN, 2),
    }


def source_only() -> dict[str, Any]:
    return {"input_ids": make_ids(SRC_LEN, 1), "attention_mask": make_padding()}


class Translator(nn.Module):
    """torch.nn.Transformer between embeddings and an output layer, with the masks that its users give it."""

    def __init__(self, *, batch_first: bool = True, norm_first: bool = False) -> None:
        super().__init__()
        self.batch_first = batch_first
        self.words = nn.Embedding(VOCAB, EVEN_WIDTH)
        with warnings.catch_warnings():  # torch says where it cannot pack ragged tensors
            warnings.simplefilter("ignore")
            self.transformer = nn.Transformer(
                EVEN_WIDTH,
                EVEN_HEADS,
                ENCODERS,
                DECODERS,
                dim_feedforward=41,
                batch_first=batch_first,
                norm_first=norm_first,
            )
        self.head = nn.Linear(EVEN_WIDTH, VOCAB)

    def forward(self, src: Tensor, tgt: Tensor, src_padding: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.shape[1]).isinf()
        source, target = self.words(src), self.words(tgt)
        if not self.batch_first:
            source, target = source.transpose(0, 1), target.transpose(0, 1)
        out = self.transformer(
            source,
            target,
            tgt_mask=causal,
            src_key_padding_mask=src_padding,
            memory_key_padding_mask=src_padding,
            tgt_is_causal=True,
        )
        return self.head(out if self.batch_first else out.transpose(0, 1))


def torch_inputs() -> dict[str, Any]:
    return {"src": make_ids(SRC_LEN, 1), "tgt": make_ids(TGT_LEN, 2), "src_padding": make_padding() == 0}


def build_torch() -> nn.Module:
    return seeded(Translator)


def build_torch_length_first() -> nn.Module:
    return seeded(lambda: Translator(batch_first=False))


def build_torch_norm_first() -> nn.Module:
    return seeded(lambda: Translator(norm_first=True))


def build_t5(encoders: int = ENCODERS) -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCAB,
        d_model=WIDTH,
        d_kv=7,
        d_ff=37,
        num_layers=encoders,
        num_decoder_layers=DECODERS,
        num_heads=HEADS,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=16,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
    return seeded(lambda: T5ForConditionalGeneration(config))


ENCODER_DECODER_SIZES: dict[str, int] = {
    "vocab_size": VOCAB,
    "d_model": WIDTH,
    "encoder_layers": ENCODERS,
    "decoder_layers": DECODERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 41,
}


def build_bart() -> nn.Module:
    from transformers import BartConfig, BartForConditionalGeneration

    config = BartConfig(**ENCODER_DECODER_SIZES, max_position_embeddings=31)
    return seeded(lambda: BartForConditionalGeneration(config))


def build_marian() -> nn.Module:
    from transformers import MarianConfig, MarianMTModel

    # sinusoids want an even width
    sizes = ENCODER_DECODER_SIZES | {"d_model": 30}
    ends = {"pad_token_id": 60, "eos_token_id": 0, "decoder_start_token_id": 60, "forced_eos_token_id": 0}
    config = MarianConfig(**sizes, **ends, max_position_embeddings=31)
    return seeded(lambda: MarianMTModel(config))


def build_bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=DECODERS,
        num_attention_heads=HEADS,
        intermediate_size=41,
        max_position_embeddings=31,
    )
    return seeded(lambda: BertForMaskedLM(config))


def build_gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    ends = {"bos_token_id": 0, "eos_token_id": 60, "pad_token_id": 60}
    config = GPT2Config(vocab_size=VOCAB, n_positions=31, n_embd=WIDTH, n_layer=DECODERS, n_head=HEADS, **ends)
    return seeded(lambda: GPT2LMHeadModel(config))


def build_llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=42,
        intermediate_size=53,
        num_hidden_layers=DECODERS,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=14,
        max_position_embeddings=31,
    )
    return seeded(lambda: LlamaForCausalLM(config))


def build_vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=DECODERS,
        num_attention_heads=HEADS,
        intermediate_size=41,
        image_size=12,
        patch_size=4,
        num_labels=13,
    )
    return seeded(lambda: ViTForImageClassification(config))


def vit_inputs() -> dict[str, Any]:
    return {"pixel_values": torch.randn(BATCH, 3, 12, 12, generator=torch.Generator().manual_seed(3))}


def build_whisper() -> nn.Module:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    # sinusoids want an even width
    config = WhisperConfig(
        **(ENCODER_DECODER_SIZES | {"d_model": 30}),
        num_mel_bins=13,
        max_source_positions=SRC_LEN,
        max_target_positions=19,
        pad_token_id=60,
        bos_token_id=59,
        eos_token_id=58,
        decoder_start_token_id=57,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return seeded(lambda: WhisperForConditionalGeneration(config))


def whisper_inputs() -> dict[str, Any]:
    sound = torch.randn(BATCH, 13, 2 * SRC_LEN, generator=torch.Generator().manual_seed(3))
    return {"input_features": sound, "decoder_input_ids": make_ids(TGT_LEN, 2)}


def translation(heads: int) -> dict[str, tuple[int, ...]]:
    return {
        "encoder": (BATCH, heads, SRC_LEN, SRC_LEN),
        "decoder": (BATCH, heads, TGT_LEN, TGT_LEN),
        "cross": (BATCH, heads, TGT_LEN, SRC_LEN),
    }


def translator(name: str, build: Callable[[], nn.Module], make_inputs: Inputs, heads: int = HEADS) -> Specimen:
    return Specimen(name, build, make_inputs, "encoder-decoder", (ENCODERS, DECODERS), translation(heads))


def reader(name: str, build: Callable[[], nn.Module], make_inputs: Inputs, length: int) -> Specimen:
    scores = {"encoder": (BATCH, HEADS, length, length)}
    return Specimen(name, build, make_inputs, "encoder-only", (DECODERS, 0), scores)


def writer(name: str, build: Callable[[], nn.Module], heads: int) -> Specimen:
    scores = {"decoder": (BATCH, heads, SRC_LEN, SRC_LEN)}
    return Specimen(name, build, source_only, "decoder-only", (0, DECODERS), scores)


TORCH_SPECIMENS = (
    translator("nn.Transformer", build_torch, torch_inputs, EVEN_HEADS),
    translator("nn.Transformer, length first", build_torch_length_first, torch_inputs, EVEN_HEADS),
    translator("nn.Transformer, norm first", build_torch_norm_first, torch_inputs, EVEN_HEADS),
)
LIBRARY_SPECIMENS = (
    translator("T5", build_t5, source_and_target),
    translator("BART", build_bart, source_and_target),
    translator("Marian", build_marian, source_and_target),
    reader("BERT", build_bert, source_only, SRC_LEN),
    writer("GPT-2", build_gpt2, HEADS),
    writer("Llama", build_llama, 6),
    reader("ViT", build_vit, vit_inputs, 10),
    translator("Whisper", build_whisper, whisper_inputs),
)
SPECIMENS = (*TORCH_SPECIMENS, *LIBRARY_SPECIMENS)
BY_NAME = {specimen.name: specimen for specimen in SPECIMENS}
QUICK = ("nn.Transformer", "T5", "GPT-2")


def in_tiers(specimens: Iterable[Specimen]) -> tuple:
    """Their names: torch's own, a translator and a writer for the fast tier, the others for the slow one."""
    names = [specimen.name for specimen in specimens]
    return tuple(name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in names)


IN_TIERS = in_tiers(SPECIMENS)
LIBRARY_IN_TIERS = in_tiers(LIBRARY_SPECIMENS)
