"""DOT text as SVG, PNG or PDF, drawn by Graphviz inside this process."""

import re
from struct import pack
from typing import Literal
from zlib import crc32

from xray.errors import DrawError
from xray.renderers.engine import load_graphviz
from xray.renderers.fonts import own_fonts, unheard
from xray.text import show_controls

ImageForm = Literal["svg", "png", "pdf"]
Program = Literal["nop2", "dot"]

CREATION_DATE = re.compile(rb"(/CreationDate \(D:)(\d+)")
"""When a PDF was drawn; left out, so that the same trace gives the same bytes."""

HEADER_END = 33
"""Where the first chunk of a PNG ends, behind which its resolution may stand."""


def draw_dot(dot: str, form: ImageForm | Literal["dot"], program: Program = "nop2") -> bytes:
    """What Graphviz draws from a DOT text, with our fonts; as "dot" the text with every place filled in.

    Raises:
        DrawError: Graphviz refuses the text, or cannot be loaded.
    """
    pygraphviz = load_graphviz()

    with own_fonts(), unheard():
        try:
            drawn = pygraphviz.AGraph(string=dot).draw(format=form, prog=program)
        except (OSError, ValueError, pygraphviz.DotError) as error:
            reason = show_controls(" ".join(str(error).split()))
            raise DrawError(f"Graphviz cannot draw this as {form}: {reason}. Try another format.") from error
    if not isinstance(drawn, bytes):
        raise DrawError(f"Graphviz drew no {form}. Try another format.")
    return CREATION_DATE.sub(lambda found: found[1] + b"0" * len(found[2]), drawn) if form == "pdf" else drawn


def state_resolution(png: bytes, dpi: int) -> bytes:
    """A PNG that says how many dots make an inch, so that it is printed as large as it was meant."""
    per_metre = round(dpi / 0.0254)
    chunk = b"pHYs" + pack(">IIB", per_metre, per_metre, 1)
    return png[:HEADER_END] + pack(">I", len(chunk) - 4) + chunk + pack(">I", crc32(chunk)) + png[HEADER_END:]
