"""The schema that is handed out says of `trace.json` what the reader and the writer say of it."""

import json
from pathlib import Path

import pytest
from recorded import recorded

from xray.cli.app import run
from xray.errors import TraceError
from xray.ir.json_form import trace_from_json, trace_schema, trace_to_json
from xray.ir.records import MaskFacts, Preview, Statistics, TensorRecord
from xray.ir.trace import SCHEMA, Pass, Step, Trace

DOCUMENTED = Path(__file__).parents[2] / "docs" / "reference" / "trace.schema.json"


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(trace_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def table():
    return json.loads(trace_to_json(recorded("length 1")))


def test_a_recorded_trace_is_valid(validator, both_trace):
    table = json.loads(trace_to_json(both_trace))

    assert [error.message for error in validator.iter_errors(table)] == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda table: table.pop("schema"), "schema"),
        (lambda table: table.update(schema=SCHEMA + 1), "schema"),
        (lambda table: table.pop("passes"), "passes"),
        (lambda table: table["passes"][0].update(kind="dream"), "kind"),
        (lambda table: table["passes"][0].pop("steps"), "steps"),
        (lambda table: table["passes"][0]["steps"][0].update(depth="deep"), "depth"),
        (lambda table: table["passes"][0]["steps"][-1]["outputs"][0].update(shape=["batch"]), "shape"),
        (lambda table: table["passes"][0]["steps"][-1]["outputs"][0].update(role="extra"), "role"),
        (lambda table: table["sizes"].update(batch=8.5), "sizes"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(validator, table, change, name):
    change(table)

    (error, *_) = validator.iter_errors(table)
    assert name in f"{error.message} {list(error.absolute_path)}"
    with pytest.raises(TraceError):
        trace_from_json(json.dumps(table))


@pytest.mark.parametrize("kind", [Trace, Pass, Step, TensorRecord, MaskFacts, Preview, Statistics])
def test_the_schema_has_every_field_of_every_record(kind):
    described = json.loads(trace_schema())["$defs"][kind.__name__]

    assert list(described["properties"]) == list(kind.__dataclass_fields__)
    assert described["description"].split() == kind.__doc__.split()


def test_the_documented_schema_is_that_of_the_record(update_golden):
    if update_golden:
        DOCUMENTED.write_text(trace_schema(), encoding="utf-8")

    assert DOCUMENTED.read_text(encoding="utf-8") == trace_schema()


def test_the_command_line_gives_the_schema(capsys, tmp_path):
    assert run(["schema"]) == 0
    assert capsys.readouterr().out == trace_schema()

    assert run(["schema", "-o", str(tmp_path / "a.json")]) == 0
    assert (tmp_path / "a.json").read_text() == trace_schema()
