"""Make every picture of the gallery anew, from the recipes in gallery.py: python docs/make_gallery.py [NAME ...]

It draws the chatbot that `xray demo` left in runs/movie_qa, or in --run FOLDER. With names, only those are made.
"""

import argparse
import io
import os
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gallery import PICTURES, Picture
from PIL import Image

ROOT = Path(__file__).parent.parent
PLACE = Path(__file__).parent / "pictures"
WIDEST, TALLEST = 1200, 3000
"""Pixels that a picture may have; its recipe draws it larger, or as SVG, for whoever wants to zoom."""
QUALITY = 51


def main(chatbot: Path, names: list[str]) -> None:
    """Draw the pictures with these names, or all; take away files that are no longer in the gallery."""
    if not chatbot.is_dir():
        sys.exit(f"there is no chatbot in {chatbot}. Make it first: xray demo")
    PLACE.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        (Path(folder) / "runs").mkdir()
        (Path(folder) / "runs" / "movie_qa").symlink_to(chatbot.resolve())
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        for picture in PICTURES:
            if not names or picture.file.removesuffix(".webp") in names:
                size = shrink(draw(picture, Path(folder)), PLACE / picture.file)
                print(f"{picture.file:22} {size:9,} bytes", flush=True)
    known = {picture.file for picture in PICTURES}
    for path in PLACE.glob("*.webp"):
        if path.name not in known:
            path.unlink()
    print(f"{'together':22} {sum(path.stat().st_size for path in PLACE.glob('*.webp')):9,} bytes")


def draw(picture: Picture, folder: Path) -> bytes:
    """The PNG that a recipe makes, run in a folder that has the chatbot and the examples."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder)))}
    if picture.language == "python":
        code = f"{picture.source}\nimport pathlib\npathlib.Path('drawn.png').write_bytes(picture)"
        command, made = [sys.executable, "-c", code], "drawn.png"
    else:
        words = shlex.split(picture.source)
        command, made = [sys.executable, "-m", *words, *(["-q"] if words[1] == "trace" else [])], words[-1]
    subprocess.run(command, cwd=folder, check=True, env=environment)  # noqa: S603  # our own recipes
    return (folder / made).read_bytes()


def shrink(png: bytes, target: Path) -> int:
    """Write a picture as WebP, no larger than it may be; its size in bytes."""
    Image.MAX_IMAGE_PIXELS = None  # a poster of a tall model is large, and our own
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.thumbnail((WIDEST, TALLEST), Image.Resampling.LANCZOS)
    image.save(target, quality=QUALITY, method=6)
    return target.stat().st_size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make every picture of the gallery anew.")
    parser.add_argument("names", nargs="*", help="only these, as poster_dark")
    parser.add_argument("--run", type=Path, default=ROOT / "runs" / "movie_qa", help="the chatbot's folder")
    given = parser.parse_args()
    main(given.run, given.names)
