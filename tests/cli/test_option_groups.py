"""The options of a command that are gathered in objects."""

from dataclasses import dataclass, fields
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from xray.cli.options.groups import open_groups
from xray.cli.options.of_training import LessonOptions, ModelOptions, TextOptions
from xray.cli.train import train
from xray.config import ModelConfig, TextConfig, TrainConfig


@dataclass(frozen=True)
class Sizes:
    """Two options."""

    width: Annotated[int, typer.Option("--wide")] = 3
    height: int = 5


def test_a_command_takes_the_options_of_a_group_as_one_object():
    heard = []

    @open_groups
    def draw(sizes: Sizes, name: str = "box") -> None:
        heard.append((sizes, name))

    app = typer.Typer()
    app.command()(draw)

    result = CliRunner().invoke(app, ["--wide", "7", "--name", "door"])

    assert (result.exit_code, heard) == (0, [(Sizes(7, 5), "door")])


@pytest.mark.parametrize(
    ("options", "config", "follows"),
    [
        (LessonOptions, TrainConfig, set()),
        (ModelOptions, ModelConfig, {"src_vocab"}),
        (TextOptions, TextConfig, {"tgt_limit"}),
    ],
)
def test_every_setting_but_those_that_follow_is_an_option_of_train(options, config, follows):
    offered = {field.name for field in fields(options)}

    assert offered == {field.name for field in fields(config)} - follows
    assert offered <= set(signature(train).parameters)
