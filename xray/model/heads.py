"""Cutting d_model into heads and joining them again, by view and transpose alone: no number changes."""

from torch import Tensor, nn


class ViewAsHeads(nn.Module):
    """The last axis cut in two: which head, and which place within it.

    Shapes:
        x:   (batch, len, d_model)
        out: (batch, len, heads, d_k)
    """

    operation = "view"

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        batch, length, d_model = x.shape
        return x.view(batch, length, self.heads, d_model // self.heads)


class SwapHeadsAndLength(nn.Module):
    """The second and third axes exchanged, so that each head holds a whole sequence, or gives it back.

    Shapes:
        x:   (batch, len, heads, d_k)
        out: (batch, heads, len, d_k)
    """

    operation = "transpose"

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class SplitHeads(nn.Module):
    """Cut d_model into heads, so each head sees its own slice.

    Shapes:
        x:   (batch, len, d_model)
        out: (batch, heads, len, d_k)    d_k = d_model / heads
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.view = ViewAsHeads(heads)
        self.transpose = SwapHeadsAndLength()

    def forward(self, x: Tensor) -> Tensor:
        return self.transpose(self.view(x))  # type: ignore[no-any-return]  # nn.Module calls are untyped


class ViewAsWidth(nn.Module):
    """Heads and their width laid end to end as one axis.

    Shapes:
        x:   (batch, len, heads, d_k)
        out: (batch, len, d_model)
    """

    operation = "view"

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(-2)


class ConcatHeads(nn.Module):
    """The heads side by side again, as one vector for each position.

    Shapes:
        x:   (batch, heads, len, d_k)
        out: (batch, len, d_model)
    """

    def __init__(self) -> None:
        super().__init__()
        self.transpose = SwapHeadsAndLength()
        self.view = ViewAsWidth()

    def forward(self, x: Tensor) -> Tensor:
        return self.view(self.transpose(x))  # type: ignore[no-any-return]  # nn.Module calls are untyped
