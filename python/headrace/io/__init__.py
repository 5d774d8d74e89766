"""Files and images: functions that work alone and as native stages of a pipeline.

``load_image("a.jpg", width=224, height=224)`` returns a `CPUBuffer`. Handed to
``PipelineBuilder.pipe``, alone or in `functools.partial`, the same function runs in the
C engine without the GIL.

Every result is a `CPUBuffer`: ``numpy.asarray(buffer)``, ``numpy.from_dlpack(buffer)``,
``torch.from_dlpack(buffer)`` and ``memoryview(buffer)`` share its memory and keep it
alive.
"""

from headrace._ext import CPUBuffer, ImageInfo
from headrace.errors import SlotFailure
from headrace.io._arrays import convert_frames, to_numpy, to_torch
from headrace.io._crops import CenterCrop, RandomResizedCrop, random_horizontal_flip
from headrace.io._encode import encode_image, save_image
from headrace.io._files import read_file
from headrace.io._images import (
    jpeg_counts,
    load_image,
    load_image_batch,
    load_image_frames,
    resize,
)
from headrace.io._info import image_info, image_info_batch
from headrace.io._limits import ImageLimits
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
    "ImageInfo",
    "ImageLimits",
    "RandomResizedCrop",
    "SlotFailure",
    "center_crop",
    "convert_frames",
    "crop",
    "encode_image",
    "horizontal_flip",
    "image_info",
    "image_info_batch",
    "jpeg_counts",
    "load_image",
    "load_image_batch",
    "load_image_frames",
    "normalize",
    "random_horizontal_flip",
    "read_file",
    "resize",
    "resized_crop",
    "save_image",
    "to_numpy",
    "to_torch",
    "transform",
]
