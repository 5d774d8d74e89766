"""Files and images: functions that work alone and as native stages of a pipeline.

``load_image("a.jpg", width=224, height=224)`` returns a `CPUBuffer`. Handed to
``PipelineBuilder.pipe``, alone or in `functools.partial`, the same function runs in the
C engine without the GIL.

Every result is a `CPUBuffer`: ``numpy.asarray(buffer)``, ``numpy.from_dlpack(buffer)``,
``torch.from_dlpack(buffer)`` and ``memoryview(buffer)`` share its memory and keep it
alive.
"""

from headrace._ext import CPUBuffer
from headrace.errors import SlotFailure
from headrace.io._arrays import convert_frames, to_numpy, to_torch
from headrace.io._crops import CenterCrop, RandomResizedCrop, random_horizontal_flip
from headrace.io._files import read_file
from headrace.io._images import jpeg_counts, load_image, load_image_batch, resize
from headrace.io._transforms import (
    center_crop,
    crop,
    horizontal_flip,
    normalize,
    resized_crop,
    transform,
)

__all__ = [
    "CPUBuffer",
    "CenterCrop",
    "RandomResizedCrop",
    "SlotFailure",
    "center_crop",
    "convert_frames",
    "crop",
    "horizontal_flip",
    "jpeg_counts",
    "load_image",
    "load_image_batch",
    "normalize",
    "random_horizontal_flip",
    "read_file",
    "resize",
    "resized_crop",
    "to_numpy",
    "to_torch",
    "transform",
]
