"""The steps of a trace as comma-separated values, a row for each, for spreadsheets and data frames."""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from io import StringIO

from xray.ir.records import TensorRecord
from xray.ir.trace import Pass, Step, Trace
from xray.ir.work import StepWork, measure_work
from xray.story.alarms.kinds import Alarm
from xray.story.alarms.whole import find_alarms
from xray.story.facts.exchanges import read_exchange
from xray.story.facts.mask_names import name_mask
from xray.story.facts.selection import Pick
from xray.story.roles.listing import list_roles
from xray.text import show_controls

COLUMNS = (
    *("pass", "turn", "number", "id", "path", "operation", "role", "module", "layer", "inside"),
    *("input shapes", "output shapes", "output axes", "output types", "mask", "hidden"),
    *("parameters", "FLOPs", "elements", "bytes", "line", "error"),
    *("output shapes on this rank", "placements", "exchanged along", "exchanged bytes"),
    *("alarm", "what is wrong", "what to do"),
)
FORMULA = ("=", "+", "-", "@")
"""How a cell begins that a spreadsheet would compute; names from outside must not."""


def write_csv(trace: Trace, pick: Pick | None = None) -> str:
    """Every step of every pass, or those picked, layers that are alike included, under a line of headings."""
    out = StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    roles, alarms = list_roles(trace), group_alarms(trace)
    for one_pass in trace.passes:
        told, work = roles.get(one_pass.key, {}), measure_work(one_pass)
        for number, step in enumerate(one_pass.steps, start=1):
            if not pick or pick.takes(step):
                alarm = describe_alarms(alarms.get((one_pass.kind, one_pass.number, step.id), ()))
                cells = list_cells(step, told, work[step.id], one_pass)
                rows.writerow(map(defuse, (one_pass.kind, one_pass.number or "", number, *cells, *alarm)))
    return out.getvalue()


def group_alarms(trace: Trace) -> Mapping[tuple[str, int, str], Sequence[Alarm]]:
    """The alarms of each step, by pass and id."""
    found: dict[tuple[str, int, str], list[Alarm]] = defaultdict(list)
    for alarm in find_alarms(trace):
        found[alarm.pass_kind, alarm.number, alarm.step].append(alarm)
    return found


def describe_alarms(alarms: Sequence[Alarm]) -> tuple[str, str, str]:
    """The kinds of a step's alarms, what is wrong at which line, and what to do."""
    return (
        "; ".join(alarm.kind for alarm in alarms),
        " ".join(f"{alarm.location or alarm.step}: {alarm.text}" for alarm in alarms),
        " ".join(dict.fromkeys(alarm.remedy for alarm in alarms)),
    )


def list_cells(step: Step, roles: Mapping[str, str], work: StepWork, one_pass: Pass) -> tuple[object, ...]:
    record = next((one for one in (*step.outputs, *step.inputs) if one.role == "mask" and one.mask is not None), None)
    facts, exchange = record.mask if record is not None else None, read_exchange(step)
    names = (step.id, step.path, step.op, roles.get(step.id, ""), step.module)
    return (
        *names,
        "" if step.layer is None else step.layer,
        step.parent or "",
        list_shapes(step.inputs),
        list_shapes(step.outputs),
        "; ".join(" x ".join(axis or "?" for axis in one.axes) for one in step.outputs),
        "; ".join(dict.fromkeys(one.dtype for one in step.outputs)),
        name_mask(facts) if facts is not None else "",
        facts.hidden_share if facts is not None else "",
        step.params,
        "" if work.uncounted else work.flops,
        work.elements,
        work.bytes,
        step.location or "",
        " ".join((step.error or "").split()),
        "; ".join("x".join(map(str, one.local)) or "1" for one in step.outputs if one.local is not None),
        "; ".join(one.placement or "?" for one in step.outputs if one.local is not None),
        exchange.group if exchange is not None else "",
        exchange.bytes if exchange is not None else "",
    )


def list_shapes(records: Sequence[TensorRecord]) -> str:
    """Shapes as 8x4x10; 1 for a single number."""
    return "; ".join("x".join(map(str, one.shape)) or "1" for one in records)


def defuse(cell: object) -> object:
    """A cell that is shown as it is, and never computed."""
    if not isinstance(cell, str):
        return cell
    text = show_controls(cell)
    return f"'{text}" if text.startswith(FORMULA) else text
