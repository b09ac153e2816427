"""Words that are made for a model end where it searches for their end."""

from types import SimpleNamespace

from torch import nn

from xray.sources.family_inputs import find_end, propose_inputs
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
