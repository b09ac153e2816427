"""A model that does what a test asks of it."""

from torch import nn


class Model(nn.Module):
    """A module around a function, for tests that need nothing else."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


def ops(recorded):
    return [step.op for step in recorded.steps]
