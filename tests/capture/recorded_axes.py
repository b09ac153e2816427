"""The axes of each step of a recorded model."""

import xray


def axes_of(model, *args, **kwargs):
    return {step.path: [record.axes for record in step.outputs] for step in xray.trace(model, *args, **kwargs).steps}
