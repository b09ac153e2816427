"""Rows of several streams that stand in turn, and are taken out again, each so manieth (Decision Transformer)."""

import pytest
import torch
from story.body.test_mistaken import WIDTH, AttentionPart, FeedForwardPart
from torch import nn

import xray
from xray.story.sheet.columns import read_columns

SEEN, DONE, PLACES, STREAMS = 5, 7, 11, 2


class Turns(nn.Module):
    """What was seen and what was done stand in turn; what was seen says what is done next."""

    def __init__(self):
        super().__init__()
        self.seen, self.done = nn.Linear(SEEN, WIDTH), nn.Linear(DONE, WIDTH)
        self.norm, self.last = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(AttentionPart(), FeedForwardPart(), AttentionPart(), FeedForwardPart())
        self.next_done, self.next_seen = nn.Linear(WIDTH, DONE), nn.Linear(WIDTH, SEEN)

    def lay(self, seen, done):
        return torch.stack((seen, done), dim=1).permute(0, 2, 1, 3).reshape(len(seen), -1, WIDTH)

    def take(self, x):
        return x.reshape(len(x), -1, STREAMS, WIDTH).permute(0, 2, 1, 3)

    def forward(self, states, actions):
        x = self.norm(self.lay(self.seen(states), self.done(actions)))
        x = self.take(self.last(self.layers(x)))
        return self.next_done(x[:, 0]), self.next_seen(x[:, 1])


class StackedBetween(Turns):
    """The same, stacked where they stand at once."""

    def lay(self, seen, done):
        return torch.stack((seen, done), dim=2).flatten(1, 2)

    def take(self, x):
        return x.unflatten(1, (-1, STREAMS)).transpose(1, 2)


class PutIn(Turns):
    """The same, written into zeros at every other place (Decision Transformer for Atari)."""

    def lay(self, seen, done):
        x = torch.zeros(len(seen), STREAMS * seen.shape[1], WIDTH)
        x[:, ::STREAMS, :], x[:, 1::STREAMS, :] = seen, done
        return x


class PutInHalf(PutIn):
    """What was done is written at some places of these, what was seen at none."""

    def lay(self, seen, done):
        x = torch.zeros(len(seen), STREAMS * seen.shape[1], WIDTH)
        x[:, ::STREAMS, :], x[:, ::STREAMS] = seen, done
        return x


class Behind(Turns):
    """One stream stands behind the other, and halves are taken out again."""

    def lay(self, seen, done):
        return torch.stack((seen, done), dim=1).reshape(len(seen), -1, WIDTH)

    def take(self, x):
        return x.reshape(len(x), STREAMS, -1, WIDTH)


def read_boxes(model):
    given = {"states": torch.rand(3, PLACES, SEEN), "actions": torch.rand(3, PLACES, DONE)}
    (column,) = read_columns(xray.trace(model.eval(), **given))
    return column


def list_labels(chart):
    return [node.label for node in chart.nodes]


@pytest.mark.parametrize("model", [Turns, StackedBetween, PutIn])
def test_rows_of_several_streams_that_stand_in_turn_have_a_box(model):
    entrance = read_boxes(model()).entrance

    (box,) = [node for node in entrance.nodes if node.label == "ROWS OF 2 IN TURN"]
    assert box.record.shape == (3, PLACES * STREAMS, WIDTH)


@pytest.mark.parametrize("model", [Turns, StackedBetween])
def test_every_so_manieth_row_that_a_head_reads_has_a_box(model):
    chart = read_boxes(model()).exit

    ways = {(chart.node(edge.source).label, chart.node(edge.target).record.shape[-1]) for edge in chart.edges}
    assert {("EVERY 2ND ROW, FROM THE 1ST", DONE), ("EVERY 2ND ROW, FROM THE 2ND", SEEN)} <= ways
    assert {node.record.shape for node in chart.nodes if node.label.startswith("EVERY")} == {(3, PLACES, WIDTH)}


def test_rows_that_are_written_into_zeros_are_led_to_one_box_in_which_all_that_write_them_stand():
    chart = read_boxes(PutIn()).entrance
    (box,) = [node for node in chart.nodes if node.label == "ROWS OF 2 IN TURN"]

    assert [step.op for step in box.steps] == ["index_put_", "index_put_", "zeros"]
    assert sorted(chart.node(edge.source).label for edge in chart.edges if edge.target == box.key) == ["LINEAR"] * 2
    assert "ROWS PUT IN" not in list_labels(chart)


def test_rows_that_are_written_over_others_are_not_in_turn():
    assert not any("TURN" in label for label in list_labels(read_boxes(PutInHalf()).entrance))


def test_streams_one_behind_the_other_are_not_in_turn():
    column = read_boxes(Behind())

    assert not any("TURN" in label for label in list_labels(column.entrance))
    assert not any("EVERY" in label for label in list_labels(column.exit))


def test_rows_of_numbers_have_the_names_of_their_arguments_where_several_come_in():
    given = [node for node in read_boxes(Turns()).entrance.nodes if node.label == "VECTORS"]

    assert {(node.record.shape[-1], node.extra) for node in given} == {(SEEN, "states"), (DONE, "actions")}
