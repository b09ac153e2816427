"""Which of a trace's settings are not the default: a reader who knows the paper needs to be told just these."""

from dataclasses import MISSING, dataclass, fields

from xray.config import ModelConfig, TrainConfig
from xray.ir.trace import Setting, Trace


@dataclass(frozen=True)
class ChangedSetting:
    """A setting, what it is in this trace, and what it would be by default."""

    name: str
    value: Setting
    default: Setting


def changed_settings(trace: Trace) -> tuple[ChangedSetting, ...]:
    """The settings of a trace that differ from their defaults, in the configuration's order."""
    defaults = {
        entry.name: entry.default
        for kind in (ModelConfig, TrainConfig)
        for entry in fields(kind)
        if entry.default is not MISSING
    }
    return tuple(
        ChangedSetting(name, trace.config[name], default)
        for name, default in defaults.items()
        if name in trace.config and trace.config[name] != default
    )
