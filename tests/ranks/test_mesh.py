"""`xray trace SOURCE --mesh tp=2`: one rank of many, none of which is there, and meshes that cannot be."""

import json
import os
from xml.etree import ElementTree

import pytest

pytest.importorskip("transformers", reason="transformers, whose models these are, is not installed")

import torch

if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 8):
    pytest.skip("the library divides models with torch 2.8 and newer", allow_module_level=True)

from rank_specimens import SIZES, SPECIMENS, make_library

import xray
from xray.capture.targets.inputs import Target
from xray.capture.targets.target import run_target
from xray.cli.app import run
from xray.errors import TraceError, UsageError
from xray.ir.files import read_trace_file
from xray.ranks.fake_group import fake_ranks
from xray.ranks.mesh import parse_mesh
from xray.ranks.recording import Share, record_rank
from xray.story.facts.exchanges import bytes_by_layer, list_slices, list_waits
from xray.story.facts.pipeline import list_cuts, list_stages

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **SIZES}


@pytest.fixture
def llama(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    return tmp_path


@pytest.fixture
def gpt(tmp_path):
    source = "from rank_specimens import SPECIMENS, WORDS\n\ndef build():\n    return SPECIMENS['GPT'].make(), WORDS\n"
    (tmp_path / "gpt.py").write_text(source, encoding="utf-8")
    return f"{tmp_path / 'gpt.py'}:build"


def told(capsys):
    return capsys.readouterr().err.strip().splitlines()


def test_one_rank_of_two_tells_whole_part_and_placement(llama, tmp_path, capsys):
    before = dict(os.environ)
    out = tmp_path / "rank.json"

    assert run(["trace", str(llama), "--mesh", "tp=2", "-o", str(out)]) == 0

    printed = capsys.readouterr().err
    trace = read_trace_file(str(out))
    steps = {step.id: step for step in trace.steps}
    heads = steps["model.layers.0.self_attn.transpose#0"].outputs[0]
    assert (heads.shape, heads.local, heads.placement) == ((2, 8, 10, 8), (2, 4, 10, 8), "[S(1)]")
    assert heads.axes == ("batch", "heads", "seq_len", "d_k")
    out_projection = steps["model.layers.1.self_attn.o_proj#0"]
    assert [one.placement for one in (*out_projection.inputs, *out_projection.outputs)] == ["[S(2)]", "[P(sum)]"]
    total = steps["model.layers.1.self_attn.all_reduce#0"]
    assert (total.settings["group"], total.settings["bytes"]) == ("tp", 2 * 10 * 64 * 4)
    untold = {step.op for step in trace.steps for one in (*step.inputs, *step.outputs) if one.placement is None}
    assert untold == {"all_gather"}
    assert trace.config["mesh"] == "tp=2"
    assert "here 2×4×10×8 [S(1)]" in printed
    assert "5 all_reduce along tp (0, 1)" in " ".join(printed.split())
    assert not torch.distributed.is_initialized()
    added = {name for name in os.environ if not name.startswith("TORCHINDUCTOR")}  # torch's, whenever it is loaded
    assert added <= set(before)


def test_the_poster_has_a_card_of_who_holds_what_and_waits_where():
    specimen = SPECIMENS["Llama"]
    trace = record_rank(specimen.target(), Share(parse_mesh("dp=2,tp=2"), 1)).trace

    held = {one.name: (one.whole, one.here, one.group, one.ranks, one.place) for one in list_slices(trace)}
    assert held == {
        "batch": (4, 2, "dp", 2, 0),
        "heads": (8, 4, "tp", 2, 1),
        "kv_heads": (4, 2, "tp", 2, 1),
        "d_ff": (96, 48, "tp", 2, 1),
        "vocab": (80, 40, "tp", 2, 1),
    }
    (total, places), (gathered, head) = list_waits(trace)
    assert (total.op, total.times, places) == ("all_reduce", 5, ("embed_tokens", "o_proj", "down_proj"))
    assert (gathered.op, gathered.times, head) == ("all_gather", 1, ("lm_head",))
    assert bytes_by_layer(trace) == {
        None: total.bytes // 5 + gathered.bytes,
        0: total.bytes * 2 // 5,
        1: total.bytes * 2 // 5,
    }
    drawn = ElementTree.fromstring(xray.render(trace, "svg"))
    said = "".join(drawn.itertext())
    assert "RANK 1 OF dp=2, tp=2" in said
    assert "behind embed_tokens, o_proj, down_proj" in " ".join(said.split())
    assert "ADDED UP OVER RANKS" in said


def test_a_pipeline_tells_what_crosses_its_cut():
    trace = record_rank(SPECIMENS["Llama"].target(), Share(parse_mesh("pp=2,dp=2"))).trace

    assert list_stages(trace) == (range(1), range(1, 2))
    (cut,) = list_cuts(trace)
    assert cut.after == 0
    assert [(one.shape, one.local) for one in cut.tensors] == [((4, 6, 64), (2, 6, 64))]  # the stream, and nothing else
    assert cut.bytes == 2 * 6 * 64 * 4
    assert f"{cut.bytes:,} bytes" in " ".join(xray.render(trace, "table").split())


def test_a_rank_differs_from_the_whole_by_its_parts_and_its_exchanges():
    specimen = SPECIMENS["Llama"]
    trace = record_rank(specimen.target(), Share(parse_mesh("tp=2"))).trace
    whole = run_target(specimen.target()).trace

    changes = xray.diff(whole, trace).changes

    assert {change.aspect for change in changes} == {"part", "step added"}
    query = next(one for one in changes if one.step == "model.layers.0.self_attn.q_proj#0")
    assert (query.before.shape, query.after.local) == ((4, 6, 64), (4, 6, 32))


def test_a_pipeline_alone_divides_no_tensor():
    trace = record_rank(SPECIMENS["Llama"].target(), Share(parse_mesh("pp=2,tp=1"))).trace

    assert {one.local for step in trace.steps for one in step.outputs} == {None}
    assert [cut.bytes for cut in list_cuts(trace)] == [4 * 6 * 64 * 4]


def test_the_way_back_is_told_by_the_modules_it_belongs_to():
    specimen = SPECIMENS["GPT"]

    trace = record_rank(specimen.target(), Share(parse_mesh("dp=2,fsdp=2"), 3, None, trains=True)).trace

    back = [step for step in trace.steps if step.settings.get("during") == "backward"]
    assert {step.parent for step in back} == {"backward#0"}
    assert [(step.path, step.settings["group"], step.settings["of"]) for step in back] == [
        ("layers.1.all_gather", "fsdp", "weights"),
        ("layers.0.all_gather", "fsdp", "weights"),
        ("layers.1.reduce_scatter", "fsdp", "gradients"),
        ("layers.1.all_reduce", "dp", "gradients"),
        ("layers.0.reduce_scatter", "fsdp", "gradients"),
        ("layers.0.all_reduce", "dp", "gradients"),
        ("GPT.reduce_scatter", "fsdp", "gradients"),
        ("GPT.all_reduce", "dp", "gradients"),
    ]
    assert {step.settings["group_ranks"] for step in back} == {"2, 3", "1, 3"}
    backward = next(step for step in trace.steps if step.op == "backward")
    gradients = {one.name: one for one in backward.outputs}
    up = gradients["layers.0.up.weight.grad"]
    assert (up.shape, up.local, up.placement) == ((128, 32), (64, 32), "[R, S(0)]")
    printed = " ".join(xray.render(trace, "table").split())
    assert "On the way back, " in printed
    assert "3 reduce_scatter of gradients along fsdp (2, 3)" in printed
    assert "Back-propagation is not in the sum" in printed


def test_gradients_of_inputs_are_added_up_where_tensor_parallel_begins():
    specimen = SPECIMENS["GPT"]

    trace = record_rank(specimen.target(), Share(parse_mesh("tp=2"), 0, specimen.plan, trains=True)).trace

    total, inputs = list_waits(trace)
    assert (total[0].is_back, total[1]) == (False, ("out", "down"))
    assert (inputs[0].is_back, inputs[0].times, inputs[1]) == (True, 8, ("up", "value", "key", "query"))


def test_uneven_parts_are_told_rank_by_rank():
    parts = []
    for rank in range(4):
        target = Target(make_library("Llama", intermediate_size=70), (), SPECIMENS["Llama"].target(True).kwargs)
        trace = record_rank(target, Share(parse_mesh("tp=4"), rank)).trace
        made = next(step for step in trace.steps if step.path == "model.layers.0.mlp.up_proj").outputs[0]
        assert (made.shape, made.placement) == ((4, 6, 70), "[S(2)]")
        parts.append(made.local[-1])

    assert parts == [18, 18, 18, 16]


def test_any_model_is_divided_by_a_given_plan(gpt, tmp_path, capsys):
    plan, out = tmp_path / "plan.json", tmp_path / "rank.json"
    plan.write_text(json.dumps(SPECIMENS["GPT"].plan), encoding="utf-8")

    assert run(["trace", gpt, "--mesh", "tp=4", "--tp-plan", str(plan), "-q", "-o", str(out)]) == 0

    up = next(step for step in read_trace_file(str(out)).steps if step.path == "layers.0.up")
    assert up.outputs[0].local == (4, 6, 32)
    assert up.settings["weight_placement"] == "[S(0)]"


@pytest.mark.parametrize(
    ("mesh", "sentence"),
    [
        ("tp=0", "'tp=0'"),
        ("tp=x", "'tp=x'"),
        ("tp", "'tp' is no axis"),
        ("", "'' is no axis"),
        ("heads=2", "dp, fsdp, tp, ep"),
        ("cp=2", "by words on a GPU alone"),
        ("tp=2,tp=2", "tp stands twice"),
        ("tp=999999999999999999999", "1 to 65,536 ranks"),
        ("dp=60000,tp=60000", "more than 65,536 ranks"),
    ],
)
def test_a_mesh_that_is_none_is_refused_in_a_sentence(mesh, sentence):
    with pytest.raises(UsageError) as caught:
        parse_mesh(mesh)

    assert sentence in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--mesh", "tp=8"], "8 ranks cannot share 4 key heads. Choose tp so that it divides 4: tp=1, tp=2, tp=4."),
        (["--mesh", "dp=3"], "3 ranks cannot share a batch of 2. Choose --batch as a multiple of 3."),
        (["--mesh", "ep=2"], "LlamaForCausalLM has no experts to divide among 2 ranks. Leave ep out."),
        (["--mesh", "pp=3"], "3 stages of a pipeline cannot share 2 layers. Choose pp from 1 to 2."),
        (["--mesh", "tp=2", "--rank", "2"], "there is no rank 2 among 2. Choose one from 0 to 1."),
        (["--mesh", "tp=2", "--tp-plan", "no.json"], "cannot read the plan no.json"),
        (["--rank", "1"], "nothing is divided. Give a mesh, as in --mesh dp=2,tp=8."),
    ],
)
def test_a_split_that_cannot_be_is_refused_before_anything_runs(llama, options, sentence, capsys):
    assert run(["trace", str(llama), *options, "-q", "-o", str(llama / "out.json")]) == 2

    lines = told(capsys)
    assert len(lines) == 1
    assert sentence in lines[0]
    assert not (llama / "out.json").exists()


