"""Small models of which some fail."""

from torch import nn


class Shy(nn.Module):
    """Two linear layers, one of them called twice, and dropout."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, 7)
        self.again = nn.Linear(7, 7)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, scale=None):
        x = self.again(self.again(self.first(x)))
        return self.dropout(x if scale is None else x * scale)


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.fine = nn.Linear(5, 7)
        self.wrong = nn.Linear(11, 3)

    def forward(self, x):
        return self.wrong(self.fine(x))
