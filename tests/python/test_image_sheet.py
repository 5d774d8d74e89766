"""The contact sheet: each option gives in each format what it gives in the others."""

import numpy as np
import pytest
from image_sheet import COLUMNS, SCENE, cells, sheet
from PIL import Image


@pytest.fixture(scope="module")
def made():
    return cells()


@pytest.mark.parametrize("title", [c[0] for c in COLUMNS if c[0] != "two thirds"])
def test_a_column_shows_one_picture(made, title):
    column = {fmt: cell.astype(int) for (fmt, t), cell in made.items() if t == title}
    first = column.get("PNG", column.get("TIFF"))
    assert len(column) >= 2
    for fmt, cell in column.items():
        # Lossy with half the chroma, enlarged, or of 200 colours; others are off by 5.
        assert np.abs(cell - first).mean() < 4, fmt
    others = [c for (_, t), c in made.items() if t != title and t != "turned: pad"]
    if title not in {"as it is", "turned: pad", "CMYK", "frame 1"}:
        assert min(np.abs(first - other).mean() for other in others) > 5


def test_the_scene_stands_upright(made):
    small = SCENE.resize((128, 96), Image.Resampling.BICUBIC)
    for title in ("as it is", "turned: pad", "CMYK"):
        for (fmt, t), cell in made.items():
            if t == title:
                assert np.abs(cell.astype(int) - small).mean() < 3, (title, fmt)


def test_the_sheet_has_them_all(made):
    pixels = sheet(made)
    assert pixels.dtype == np.uint8
    for cell in made.values():
        # Somewhere on the sheet its middle row is found.
        row = np.ascontiguousarray(cell[48]).tobytes()
        assert any(row in line.tobytes() for line in pixels)
