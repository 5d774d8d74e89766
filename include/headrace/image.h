/* Images: bytes or a path in, pixels out.
 *
 * Rows come top to bottom, channels last (HWC). The format is recognised by content,
 * never by name. Limits are checked before anything is allocated. What the pixels of a
 * picture are, format by format, is written in docs/images.md. A picture that is cut
 * off or damaged is an error, never partly grey. */
#ifndef HEADRACE_IMAGE_H
#define HEADRACE_IMAGE_H

#include "headrace/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples of 16 bits are uint16 in native order. */
enum hr_pix_fmt {
    HR_RGB24 = 0,  /* H, W, 3: red, green, blue */
    HR_BGR24 = 1,  /* H, W, 3 */
    HR_GRAY = 2,   /* H, W, 1 */
    HR_RGBA = 3,   /* H, W, 4; alpha is not multiplied into the colours */
    HR_GRAY16 = 4, /* H, W, 1 of uint16 */
    HR_RGB48 = 5   /* H, W, 3 of uint16 */
};

/* What becomes of the orientation that a file states (EXIF's tag and its like). */
enum hr_orientation {
    HR_ORIENTATION_APPLY = 0, /* pixels as they are meant to be seen */
    HR_ORIENTATION_IGNORE = 1 /* pixels as stored */
};

/* The order of the dimensions. */
enum hr_layout {
    HR_HWC = 0, /* height, width, channels */
    HR_CHW = 1  /* channels, height, width */
};

/* How a picture of w x h fills a target of W x H.
 *
 * PAD and CROP scale both sides by the same factor, so that one side becomes exactly W
 * or H. The other is its product rounded half up, and at least 1: with PAD
 * round(h * W / w) <= H or round(w * H / h) <= W, with CROP the one that is not less.
 * What is free (PAD) or too much (CROP) is halved between both ends; of an odd number
 * the smaller half is at the left or top. CROP gives what cutting the whole scaled
 * picture would give. These are the rules of FFmpeg's scale, pad and crop. */
enum hr_scale_mode {
    HR_SCALE_STRETCH = 0, /* fill the target; the aspect ratio may change */
    HR_SCALE_PAD = 1,     /* fit inside, centred on black (letterbox) */
    HR_SCALE_CROP = 2     /* cover the target, cut centrally */
};

/* A rectangle of pixels, its sides in torchvision's order. */
struct hr_box {
    int64_t top;
    int64_t left;
    int64_t height;
    int64_t width;
};

/* What is taken of the shown picture. A filter does not look beyond it: the result is
 * that of cutting first and scaling then. Of a JPEG no more than that is decoded, so
 * damage below it is not seen.
 *
 * BOX     options.box, or that of the slot; scaled as the mode says. It must lie inside.
 * CENTER  torchvision's Resize(resize_size) and CenterCrop((height, width)): the shorter
 *         side becomes resize_size, the longer one resize_size * long / short, rounded
 *         down (0: nothing is scaled); the target is cut out of the middle, or surrounded
 *         by black. Half pixels go to the even side of a cut. mode means nothing.
 * RANDOM  torchvision's RandomResizedCrop: of ten tries the first that fits of an area
 *         scale[0] … scale[1] of the whole and a ratio of width to height whose logarithm
 *         is uniform between those of ratio[0] and ratio[1]; else the largest central
 *         rectangle of a ratio within these. It fills the target. */
enum hr_crop {
    HR_CROP_NONE = 0,
    HR_CROP_BOX = 1,
    HR_CROP_CENTER = 2,
    HR_CROP_RANDOM = 3
};

/* Antialiased: the filter's support grows with the down-scaling factor. Results of RGB
 * pixels equal those of Image.resize of Pillow 13 byte for byte (older versions never do
 * the vertical pass first; see src/image/resample.c). A side that keeps its length is
 * not filtered. */
enum hr_scale_algo {
    HR_SCALE_BOX = 0,
    HR_SCALE_BILINEAR = 1,
    HR_SCALE_BICUBIC = 2, /* Keys, a = -0.5 */
    HR_SCALE_LANCZOS = 3  /* a = 3 */
};

/* What becomes of a colour profile. */
enum hr_icc {
    HR_ICC_IGNORE = 0, /* the numbers stay */
    HR_ICC_SRGB = 1    /* colours are converted to sRGB, perceptually */
};

