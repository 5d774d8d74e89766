"""How far a picture's planes lead from its RGB: the table of docs/images.md.

Run as ``python -m bench.roads`` where headrace, Pillow and NumPy are installed, after
``tools/fetch_photos``. Each photograph is encoded by Pillow, loaded at 224×224 with
``exact=False`` and ``exact=True``, and the two are compared.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

import headrace.io
from bench.common import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

SIDE = 224
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "JPEG 4:2:0 q90": ("JPEG", {"quality": 90, "subsampling": 2}),
    "JPEG 4:4:4 q90": ("JPEG", {"quality": 90, "subsampling": 0}),
    "JPEG 4:2:0 q75": ("JPEG", {"quality": 75, "subsampling": 2}),
    "WebP q80": ("WEBP", {"quality": 80}),
    "AVIF 4:2:0 q80": ("AVIF", {"quality": 80, "subsampling": "4:2:0", "speed": 8}),
    "AVIF 4:4:4 q80": ("AVIF", {"quality": 80, "subsampling": "4:4:4", "speed": 8}),
}


def encoded(kind: str) -> Iterator[bytes]:
    """All photographs in colour."""
    for path in sorted((ROOT / ".cache" / "photos").glob("*.*")):
        picture = Image.open(path)
        if picture.mode not in ("RGB", "RGBA"):
            continue
        out = io.BytesIO()
        fmt, options = KINDS[kind]
        picture.convert("RGB").save(out, fmt, **options)
        yield out.getvalue()


def difference(data: bytes, algo: Any) -> np.ndarray:
    """In levels, of every value."""
    roads = [
        np.asarray(
            headrace.io.load_image(
                data,
                width=SIDE,
                height=SIDE,
                scale_mode=None,
                scale_algo=algo,
                exact=exact,
            )
        ).astype(int)
        for exact in (False, True)
    ]
    return abs(roads[0] - roads[1])


def row(kind: str, algo: str) -> str:
    offs = [difference(data, algo) for data in encoded(kind)]
    psnr = [10 * math.log10(255**2 / float((off**2).mean())) for off in offs]
    off = np.concatenate([off.ravel() for off in offs])
    return (
        f"| {kind} {algo} | {np.mean(psnr):.1f} | {min(psnr):.1f} "
        f"| {off.mean():.2f} | {100 * (off > 1).mean():.2f} % | {off.max()} |"
    )


def main() -> None:
    print("| | PSNR, mean | least | levels, mean | off by > 1 | most |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind in KINDS:
        for algo in ("bilinear", "bicubic"):
            print(row(kind, algo), flush=True)


if __name__ == "__main__":
    main()
