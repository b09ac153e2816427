"""The whole of the terminal tables: what stands in them, how wide they are, and that nothing in them is obeyed."""

import re
from dataclasses import replace

import pytest
from recorded import recorded
from rich.cells import cell_len
from rich.console import Console
from small_traces import record, small_inference_passes, small_trace, small_training_pass, small_turn, step

from xray.ir.trace import Pass, Trace
from xray.renderers.table.table import TraceTables, draw_tables
from xray.renderers.themes import load_theme
from xray.story.facts.selection import Pick
from xray.story.facts.totals import count_work
from xray.text import say_short

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = (
    "[red]x[/]",
    "\x1b[31m",
    "日本語のことば",
    "👩‍🚀🚀",
    "שלום",
    "a\u202eb",
    "<script>",
    "\ud800",
    "line\nbreak",
    "\x9b2J",
)


def hostile_trace():
    """A small trace with every word, name and title out to do harm."""

    def spoil(rows):
        return tuple(tuple(HOSTILE[(i + j) % len(HOSTILE)] for j in range(len(row))) for i, row in enumerate(rows))

    passes = tuple(
        replace(
            one_pass,
            tokens={name: spoil(rows) for name, rows in one_pass.tokens.items()},
            steps=tuple(replace(each, op=f"{each.op}\x1b[2J[b]", module="[bold]") for each in one_pass.steps),
        )
        for one_pass in small_trace().passes
    )
    trace = small_trace(*passes, question="\x1b[31m[red]שלום", answer="👩‍🚀", run="[b]\x07", trained=True)
    return replace(trace, title="[b]日本\x1b]0;x\x07")


def line_with(text, part):
    return next(line for line in text.splitlines() if part in line)


@pytest.mark.parametrize("width", [80, 160])
def test_tables_stay_as_they_were_approved(golden, width):
    trace = recorded("one layer")
    trace = replace(trace, config={**trace.config, "norm": "before", "dropout": 0.5})

    text = draw_tables(trace, width=width)

    assert text == golden(f"tables_{width}.txt", text)


def test_plain_tables_have_no_escape_codes():
    assert "\x1b" not in draw_tables(small_trace())


