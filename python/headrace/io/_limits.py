"""What is refused of pictures from elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLimits:
    """Limits on one picture, checked by its header before memory is spent on it.

    A picture beyond one of them raises `headrace.errors.LimitError`, which names it.

    Attributes:
        pixels: Width times height.
        side: Width and height, in pixels.
        decoded_bytes: What decoding holds, and what it gives.
        encoded_bytes: The file, or the encoded data.
        expansion: Decoded bytes per encoded byte; judged above 64 MiB only.
        scans: Scans of a JPEG.
        frames: Frames that `load_image_frames` loads.
    """

    pixels: int = 178_956_970
    side: int = 65_535
    decoded_bytes: int = 1 << 30
    encoded_bytes: int = 256 << 20
    expansion: int = 1_000
    scans: int = 100
    frames: int = 10_000
