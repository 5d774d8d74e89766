/* Layouts, types and margins, against values worked out by hand; the kernels among
 * themselves. */
#include "image/finish.h"

#include <stdlib.h>

#include "hr_test.h"
#include "pictures.h"

static void identity_line(struct hr__finish_line *line)
{
    for (int i = 0; i < HR_FINISH_PERIOD; i++) {
        line->scale[i] = 1;
        line->bias[i] = 0;
    }
}

static uint16_t half(float value)
{
    struct hr__finish_line line;
    uint8_t one = 1;
    uint16_t out;

    identity_line(&line);
    line.scale[0] = value;
    hr__finish_kernels_portable.to_f16(&line, &one, &out, 1);
    return out;
}

static uint16_t brain(float value)
{
    struct hr__finish_line line;
    uint8_t one = 1;
    uint16_t out;

    identity_line(&line);
    line.scale[0] = value;
    hr__finish_kernels_portable.to_bf16(&line, &one, &out, 1);
    return out;
}

/* IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 of fraction. */
static void halves_by_hand(void)
{
    HR_CHECK_EQ_INT(half(0.0f), 0x0000);
    HR_CHECK_EQ_INT(half(1.0f), 0x3c00);
    HR_CHECK_EQ_INT(half(-2.5f), 0xc100);
    HR_CHECK_EQ_INT(half(65504.0f), 0x7bff);      /* the largest */
    HR_CHECK_EQ_INT(half(65519.9f), 0x7bff);      /* below the middle to 2^16 */
    HR_CHECK_EQ_INT(half(65520.0f), 0x7c00);      /* the middle: infinity is even */
    HR_CHECK_EQ_INT(half(1e9f), 0x7c00);          /* infinity */
    HR_CHECK_EQ_INT(half(-1e9f), 0xfc00);         /* and the other one */
    HR_CHECK_EQ_INT(half(0x1p-14f), 0x0400);      /* the smallest normal */
    HR_CHECK_EQ_INT(half(0x1p-24f), 0x0001);      /* the smallest */
    HR_CHECK_EQ_INT(half(0x1p-25f), 0x0000);      /* half of that: 0 is even */
    HR_CHECK_EQ_INT(half(0x1.8p-24f), 0x0002);    /* one and a half: 2 is even */
    HR_CHECK_EQ_INT(half(0x1.ffcp-15f), 0x0400);  /* rounds up to a normal */
    HR_CHECK_EQ_INT(half(0x1.002p0f), 0x3c00);    /* a tie, down to even */
    HR_CHECK_EQ_INT(half(0x1.006p0f), 0x3c02);    /* a tie, up to even */
    HR_CHECK_EQ_INT(half(0x1.002002p0f), 0x3c01); /* just over a tie */
}

/* The upper 16 bits of a float. */
static void brain_floats_by_hand(void)
{
    HR_CHECK_EQ_INT(brain(1.0f), 0x3f80);
    HR_CHECK_EQ_INT(brain(-2.5f), 0xc020);
    HR_CHECK_EQ_INT(brain(0x1.01p0f), 0x3f80);     /* a tie, down to even */
    HR_CHECK_EQ_INT(brain(0x1.03p0f), 0x3f82);     /* a tie, up to even */
    HR_CHECK_EQ_INT(brain(0x1.010002p0f), 0x3f81); /* just over a tie */
}

static void random_line(struct hr__finish_line *line, uint32_t *seed)
{
    for (int i = 0; i < HR_FINISH_PERIOD; i++) {
        line->scale[i] = ((float)(next_random(seed) % 2000) - 1000) / 4096.0f / 60.0f;
        line->bias[i] = ((float)(next_random(seed) % 2000) - 1000) / 333.0f;
    }
}

static void kernels_agree(const struct hr__finish_kernels *k, size_t n, uint32_t *seed)
{
    const struct hr__finish_kernels *p = &hr__finish_kernels_portable;
    uint8_t *in = malloc(3 * n + 1);
    uint8_t *want = malloc(12 * n + 4);
    uint8_t *got = malloc(12 * n + 4);
    const uint8_t *apart[3] = {in, in + n, in + 2 * n};
    struct hr__finish_line line;

    random_line(&line, seed);
    fill_random(in, 3 * n, *seed);
    memset(got, 0xa5, 12 * n + 4);
    p->interleave(apart, want, n);
    k->interleave(apart, got, n);
    HR_CHECK(memcmp(got, want, 3 * n) == 0 && got[3 * n] == 0xa5);
    p->separate(in, (uint8_t *const[]){want, want + n, want + 2 * n}, n);
    k->separate(in, (uint8_t *const[]){got, got + n, got + 2 * n}, n);
    HR_CHECK(memcmp(got, want, 3 * n) == 0 && got[3 * n] == 0xa5);
    p->to_f16(&line, in, (uint16_t *)(void *)want, 3 * n);
    k->to_f16(&line, in, (uint16_t *)(void *)got, 3 * n);
    HR_CHECK(memcmp(got, want, 6 * n) == 0 && got[6 * n] == 0xa5);
    p->to_bf16(&line, in, (uint16_t *)(void *)want, 3 * n);
    k->to_bf16(&line, in, (uint16_t *)(void *)got, 3 * n);
    HR_CHECK(memcmp(got, want, 6 * n) == 0 && got[6 * n] == 0xa5);
    p->to_f32(&line, in, (float *)(void *)want, 3 * n);
    k->to_f32(&line, in, (float *)(void *)got, 3 * n);
    HR_CHECK(memcmp(got, want, 12 * n) == 0 && got[12 * n] == 0xa5);
    free(in);
    free(want);
    free(got);
}

