"""Models of diffusers that are given things in another way tell so by an argument or a setting."""

import torch
from torch import nn

from xray.sources.diffusion.loading import propose
from xray.sources.diffusion.needs import Needs
from xray.sources.diffusion.parts import choose_rules
from xray.sources.diffusion.rules import RULES
from xray.sources.sizes import Wishes


class Packed(nn.Module):
    config = {}  # noqa: RUF012  # as the library has it

    def __init__(self):
        super().__init__()
        self.video, self.audio, self.text = nn.Linear(13, 3), nn.Linear(11, 3), nn.Linear(5, 3)

    def forward(
        self,
        hidden_states,
        audio_hidden_states,
        encoder_hidden_states,
        timestep,
        timestep_indices,
        token_tags,
        position_ids,
        video_indices,
        audio_indices,
        text_indices,
    ):
        return self.video(hidden_states), self.audio(audio_hidden_states), self.text(encoder_hidden_states)


class Layered(nn.Module):
    config = {"num_text_layers": 3, "text_hidden_dim": 11}  # noqa: RUF012

    def forward(self, encoder_hidden_states, position_ids):
        return encoder_hidden_states, position_ids


class Chunks(nn.Module):
    config = {"in_channels": 3, "text_dim": 7}  # noqa: RUF012

    def forward(self, hidden_states, timestep, r_timestep, encoder_hidden_states, chunk_partition):
        return hidden_states


class Plain(nn.Module):
    config = {}  # noqa: RUF012

    def forward(self, encoder_hidden_states):
        return encoder_hidden_states


def needs(model):
    return Needs(model, Wishes(), has_storage=False)


def make(model):
    return next(propose(needs(model))).values


def test_words_films_and_sounds_lie_one_behind_the_other_in_one_sequence():
    made = make(Packed())

    assert made["text_indices"].tolist() == list(range(10))
    assert made["video_indices"][0] == 10
    assert made["audio_indices"][-1] == len(made["token_tags"]) - 1
    assert made["token_tags"].unique().tolist() == [0, 1, 2]


def test_several_layers_of_a_text_are_told_by_a_setting():
    assert make(Layered())["encoder_hidden_states"].shape == (2, 10, 3, 11)


def test_chunks_of_frames_are_as_many_frames_as_there_are():
    made = make(Chunks())

    assert sum(made["chunk_partition"]) == made["hidden_states"].shape[1]
    assert made["timestep"].shape == made["r_timestep"].shape == made["hidden_states"].shape[:2]


def test_a_model_without_a_mark_is_given_things_as_most_are():
    assert choose_rules(needs(Plain()))["encoder_hidden_states"] is RULES["encoder_hidden_states"]


class Beside(nn.Module):
    config = {"condition_dim": 7, "in_channels": 4}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(11, 11, 1)

    def forward(self, hidden_states, encoder_hidden_states):
        hidden_states = torch.cat((hidden_states, encoder_hidden_states.transpose(1, 2)), dim=1)
        return self.mix(hidden_states)


def test_what_a_convolution_over_time_reads_stands_beside_each_frame():
    made = make(Beside())

    assert made["encoder_hidden_states"].shape == (2, made["hidden_states"].shape[-1], 7)


class Mixes(nn.Module):
    config = {"in_channels": 4, "sample_size": 6, "patch_size": 3}  # noqa: RUF012

    def forward(self, hidden_states, input_ids, input_img_latents, attention_mask, position_ids):
        return self


def test_words_see_those_before_them_and_an_image_sees_all():
    mask = make(Mixes())["attention_mask"][0]
    words = len(mask) - 4

    assert torch.equal(mask[:words], torch.ones(words, len(mask)).tril())
    assert mask[words:].all()
