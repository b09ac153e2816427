"""Where a call was written: file and line, found in the stack of running frames."""

import os
from pathlib import Path
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
        *(f"{ROOM}{name}.py" for name in ("recorder", "journal", "operator", "operations", "locations")),
        *(f"{ROOM}kernels{os.sep}{name}.py" for name in ("fast_path", "fused")),
        str(Path(ROOM).parent / "sources" / "known_values.py"),
        *(
            str(Path(torch.__file__).parent / name)
            for name in (
                *("_library/custom_ops.py", "_higher_order_ops/flex_attention.py"),
                *("nn/attention/varlen.py", "nn/attention/flex_attention.py", "_dynamo/eval_frame.py"),
            )
        ),
    }
)
"""Files that stand between a call and what it reaches."""

Line = tuple[CodeType, int]
"""A place in running code: the code and the last instruction; which line that is can be asked later."""


class Locations:
    """Finds the line that made a call, and spells each line only once."""

    def __init__(self) -> None:
        self._folders: dict[CodeType, str] = {}
        self._spelt: dict[Line, str] = {}

    def find(self, frame: FrameType | None) -> Line | None:
        """The nearest line that is neither torch's machinery nor the recorder's own."""
        while frame is not None:
            code = frame.f_code
            if code.co_filename not in MACHINERY:
                if code not in self._folders:
                    self._folders[code] = find_folder(frame)
                return (code, frame.f_lasti)
            frame = frame.f_back
        return None

    def spell(self, line: Line) -> str:
        """A line as one says it, "my_model/attention.py:41", with no folder of the user's machine in it."""
        spelt = self._spelt.get(line)
        if spelt is None:
            code, instruction = line
            file = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
            spelt = self._spelt[line] = f"{self._folders[code]}{file}:{find_line(code, instruction)}"
        return spelt


def find_folder(frame: FrameType) -> str:
    """The folders of the module that the code is in: "my_model/" for my_model.attention."""
    name = str(frame.f_globals.get("__name__", "__main__"))
    return "".join(f"{part}/" for part in name.split(".")[:-1])


def find_line(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno
