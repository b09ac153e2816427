"""Graphviz, which comes inside a wheel; a few libraries of the system it takes for granted."""

import re
from types import ModuleType

from xray.errors import DrawError

LIBRARY = re.compile(r"\blib[\w.+-]*\.so[\w.]*")


def load_graphviz() -> ModuleType:
    """The module that holds Graphviz.

    Raises:
        DrawError: the system has no glib or no X11, as a slim container.
    """
    try:
        import pygraphviz
    except ImportError as error:
        missing = LIBRARY.search(str(error))
        if missing is None:
            raise
        raise DrawError(
            f"Graphviz is there, but {missing[0]} is not, which it takes for granted. Install it: apt-get install "
            "libglib2.0-0 libxrender1 libxext6 libexpat1 on Debian and Ubuntu, dnf install glib2 libXrender libXext "
            "expat on Fedora. Or write a trace (-o trace.json) and draw it elsewhere: xray draw trace.json"
        ) from error
    module: ModuleType = pygraphviz
    return module