def test_a_model_without_a_plan_asks_for_one(gpt, tmp_path, capsys):
    assert run(["trace", gpt, "--mesh", "tp=2", "-q", "-o", str(tmp_path / "out.json")]) == 2

    assert "GPT brings no plan for tensor parallel. Give one with --tp-plan plan.json" in told(capsys)[0]


def test_experts_that_more_ranks_than_there_are_should_share_are_refused():
    with pytest.raises(
        UsageError, match=r"^3 ranks cannot share 4 experts\. Choose ep so that it divides 4: ep=1, ep=2"
    ):
        record_rank(SPECIMENS["Mixtral"].target(), Share(parse_mesh("ep=3")))


def test_ranks_that_cannot_share_gradients_are_refused_on_the_way_back():
    with pytest.raises(UsageError, match=r"Choose fsdp in place of dp, or leave --phase training out\.$"):
        record_rank(SPECIMENS["Mixtral"].target(), Share(parse_mesh("dp=2,ep=2"), trains=True))


def test_ranks_do_not_begin_inside_others():
    with fake_ranks(2), pytest.raises(TraceError, match="one of several ranks already"), fake_ranks(2):
        pass

    assert not torch.distributed.is_initialized()


def test_a_torch_without_other_ranks_says_so(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)

    with pytest.raises(TraceError, match=r"built without torch\.distributed"), fake_ranks(2):
        pass


def test_a_model_that_fails_leaves_no_ranks_behind():
    target = SPECIMENS["GPT"].target()
    plan = {"layers.*.up": "colwise"}  # and nothing that adds up behind it

    outcome = record_rank(target, Share(parse_mesh("tp=2"), 0, plan))

    assert outcome.error is not None
    assert not torch.distributed.is_initialized()