/* hr_image_options_init sets size and the defaults; options without it are refused. */
struct hr_image_options {
    size_t size;
    int64_t width;  /* target; 0 keeps the picture's own */
    int64_t height; /* target; 0 keeps the picture's own */
    enum hr_pix_fmt pix_fmt;
    enum hr_scale_mode mode; /* init sets HR_SCALE_PAD */
    enum hr_scale_algo algo; /* init sets HR_SCALE_BICUBIC */
    enum hr_orientation orientation;
    enum hr_icc icc;
    int32_t allow_truncated; /* what is missing of a picture becomes black */
    int64_t frame;           /* of an animation or of several pages, from 0 */
    int64_t background; /* 0xrrggbb to blend alpha with; -1 (init): it is dropped */
    enum hr_layout layout;
    /* HR_U8 (init): samples as pix_fmt says. HR_F16, HR_BF16, HR_F32: (sample / 255 -
     * mean) / std for each channel, of 16 bits sample / 65535. */
    enum hr_dtype dtype;
    double mean[4]; /* init sets 0 */
    double std[4];  /* init sets 1 */
    /* A JPEG, a lossy WebP or an AVIF that changes its size is resized in its own planes,
     * and coloured at its final size; the result differs from that of resizing RGB by rounding and
     * clamping (docs/images.md has figures). exact: resize RGB. */
    int exact;
    /* A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, as long as that is not below
     * what it is scaled to: Pillow's draft mode. Faster, and other pixels. */
    int draft;
    enum hr_crop crop;
    struct hr_box box;
    int64_t resize_size;
    double scale[2]; /* init sets 0.08, 1 */
    double ratio[2]; /* init sets 3/4, 4/3 */
    /* The result is mirrored left to right with this chance; init sets 0, 1 is always. */
    double flip;
    /* Draws depend on these two and the picture's index alone: hr_image_draw. */
    uint64_t seed;
    uint64_t epoch;
    int64_t
        index; /* the picture's, or that of slot 0; in a pipeline: the source index */
    /* For hr_image_load_batch: of each slot, borrowed for the call; NULL: as above. */
    const struct hr_box *boxes;
    const uint8_t *flips;
    /* For direct calls: write here instead of into a new array, borrowed for the call. It
     * must be writable, of the result's shape and dtype (for HR_BF16 also HR_U16 or
     * HR_I16), and share no memory with the source; it is itself the result. After an
     * error its content is unspecified. */
    struct hr_array *into;
    /* limits */
    uint64_t pixels_max;  /* init sets 178,956,970 */
    uint64_t side_max;    /* init sets 65,535 */
    uint64_t bytes_max;   /* decoded bytes per item; init sets 1 GiB */
    uint64_t encoded_max; /* encoded bytes per item; init sets 256 MiB */
    /* decoded bytes per encoded one, above 64 MiB; init sets 1,000 */
    uint64_t expansion_max;
    int64_t frames_max; /* of hr_image_load_frames; init sets 10,000 */
    int32_t scans_max;  /* of a JPEG; init sets 100 */
    uint64_t reserved[8];
};

HR_API void hr_image_options_init(struct hr_image_options *options);

/* What HR_CROP_RANDOM takes of a picture of that size, and whether it is flipped, for
 * these options, with options.index. Draw k is a number in 0 … 1, the upper 53 bits of
 * mix(key + (k + 1) * G), where key = mix(mix(mix(seed) + epoch) + index), G =
 * 0x9e3779b97f4a7c15 and mix(z) is SplitMix64's: z += G; z = (z ^ z >> 30) *
 * 0xbf58476d1ce4e5b9; z = (z ^ z >> 27) * 0x94d049bb133111eb; z ^ z >> 31. Draw 0 is the
 * flip's; a try takes four, for area, ratio, top and left, from 1 on.
 * Errors: HR_ERR_ARG. Threads: any. */
HR_API HR_MUST_USE enum hr_status hr_image_draw(const struct hr_image_options *options,
                                                int64_t width, int64_t height,
                                                struct hr_box *box, int *flip,
                                                struct hr_error *err);

/* Decode one picture. src is a text value (a path), a bytes value, or a uint8 array.
 * name overrides the source's label in error texts (NULL: the path, or "<bytes>").
 * out: an array of shape (H, W, C), or (C, H, W), C and dtype as pix_fmt, layout and
 * dtype say. With one of width/height zero that side keeps the picture's own size.
 * With allow_truncated, HR_OK and a filled *err (HR_ERR_FORMAT) tell of a picture that is
 * not whole: the rows that could be read, and zeros.
 * Errors: HR_ERR_ARG (there is no such frame),
 * HR_ERR_IO, HR_ERR_FORMAT, HR_ERR_UNSUPPORTED, HR_ERR_LIMIT, HR_ERR_TYPE,
 * HR_ERR_NOMEM, HR_CANCELLED. Threads: any, each with its own ctx. */
