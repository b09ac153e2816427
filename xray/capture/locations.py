"""Where a call was written: file and line, found in the stack of running frames."""

from types import CodeType, FrameType

import torch
import torch.nn.functional
from torch import _tensor, overrides
from torch.nn.modules import module as torch_module
from torch.utils import _python_dispatch

ROOM = __file__.rsplit("locations.py", 1)[0]
MACHINERY = frozenset(
    {
        torch_module.__file__,
        overrides.__file__,
        _tensor.__file__,
        _python_dispatch.__file__,
        torch.functional.__file__,
        torch.nn.functional.__file__,
        torch._ops.__file__,
        *(
            f"{ROOM}{name}.py"
            for name in ("recorder", "journal", "operator", "operations", "fast_path", "fused", "locations")
        ),
    }
)
"""Files that stand between a call and what it reaches."""


class Locations:
    """Finds the line that made a call, and spells each line only once."""

    def __init__(self) -> None:
        self._spelt: dict[tuple[CodeType, int], str] = {}

    def find(self, frame: FrameType | None) -> str | None:
        """The nearest line that is neither torch's machinery nor the recorder's own: "my_model/attention.py:41"."""
        while frame is not None and frame.f_code.co_filename in MACHINERY:
            frame = frame.f_back
        if frame is None:
            return None
        key = (frame.f_code, frame.f_lineno)
        spelt = self._spelt.get(key)
        if spelt is None:
            spelt = self._spelt[key] = spell_location(frame)
        return spelt


def spell_location(frame: FrameType) -> str:
    """The file by the module it is, so that no folder of the user's machine gets into a trace."""
    name = str(frame.f_globals.get("__name__", "__main__"))
    file = frame.f_code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
    folder = "/".join(name.split(".")[:-1])
    return f"{folder}/{file}:{frame.f_lineno}" if folder else f"{file}:{frame.f_lineno}"
