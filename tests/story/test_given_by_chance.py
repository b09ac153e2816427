"""What a model draws by chance beside what it is given: noise, and the time that says how much of it."""

import pytest
import torch
from story.entrances import OTHER, WIDTH
from story.layered import Layered, list_arrows, read
from torch import nn


class Flowing(Layered):
    """Rows that are given, and others drawn by chance, each as much of them as a time says (π0)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(OTHER, WIDTH)

    def enter(self, rows, time):
        part = (time * 0.9 + 0.05)[:, None, None]
        return self.lead(part * torch.randn_like(rows) + (1 - part) * rows)


class Resting(Flowing):
    """Rows that are the more, the more the time is, and noise for the rest."""

    def enter(self, rows, time):
        part = (time * 0.9 + 0.05)[:, None, None]
        return self.lead((1 - part) * torch.randn_like(rows) + part * rows)


class Diffusing(Flowing):
    """Shares whose squares make 1, of which neither is 1 less the other (Ho et al. 2020)."""

    def enter(self, rows, time):
        part = time[:, None, None]
        return self.lead(part.sqrt() * rows + (1 - part).sqrt() * torch.randn_like(rows))


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Flowing, "NOISE × t + ROWS × (1 − t)"),
        (Resting, "NOISE × (1 − t) + ROWS × t"),
        (Diffusing, "ROWS × NUMBERS + NOISE"),
    ],
)
def test_noise_and_rows_are_each_as_much_of_a_sum_as_a_time_says(model, told):
    column = read(model, torch.rand(2, 7, OTHER), torch.rand(2))

    assert (told, "LINEAR") in list_arrows(column.entrance)
    assert ("VECTORS", told) in list_arrows(column.entrance)


class Drawing(Layered):
    """The same by a time that is drawn by chance, of which waves are laid beside the rows (π0)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(OTHER + 6, WIDTH)
        self.register_buffer("frequencies", torch.rand(3))

    def enter(self, rows):
        time = (torch.rand(rows.shape[0]) * 0.9 + 0.1).float()
        part = time[:, None, None]
        noised = (part * torch.randn_like(rows) + (1 - part) * rows).to(rows.dtype)
        turns = time[:, None] * self.frequencies
        waves = torch.cat([turns.sin(), turns.cos()], dim=-1)
        return self.lead(torch.cat([noised, waves[:, None].expand(-1, rows.shape[1], -1)], dim=-1))


def test_the_time_drawn_by_chance_that_says_how_much_is_noise_is_led_there():
    arrows = list_arrows(read(Drawing, torch.rand(2, 7, OTHER)).entrance)

    assert {(below, "NOISE × t + ROWS × (1 − t)") for below in ("DRAWN BY CHANCE", "VECTORS")} <= arrows


class Timed(Layered):
    """Rows beside which waves of a time stand that is drawn by chance, unless it is given (π0)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(OTHER + 6, WIDTH)
        self.register_buffer("frequencies", torch.rand(3))

    def enter(self, rows, time=None):
        time = torch.rand(rows.shape[0]) * 0.9 + 0.1 if time is None else time
        turns = time[:, None] * self.frequencies
        waves = torch.cat([turns.sin(), turns.cos()], dim=-1)
        return self.lead(torch.cat([rows, waves[:, None].expand(-1, rows.shape[1], -1)], dim=-1))


@pytest.mark.parametrize("given", [(), (torch.rand(2),)])
def test_waves_of_a_time_that_is_drawn_by_chance_are_led_from_it(given):
    arrows = list_arrows(read(Timed, torch.rand(2, 7, OTHER), *given).entrance)

    by_chance = {("DRAWN BY CHANCE", "SIN"), ("DRAWN BY CHANCE", "COS")}
    assert arrows & by_chance == (set() if given else by_chance)


class Shared(Layered):
    """Shares of rows and of noise, picked from a table by a time that is drawn by chance, and spread by zeros (MAR)."""

    def __init__(self):
        super().__init__()
        self.lead = nn.Linear(OTHER, WIDTH)
        self.register_buffer("shares", torch.rand(50))

    def pick(self, times, rows):
        return self.shares[times].float()[..., None, None] + torch.zeros(rows.shape)

    def enter(self, rows):
        times = torch.randint(0, 50, (rows.shape[0],))
        return self.lead(self.pick(times, rows) * rows + self.pick(times, rows) * torch.randn_like(rows))


def test_what_a_time_drawn_by_chance_picks_from_a_table_is_no_noise():
    labels = [node.label for node in read(Shared, torch.rand(2, 7, OTHER)).entrance.nodes]

    assert "MULTIPLIED" in labels
    assert not any("NOISE" in label for label in labels)