HR_API HR_MUST_USE enum hr_status
hr_image_load(struct hr_ctx *ctx, const struct hr_value *src, const char *name,
              const struct hr_image_options *options, struct hr_array **out,
              struct hr_error *err);

/* Decode all frames of an animation, or all pages, into one array, (N, H, W, C) or
 * (N, C, H, W). Without a target they must be of one size. options.frame must be 0.
 * Crops and flips are drawn once for all frames. Otherwise as hr_image_load. */
HR_API HR_MUST_USE enum hr_status
hr_image_load_frames(struct hr_ctx *ctx, const struct hr_value *src, const char *name,
                     const struct hr_image_options *options, struct hr_array **out,
                     struct hr_error *err);

/* Decode n pictures into the slots of one array, (n, height, width, C) or (n, C, height,
 * width), by all idle workers; options.width and .height must be set. srcs: as for
 * hr_image_load.
 * index: source index of each slot for messages, or NULL.
 * Failed slots are zero and listed in the batch, as are those that allow_truncated kept.
 * With strict, the first failed slot
 * (the lowest number) fails the whole batch, after all were tried.
 * out: a batch value. Errors: as hr_image_load; HR_ERR_ARG for n == 0. */
HR_API HR_MUST_USE enum hr_status
hr_image_load_batch(struct hr_ctx *ctx, const struct hr_value *srcs, size_t n,
                    const int64_t *index, const struct hr_image_options *options,
                    int strict, struct hr_value *out, struct hr_error *err);

/* Resize (H, W), (H, W, C) or (N, H, W, C) uint8 pixels with C in 1 … 4 to the target,
 * stretching. Each channel is resized alone: an alpha channel is not multiplied into the
 * others. Sides are at most 65,535, the result at most 1 GiB. src is borrowed, out is
 * new.
 * Errors: HR_ERR_ARG, HR_ERR_TYPE, HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_image_resize(struct hr_ctx *ctx, const struct hr_array *src, int64_t width,
                int64_t height, enum hr_scale_algo algo, struct hr_array **out,
                struct hr_error *err);

/* The loader's crop, resize, flip, layout and type for pixels that are there already:
 * (H, W), (H, W, C) or (N, H, W, C) uint8 with C in 1 … 4, resized as by
 * hr_image_resize. Of the options pix_fmt, orientation, background, exact, draft and the
 * limits mean nothing; a picture of a stack is a slot, and has the index options.index
 * + its number. The result is shaped as src, or as the layout says; at most 1 GiB.
 * Errors: HR_ERR_ARG, HR_ERR_TYPE, HR_ERR_LIMIT, HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_image_transform(struct hr_ctx *ctx, const struct hr_array *src,
                   const struct hr_image_options *options, struct hr_array **out,
                   struct hr_error *err);

/* Copy n values of one shape and dtype into a new array with a first dimension of n.
 * frames: arrays, the arrays of batches, bytes; borrowed.
 * Errors: HR_ERR_ARG (none, or different ones; names the frame), HR_ERR_TYPE,
 * HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status hr_image_stack(const struct hr_value *frames,
                                                 size_t n, struct hr_array **out,
                                                 struct hr_error *err);

/* What a header says. */
struct hr_image_info {
    char format[8]; /* "JPEG", "PNG", "WebP", "GIF", "BMP", "TIFF", "AVIF" */
    int64_t width;  /* as shown, or as stored with HR_ORIENTATION_IGNORE */
    int64_t height;
    int32_t channels;    /* stored: 1 grey or palette, 2, 3, 4; alpha included */
    int32_t bits;        /* of a stored sample */
    int64_t frames;      /* or pages; 1 for a still picture */
    int32_t orientation; /* EXIF's number, 1 … 8 */
    int32_t has_icc;     /* there is a colour profile */
};

/* A value that holds a struct hr_image_info. */
HR_API extern const struct hr_value_class hr_image_info_class;
/* Borrowed from the value; NULL for one of another class. */
HR_API const struct hr_image_info *hr_image_info_peek(const struct hr_value *value);

/* Read a picture's header and no pixel. Of the options, orientation and encoded_max
 * count. out: a value of hr_image_info_class.
 * Errors: as hr_image_load. Threads: any, each with its own ctx. */
