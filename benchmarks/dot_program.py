"""A `dot` program for tracers that call one, where none is installed: the Graphviz that X-Ray has in itself."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory


@contextmanager
def offer_dot() -> Iterator[None]:
    """Inside the block there is a `dot` on the path."""
    if which("dot"):
        yield
        return
    before = os.environ["PATH"]
    with TemporaryDirectory() as folder:
        program = Path(folder) / "dot"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
        program.chmod(0o755)
        os.environ["PATH"] = folder + os.pathsep + before
        try:
            yield
        finally:
            os.environ["PATH"] = before


def main(arguments: list[str]) -> None:
    """What `dot -Tsvg [-Kdot] [-O | -o out] [file]` does."""
    import pygraphviz

    if "-V" in arguments:
        print(f"dot - graphviz (inside pygraphviz {pygraphviz.__version__})", file=sys.stderr)
        return
    form = next((one[2:] for one in arguments if one.startswith("-T")), "svg").split(":")[0]
    engine = next((one[2:] for one in arguments if one.startswith("-K")), "dot")
    target = arguments[arguments.index("-o") + 1] if "-o" in arguments else None
    files = [one for one in arguments if not one.startswith("-") and one != target]
    text = Path(files[0]).read_text(encoding="utf-8") if files else sys.stdin.read()
    drawn = pygraphviz.AGraph(string=text).draw(format=form, prog=engine)
    if "-O" in arguments:
        target = f"{files[0]}.{form}"
    if target is None:
        sys.stdout.buffer.write(drawn)
    else:
        Path(target).write_bytes(drawn)


if __name__ == "__main__":
    main(sys.argv[1:])