static void all_kernels_give_the_same_bits(void)
{
    static const char *const sets[] = {"sse4.1", "avx2"};
    uint32_t seed = 11;

    for (size_t i = 0; i < 2; i++)
        for (size_t n = 0; hr__kernels_find(sets[i]) != NULL && n < 100; n++)
            kernels_agree(hr__kernels_find(sets[i])->finish, n, &seed);
}

/* A picture of 2 x 1 pixels in the middle of 4 x 3. */
static const struct hr__fit framed = {.kept_width = 2,
                                      .kept_height = 1,
                                      .put_x = 1,
                                      .put_y = 1,
                                      .out_width = 4,
                                      .out_height = 3};

static void check_framed(const struct hr__form *form, bool split, const void *want,
                         size_t bytes)
{
    static const uint8_t pixels[6] = {10, 20, 30, 40, 50, 60};
    struct hr__finish f = {0};
    uint8_t *out = malloc(bytes);

    memset(out, 0xa5, bytes);
    HR_REQUIRE(hr__finish_begin(&f, form, &framed, out, NULL) == HR_OK);
    if (split) {
        uint8_t *rows[HR_CHANNELS_MAX];

        hr__finish_split(&f, 0, rows);
        for (int i = 0; i < 6; i++)
            rows[i % 3][i / 3] = pixels[i];
        hr__finish_split_done(&f, 0);
    } else {
        uint8_t *row = hr__finish_row(&f, 0);

        memcpy(row, pixels, sizeof(pixels));
        hr__finish_row_done(&f, 0, row);
    }
    HR_CHECK(memcmp(out, want, bytes) == 0);
    hr__finish_fini(&f);
    free(out);
}

static void channels_last_in_bytes(void)
{
    static const uint8_t want[36] = {[15] = 10, 20, 30, 40, 50, 60};
    const struct hr__form form = {.layout = HR_HWC, .dtype = HR_U8, .channels = 3};

    check_framed(&form, false, want, sizeof(want));
    check_framed(&form, true, want, sizeof(want));
}

static void channels_first_in_bytes(void)
{
    static const uint8_t want[36] = {[5] = 10, 40, [17] = 20, 50, [29] = 30, 60};
    const struct hr__form form = {.layout = HR_CHW, .dtype = HR_U8, .channels = 3};

    check_framed(&form, false, want, sizeof(want));
    check_framed(&form, true, want, sizeof(want));
}

/* (v / 255 - mean) / std with std of a power of two over 255: v * 4 - 4, - 8, - 16. What
 * is free is black, which has that value too. */
static void channels_first_in_numbers(void)
{
    const struct hr__form form = {
        .layout = HR_CHW,
        .dtype = HR_F32,
        .channels = 3,
        .mean = {1 / 255.0, 2 / 255.0, 4 / 255.0},
        .std = {0.25 / 255, 0.25 / 255, 0.25 / 255},
    };
    float want[36];

    for (int i = 0; i < 36; i++)
        want[i] = i < 12 ? -4.0f : i < 24 ? -8.0f : -16.0f;
    want[5] = 36;
    want[6] = 156;
    want[17] = 72;
    want[18] = 192;
    want[29] = 104;
    want[30] = 224;
    check_framed(&form, false, want, sizeof(want));
    check_framed(&form, true, want, sizeof(want));
}

static void channels_last_in_numbers(void)
{
    const struct hr__form form = {
        .layout = HR_HWC,
        .dtype = HR_BF16,
        .channels = 3,
        .std = {1 / 255.0, 1 / 255.0, 1 / 255.0},
    };
    /* 10, 20, 30, 40, 50, 60 as the upper halves of floats */
    static const uint16_t want[36] = {[15] = 0x4120, 0x41a0, 0x41f0,
                                      0x4220,        0x4248, 0x4270};

    check_framed(&form, false, want, sizeof(want));
    check_framed(&form, true, want, sizeof(want));
}

static const struct hr_test tests[] = {
    HR_TEST(halves_by_hand),
    HR_TEST(brain_floats_by_hand),
    HR_TEST(all_kernels_give_the_same_bits),
    HR_TEST(channels_last_in_bytes),
    HR_TEST(channels_first_in_bytes),
    HR_TEST(channels_first_in_numbers),
    HR_TEST(channels_last_in_numbers),
};

HR_TEST_MAIN(tests)
