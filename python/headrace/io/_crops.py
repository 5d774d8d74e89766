"""What is taken of a picture: drawn crops and flips."""

from __future__ import annotations

from dataclasses import dataclass

from headrace import _ext


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of a picture, stretched to the target, as torchvision's.

    Of ten tries the first that fits is taken: an area of ``scale`` of the picture's,
    and a ratio of width to height whose logarithm is uniform between those of
    ``ratio``. If none fits, it is the largest rectangle in the middle whose ratio is
    allowed.

    A draw depends on seed, epoch and the picture's index alone, not on threads or on
    what was drawn before.

    Attributes:
        scale: Least and greatest part of the picture's area.
        ratio: Least and greatest ratio of width to height.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def get_params(
        self, width: int, height: int, *, seed: int = 0, epoch: int = 0, index: int = 0
    ) -> tuple[int, int, int, int]:
        """Tell what is taken of a picture.

        Args:
            width: The picture's, as it is shown.
            height: The picture's, as it is shown.
            seed: As for `load_image`.
            epoch: As for `load_image`.
            index: The picture's number: in a pipeline, in the source.

        Returns:
            (top, left, height, width), in pixels of the picture.

        Raises:
            ValueError: A size is below 1, or ``scale`` or ``ratio`` does not rise.
        """
        return _ext.draw_box(width, height, self, seed, epoch, index)


@dataclass(frozen=True)
class CenterCrop:
    """The middle of a picture, as torchvision's ``Resize`` and ``CenterCrop``.

    The picture is scaled so that its shorter side is ``resize_size``, and the target is
    cut out of its middle; where it is smaller, black surrounds it.

    Attributes:
        resize_size: Of the shorter side, in pixels. `None`: the picture is not scaled.
    """

    resize_size: int | None = None


def random_horizontal_flip(
    p: float = 0.5, *, seed: int = 0, epoch: int = 0, index: int = 0
) -> bool:
    """Tell whether `load_image` flips a picture.

    Args:
        p: The probability, as for the argument ``flip`` of `load_image`.
        seed: As for `load_image`.
        epoch: As for `load_image`.
        index: The picture's number: in a pipeline, in the source.

    Returns:
        `True` where it does.

    Raises:
        ValueError: ``p`` is not 0 to 1.
    """
    return _ext.draw_flip(p, seed, epoch, index)
