"""Read, decode, resize and batch the pictures of a folder; write a contact sheet.

    python examples/quickstart.py FOLDER [--items 384] [--sheet build/quickstart.png]

The pictures are repeated until there are enough items. The label of each is its number
in the folder.
"""

import argparse
import itertools
import os
import struct
import sys
import time
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.io import load_image_batch
from headrace.pipeline import PipelineBuilder

BATCH = 32
SIDE = 224

Pixels = npt.NDArray[np.uint8]


def find_pictures(folder: Path) -> list[Path]:
    """Return the JPEG and PNG files of a folder, sorted."""
    suffixes = {".jpg", ".jpeg", ".png"}
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in suffixes)


def contact_sheet(images: Pixels, columns: int = 8, gap: int = 8) -> Pixels:
    """Lay pictures (N, H, W, 3) out on one white sheet (rows, columns, 3)."""
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    shape = (rows * (height + gap) + gap, columns * (width + gap) + gap, channels)
    sheet = np.full(shape, 255, np.uint8)
    for number, image in enumerate(images):
        y = gap + number // columns * (height + gap)
        x = gap + number % columns * (width + gap)
        sheet[y : y + height, x : x + width] = image
    return sheet


def write_png(path: Path, pixels: Pixels) -> None:
    """Write (H, W, 3) pixels as a PNG file."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        checksum = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)

    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 6))
        + chunk(b"IEND", b"")
    )


def main() -> None:
    """Run the pipeline over a folder and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, default=12 * BATCH)
    parser.add_argument("--sheet", type=Path, default=Path("build/quickstart.png"))
    arguments = parser.parse_args()

    pictures = find_pictures(arguments.folder)
    if not pictures:
        sys.exit(f"no JPEG or PNG files in '{arguments.folder}'")
    labelled = [(str(path), label) for label, path in enumerate(pictures)]
    samples = list(itertools.islice(itertools.cycle(labelled), arguments.items))
    threads = len(os.sched_getaffinity(0))
    print(f"{len(pictures)} pictures, {len(samples)} items, {threads} threads")

    load = partial(load_image_batch, width=SIDE, height=SIDE, strict=False)
    pipeline = (
        PipelineBuilder()
        .add_source(samples)
        .aggregate(BATCH, columns=True)
        .pipe(load, key=0)
        .add_sink(4)
        .build(num_threads=threads)
    )

    count = 0
    sheet = None
    begin = time.perf_counter()
    with pipeline.auto_stop():
        for images, labels in pipeline:
            batch = np.asarray(images)
            print(f"batch {batch.shape} {batch.dtype}, labels {labels[:3]} …")
            count += len(batch)
            if sheet is None:
                sheet = contact_sheet(batch)
    seconds = time.perf_counter() - begin

    print(f"{count} images in {seconds:.2f} s: {count / seconds:.0f} images per second")
    print(pipeline.bottleneck())
    if sheet is not None:
        write_png(arguments.sheet, sheet)
        print(f"the first batch is in {arguments.sheet}")


if __name__ == "__main__":
    main()
