"""A trace without any name that means something."""

from dataclasses import replace


def scramble(trace, kept=lambda name: False):
    """The same trace with meaningless paths, module names and tensor names; what the steps do is left.

    So are names that are to be `kept`.
    """
    words = {}

    def hide(name):
        return name if kept(name) else words.setdefault(name, f"n{len(words)}")

    def hide_id(identity):
        turn, colon, own = (identity or "").rpartition(":")
        path, _, call = own.rpartition("#")
        return f"{turn}{colon}{hide(path)}#{call}" if identity else None

    def hide_record(record):
        return replace(record, name=hide(record.name), source=hide_id(record.source), weight=hide_weight(record.weight))

    def hide_weight(name):
        return ".".join(map(hide, name.split("."))) if name is not None else None

    def hide_step(step):
        return replace(
            step,
            weights={hide_weight(name): size for name, size in step.weights.items()},
            id=hide_id(step.id),
            path=hide(step.path),
            parent=hide_id(step.parent),
            module=hide(step.module) if step.module else "",
            layer=None,
            inputs=tuple(map(hide_record, step.inputs)),
            outputs=tuple(map(hide_record, step.outputs)),
        )

    passes = tuple(replace(one, steps=tuple(map(hide_step, one.steps))) for one in trace.passes)
    return replace(trace, passes=passes), {scrambled: path for path, scrambled in words.items()}
