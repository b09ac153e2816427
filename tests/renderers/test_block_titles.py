"""What stands under the title of a drawing by blocks, and at the top of a block."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from small_blocks import call, layer, model_of

from xray.ir.trace import Trace
from xray.renderers.blocks.nodes import Drawn, describe_item, head_line
from xray.renderers.sheet.poster import draw_poster
from xray.story.blocks.block_plan import plan_blocks
from xray.story.blocks.opening import Choice
from xray.story.blocks.pass_groups import PassGroup
from xray.story.layout import Run


def test_a_title_says_how_deep_is_drawn_and_not_that_so_many_levels_are_opened():
    first = layer("net.first", "")
    second = layer("net.second", first[-1].id, ("conv2d", "tanh"))
    trace = Trace("T", {}, {}, (model_of(*first, *second),))

    drawn = draw_poster(trace, "dot", blocks=Choice(depth=0, opened=("net.first",)))

    assert "drawn down to level 2 of 2. 1 block is closed" in drawn


def test_a_title_counts_the_blocks_that_bundles_close():
    source, steps = "", []
    for number in range(97):  # no two neighbours repeat
        ops = [("relu", "tanh", "sigmoid")[number // 3**place % 3] for place in range(5)]
        steps += layer(f"net.one{number}", source, ("linear", *ops))
        source = steps[-1].id

    assert "97 blocks in bundles are closed" in draw_poster(Trace("T", {}, {}, (model_of(*steps),)), "dot")


def test_a_bundle_counts_its_blocks_apart_from_its_steps():
    """So where a model does much itself between its blocks (Titans)."""
    source, steps = "", []
    for number in range(64):  # no two neighbours repeat
        ops = [("relu", "tanh", "sigmoid")[number // 3**place % 3] for place in range(4)]
        steps += layer(f"net.one{number}", source, ("linear", *ops))
        steps.append(call(f"net.add{number}", "add", [steps[-1].id], (2, 3), parent="net#0"))
        source = steps[-1].id

    drawn = draw_poster(Trace("T", {}, {}, (model_of(*steps),)), "dot")
    assert re.search(r"\b\d+ blocks and \d+ steps\b", drawn)
    assert not re.search(r">\d+ blocks<", drawn)


def test_a_title_says_what_took_no_part():
    steps = layer("net.first", "")
    unused = {"net.third": 7777, "net.fourth": 55, "net.fifth": 13, "net.sixth": 11}

    drawn = draw_poster(Trace("T", {}, {}, (model_of(*steps),), unused=unused), "dot")
    assert "Took no part: net.third (7,777 parameters), net.fourth (55 parameters) and 2 more (24)" in drawn
    assert "Took no part" not in draw_poster(Trace("T", {}, {}, (model_of(*steps),), unused={}), "dot")


def test_a_file_stands_apart_from_the_name_of_a_class_however_long_that_is():
    item = cast(Any, SimpleNamespace(count=1))

    told = [head_line(Run("conv", 13, "text"), item, name, "file.py:3")[-1].text for name in ("Conv", "C" * 37)]
    assert told == ["  file.py:3", "\N{NO-BREAK SPACE}" * 6 + "  file.py:3"]


@pytest.mark.parametrize(("kernels", "told"), [(("3x3",) * 60, "conv2d 3×3"), (("3x3", "5x5") * 30, "conv2d")])
def test_a_kernel_is_told_where_all_that_stand_as_one_have_it(kernels, told):
    steps, source = [], ""
    for number, kernel in enumerate(kernels):
        block = layer(f"net.layer{number}", source, ("conv2d",), (2, 7 + number), params=11 + number)
        steps += [block[0], replace(block[1], settings={"kernel_size": kernel})]
        source = steps[-1].id
    one_pass = model_of(*steps)
    plan = plan_blocks(one_pass, Choice(depth=1))
    lines = describe_item(Drawn(PassGroup((one_pass,), (1,)), 0, plan, {}, {}), plan.nodes[0])
    text = " ".join(run.text for line in lines for run in line)
    assert re.search(rf"× 60 sizes *{told} 2 ×", text)
    assert "11–70 parameters" in text


@pytest.mark.parametrize(("grows", "told"), [(1, "× 60 sizes"), (0, "× 60 settings")])
def test_neighbours_that_differ_in_settings_alone_have_no_several_sizes(grows, told):
    steps, source = [], ""
    for number in range(60):
        block = layer(f"net.layer{number}", source, ("eq",), (2, 7 + number * grows), params=11)
        steps += [block[0], replace(block[1], settings={"other": number})]
        source = steps[-1].id
    one_pass = model_of(*steps)
    plan = plan_blocks(one_pass, Choice(depth=1))
    lines = describe_item(Drawn(PassGroup((one_pass,), (1,)), 0, plan, {}, {}), plan.nodes[0])

    assert told in " ".join(run.text for line in lines for run in line)