HR_API HR_MUST_USE enum hr_status
hr_image_info(struct hr_ctx *ctx, const struct hr_value *src, const char *name,
              const struct hr_image_options *options, struct hr_value *out,
              struct hr_error *err);

/* The same for n pictures, by all idle workers. out: a list of such values. A slot that
 * fails is empty; with strict, the first of them fails the whole. */
HR_API HR_MUST_USE enum hr_status
hr_image_info_batch(struct hr_ctx *ctx, const struct hr_value *srcs, size_t n,
                    const int64_t *index, const struct hr_image_options *options,
                    int strict, struct hr_value *out, struct hr_error *err);

enum hr_image_format { HR_JPEG = 0, HR_PNG = 1, HR_WEBP = 2 };

/* hr_encode_options_init sets size and the defaults. */
struct hr_encode_options {
    size_t size;
    enum hr_image_format format;
    int32_t bgr;         /* 3 or 4 channels begin with blue */
    int32_t quality;     /* JPEG, lossy WebP: 0 … 100; init sets 75 */
    int32_t compression; /* PNG: zlib's level, 0 … 9; init sets 6 */
    int32_t lossless;    /* WebP */
    uint64_t reserved[4];
};

HR_API void hr_encode_options_init(struct hr_encode_options *options);

/* Encode (H, W) or (H, W, C) pixels: uint8 grey (C = 1), RGB (3) or RGBA (4; not for
 * JPEG); for PNG also grey and alpha (2), and uint16. JPEG is 4:2:0.
 * Errors: HR_ERR_ARG, HR_ERR_TYPE, HR_ERR_UNSUPPORTED (a library that this build is
 * without), HR_ERR_LIMIT (a side too long for the format), HR_ERR_NOMEM. */
HR_API HR_MUST_USE enum hr_status
hr_image_encode(struct hr_ctx *ctx, const struct hr_array *pixels,
                const struct hr_encode_options *options, struct hr_buffer **out,
                struct hr_error *err);

/* The same as ops for a pipeline. `load` and `load_frames` take a path, bytes or a uint8
 * array and give an array, or a batch value if allow_truncated kept the picture;
 * `load_batch` takes a list of these and gives a batch value; `resize` takes an array or
 * a batch value; `info` takes what `load` takes, `info_batch` a list; `encode` takes an
 * array and gives bytes; `transform` takes an array, `stack` a list of arrays. A
 * transform draws by its item's index. */
HR_API HR_MUST_USE enum hr_status
hr_image_load_op(const struct hr_image_options *options, struct hr_op *out,
                 struct hr_error *err);
HR_API HR_MUST_USE enum hr_status
hr_image_load_frames_op(const struct hr_image_options *options, struct hr_op *out,
                        struct hr_error *err);
HR_API HR_MUST_USE enum hr_status
hr_image_load_batch_op(const struct hr_image_options *options, int strict,
                       struct hr_op *out, struct hr_error *err);
HR_API HR_MUST_USE enum hr_status
hr_image_info_op(const struct hr_image_options *options, struct hr_op *out,
                 struct hr_error *err);
HR_API HR_MUST_USE enum hr_status
hr_image_info_batch_op(const struct hr_image_options *options, int strict,
                       struct hr_op *out, struct hr_error *err);
HR_API HR_MUST_USE enum hr_status
hr_image_encode_op(const struct hr_encode_options *options, struct hr_op *out,
                   struct hr_error *err);
HR_API HR_MUST_USE enum hr_status
hr_image_transform_op(const struct hr_image_options *options, struct hr_op *out,
                      struct hr_error *err);
HR_API HR_MUST_USE enum hr_status hr_image_resize_op(int64_t width, int64_t height,
                                                     enum hr_scale_algo algo,
                                                     struct hr_op *out,
                                                     struct hr_error *err);

HR_API void hr_image_stack_op(struct hr_op *out);

/* Which instruction set the resize kernels use: "avx2", "sse4.1" or "portable".
 * The environment variable HEADRACE_SIMD lowers it, for tests. Threads: any. */
HR_API const char *hr_image_simd(void);

/* How many JPEGs of this process were decoded by headrace's own decoder, and how many by
 * libjpeg, which takes whatever the other leaves: what is not baseline, not in planes,
 * unusual or damaged. HEADRACE_JPEG=libjpeg in the environment turns the first off.
 * Threads: any. */
HR_API void hr_image_jpeg_counts(uint64_t *own, uint64_t *libjpeg);

#ifdef __cplusplus
}
#endif

#endif
