"""Words that are made for a model end where it searches for their end."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from xray.sources.family_inputs import find_end, propose_inputs
from xray.sources.known_values import known_values
from xray.sources.sizes import Wishes

END, VOCAB = 31, 37


class Reader(nn.Module):
    """A row of each text."""

    def __init__(self, config):
        super().__init__()
        self.words, self.config, self.eos_token_id = nn.Embedding(VOCAB, 3), config, config.eos_token_id

    def forward(self, input_ids):
        return self.words(input_ids)[:, 0]


class Searcher(Reader):
    """The row where each text ends."""

    def forward(self, input_ids):
        ends = (input_ids == self.eos_token_id).int().argmax(-1)
        return self.words(input_ids)[range(len(input_ids)), ends]


class Writer(Searcher):
    """One that goes on where a text ends."""

    def can_generate(self):
        return True


class Asker(nn.Module):
    """A searcher as a part of another model."""

    def __init__(self, config):
        super().__init__()
        self.reader = Searcher(config)

    def forward(self, input_ids):
        return self.reader(input_ids)


def make(model, end=END):
    config = SimpleNamespace(vocab_size=VOCAB, eos_token_id=end)
    made = next(propose_inputs(model(config), config, Wishes(), has_storage=True))
    return made.values["input_ids"]


def test_the_end_of_a_text_stands_last_where_a_model_searches_for_it():
    for model in (Searcher, Asker):
        ids = make(model)
        assert ids[:, -1].tolist() == [END, END]


def test_no_end_is_put_where_none_is_searched_for_and_before_what_is_to_be_written():
    config = SimpleNamespace(vocab_size=VOCAB, eos_token_id=END)

    assert [find_end(model(config)) for model in (Reader, Writer, Searcher)] == [None, None, END]


def test_an_end_that_no_word_can_be_is_left_out():
    assert (make(Searcher, end=VOCAB + 4) < VOCAB).all()


class Seer(Reader):
    """Words, and what was seen."""

    def forward(self, input_ids, visual_embeds=None):
        return self.words(input_ids)


def test_what_was_seen_in_regions_of_an_image_comes_with_the_words_where_its_width_is_known():
    settings = SimpleNamespace(vocab_size=VOCAB, eos_token_id=END)
    wide = SimpleNamespace(**vars(settings), visual_embedding_dim=13)
    made = [next(propose_inputs(Seer(one), one, Wishes(), has_storage=True)).values for one in (wide, settings)]

    assert [{name: tuple(value.shape) for name, value in one.items()} for one in made] == [
        {"input_ids": (2, 10), "visual_embeds": (2, 36, 13)},
        {"input_ids": (2, 10)},
    ]


IMAGE_SIGN, SOUND_SIGN, WIDE, SIDE, PATCH, MELS, FEWER = 17, 19, 3, 28, 7, 11, 5


class Teller(nn.Module):
    """Words; rows of images and of sounds stand where their signs are, and nothing but the whole makes them."""

    def __init__(self):
        super().__init__()
        self.words, self.see, self.hear = nn.Embedding(VOCAB, WIDE), nn.Linear(3, WIDE), nn.Linear(MELS, WIDE)
        self.config = make_settings()

    def forward(
        self,
        input_ids,
        image_pixel_values=None,
        image_sizes=None,
        image_attention_mask=None,
        audio_input_features=None,
        audio_embed_sizes=None,
    ):
        x = self.words(input_ids)
        if image_pixel_values is not None and (input_ids == IMAGE_SIGN).any():
            cut = image_pixel_values[..., ::PATCH, ::PATCH].movedim(2, -1)
            x = x.index_put((input_ids == IMAGE_SIGN).nonzero(as_tuple=True), self.see(cut[image_attention_mask]))
        if audio_input_features is not None and (input_ids == SOUND_SIGN).any():
            heard = self.hear(audio_input_features[:, ::FEWER])
            rows = torch.cat([one[:count] for one, count in zip(heard, audio_embed_sizes, strict=True)])
            x = x.index_put((input_ids == SOUND_SIGN).nonzero(as_tuple=True), rows)
        return x


def make_settings():
    vision = SimpleNamespace(model_type="seeing", image_size=SIDE, patch_size=PATCH, image_token_id=IMAGE_SIGN)
    audio = SimpleNamespace(model_type="hearing", input_size=MELS, time_reduction=FEWER, audio_token_id=SOUND_SIGN)
    return SimpleNamespace(vocab_size=VOCAB, vision_config=vision, audio_config=audio)


def test_rows_that_only_the_whole_makes_have_as_many_signs_among_the_words():
    """Of each image, two cuts of 4 by 4 patches; of each sound, a row for every five frames."""
    for made_of in ("cpu", "meta"):
        model = Teller().to(made_of)
        with known_values():
            made = next(propose_inputs(model, model.config, Wishes(), has_storage=made_of == "cpu")).values
            ids = made["input_ids"]

            assert made["image_pixel_values"].shape == (2, 2, 3, SIDE, SIDE)
            assert [(ids == sign).sum(1).tolist() for sign in (IMAGE_SIGN, SOUND_SIGN)] == [[32, 32], [40, 40]]
            assert model(**made).shape == (2, 10 + 32 + 40, WIDE)


class Seeing(Reader):
    """Words, and rows of images from a part that may be asked; if it `asks_back`, it has to know its weights."""

    def __init__(self, *, asks_back, tell):
        vision = SimpleNamespace(image_size=SIDE, patch_size=PATCH)
        super().__init__(
            SimpleNamespace(vocab_size=VOCAB, eos_token_id=END, image_token_id=IMAGE_SIGN, vision_config=vision)
        )
        self.see, self.asks_back, self.tell = nn.Linear(3, WIDE), asks_back, tell

    def forward(self, input_ids, pixel_values=None):
        return self.words(input_ids)

    def get_image_features(self, pixel_values):
        self.tell(self.see.weight.is_meta)
        factor = self.see.weight.sum().item() if self.asks_back else 1
        return self.see(pixel_values[..., ::PATCH, ::PATCH].movedim(1, -1)).flatten(0, 2) * factor


@pytest.mark.parametrize(("asks_back", "tried"), [(False, [True]), (True, [True, False])])
def test_rows_are_counted_without_storage_unless_numbers_are_asked_for(asks_back, tried):
    met = []
    model = Seeing(asks_back=asks_back, tell=lambda is_meta: met.append(is_meta))
    made = next(propose_inputs(model, model.config, Wishes(), has_storage=True)).values

    rows = (made["pixel_values"].shape[-1] // PATCH) ** 2
    assert (made["input_ids"] == IMAGE_SIGN).sum(1).tolist() == [rows, rows]
    assert met == tried
    assert not any(one.is_meta for one in model.parameters())