def test_coloured_tables_say_the_same_as_plain_ones():
    coloured = ESCAPE.sub("", draw_tables(small_trace(), colour=True))

    assert "".join(line.rstrip() + "\n" for line in coloured.splitlines()) == draw_tables(small_trace())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("width", [20, 21, 33, 47, 58, 62, 80, 95, 100, 139, 160, 250])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_wider_than_the_terminal(width, ascii_only):
    text = draw_tables(hostile_trace(), width=width, ascii_only=ascii_only)

    assert max(map(cell_len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [20, 80, 160])
def test_every_painted_line_is_as_wide_as_the_terminal(width):
    lines = ESCAPE.sub("", draw_tables(hostile_trace(), width=width, colour=True)).splitlines()

    assert {cell_len(line) for line in lines} == {width}


def test_widths_below_the_narrowest_are_drawn_as_the_narrowest():
    assert draw_tables(small_trace(), width=3) == draw_tables(small_trace(), width=20)


@pytest.mark.parametrize("width", [20, 80, 160])
def test_ascii_tables_are_ascii(width):
    assert draw_tables(hostile_trace(), width=width, ascii_only=True).isascii()


@pytest.mark.parametrize("width", [40, 80, 160])
def test_nothing_from_outside_reaches_the_terminal_as_a_control(width):
    text = ESCAPE.sub("", draw_tables(hostile_trace(), width=width, colour=True))

    assert not {character for character in text if ord(character) < 32 or 127 <= ord(character) < 160} - {"\n"}


def test_markup_is_shown_as_text():
    assert "[red]x[/]" in draw_tables(hostile_trace())


def test_tables_can_be_encoded_whatever_the_words_are():
    assert draw_tables(hostile_trace()).encode("utf-8")


def test_colours_come_from_the_theme():
    red, green, blue = (int(load_theme("light").surfaces["page"].fill[place : place + 2], 16) for place in (1, 3, 5))

    assert f"48;2;{red};{green};{blue}" in draw_tables(small_trace(), colour=True, theme=load_theme("light"))


def test_fewer_colours_are_used_where_the_terminal_has_fewer():
    text = draw_tables(small_trace(), colour="256")

    assert "48;5;" in text
    assert "48;2;" not in text


def test_the_head_names_every_size():
    text = draw_tables(small_trace(), width=160)

    assert "batch 2   heads 3   encoder_layers 2   decoder_layers 2   d_model 33   d_k 11   d_ff 13" in text


def test_the_head_says_that_weights_are_random():
    assert "Untrained" in draw_tables(small_trace(trained=False))


def test_the_head_names_the_run():
    assert "Trained, run movie_qa." in draw_tables(small_trace(trained=True, run="movie_qa"))


def test_the_head_tells_settings_that_are_not_the_default():
    assert "Not the default: norm before (default after)" in draw_tables(small_trace(norm="before"))


def test_alike_layers_are_folded():
    band = line_with(draw_tables(recorded("two and four layers")), "encoder self-attention")

    assert "× 2  layers 0 and 1 are alike" in band


def test_layers_are_unfolded_on_request():
    trace = recorded("two and four layers")

    text = draw_tables(replace(trace, passes=trace.passes[:1]), all_layers=True)

    assert [line.split()[-1] for line in text.splitlines() if "cross-attention ─" in line] == ["0", "1", "2", "3"]


def test_the_first_turn_is_shown_in_full_and_the_others_in_one_table():
    text = draw_tables(small_trace())

    assert "TURN 1 OF 3" in text
    assert "TURN 2 OF 3" not in text
    assert "ALL 3 TURNS" in text


def test_a_turn_that_did_something_else_is_shown_in_full_too():
    first, second = small_turn(1, ("<sos>",), "a"), small_turn(2, ("<sos>", "a"), "b")
    second = replace(second, steps=(*second.steps, step("append", "concat")))

    assert "TURN 2 OF 2" in draw_tables(small_trace(first, second))


def test_the_totals_stand_at_the_end():
    lines = draw_tables(small_trace(), width=160).splitlines()
    (start,) = (number for number, line in enumerate(lines) if " TOTALS " in line)

    assert "each counted once." in lines[start + 1]
    assert not any("━" in line for line in lines[start + 1 :])


def test_an_empty_trace_is_drawn():
    assert "0 steps" in draw_tables(Trace("", {}, {}, ()))


def test_a_pass_without_steps_is_drawn():
    assert "FORWARD PASS" in draw_tables(Trace("net", {}, {}, (Pass("forward", 0, {}, ()),)))


def test_an_unfinished_step_says_why():
    failed = step("head", "linear", error="ValueError: 33 is not 29")

    assert "failed: ValueError: 33 is not 29" in draw_tables(small_trace(Pass("training", 0, {}, (failed,))))


def test_a_console_prints_the_tables_in_its_own_width(capsys):
    Console(width=70, color_system=None).print(TraceTables(small_trace(*small_inference_passes())))

    assert {cell_len(line) for line in capsys.readouterr().out.splitlines()} == {70}


def test_the_totals_tell_work_and_memory(inference_trace):
    work = count_work(inference_trace)
    text = " ".join(draw_tables(inference_trace, width=160).split())

    assert f"{work.flops:,} ({say_short(work.flops)}) FLOPs in matrix products" in text
    assert f"Parameters take {work.param_bytes:,} bytes ({say_short(work.param_bytes, 'B')})" in text
    assert f"{work.activation_bytes:,} bytes ({say_short(work.activation_bytes, 'B')}) were newly stored" in text


def test_the_totals_name_what_was_not_counted():
    steps = tuple(step("net", "odd", outputs=[record("out", "batch", source=f"net#{n}")], call=n) for n in (0, 1))

    assert "FLOPs not counted: odd (2)." in draw_tables(Trace("net", {}, {}, (Pass("forward", 0, {}, steps),)))


def test_the_totals_say_that_back_propagation_is_left_out(training_trace):
    assert "Back-propagation is not in the sum" in draw_tables(training_trace)


def test_a_growing_cache_is_told_turn_by_turn(cached_trace):
    text = draw_tables(cached_trace)

    assert "3 layers x 2 x 4 heads x 8 x 4 bytes = 768 bytes." in " ".join(text.split())
    assert [line.split(":")[0].strip() for line in text.splitlines()[-3:]] == ["turn 1", "turn 2", "turn 3"]


def test_only_the_steps_that_were_chosen_stand_in_the_tables():
    text = draw_tables(small_trace(), pick=Pick(("head",)))

    assert "Only steps at head are shown: 4 of 123 steps" in " ".join(text.split())
    assert "1 of 55 steps" in text
    assert "self_attention" not in text.split("TOTALS")[0]


def test_passes_that_did_the_same_are_one_line():
    (one,) = small_trace(small_training_pass()).passes
    passes = tuple(replace(one, kind="forward", number=number) for number in range(4))

    text = draw_tables(Trace("net", {}, {}, passes))

    assert "FORWARD PASS 1 TO 3" in text
    assert text.count("FORWARD PASS") == 2


def test_a_pass_that_did_something_else_is_shown_in_full():
    (one,) = small_trace(small_training_pass()).passes
    other = replace(one, kind="forward", number=1, steps=one.steps[:20])

    text = draw_tables(Trace("net", {}, {}, (replace(one, kind="forward"), other)))

    assert "20 steps" in line_with(text, "FORWARD PASS 1")
