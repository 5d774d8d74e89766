/* With kr + kg + kb = 1 luma is y = kr r + kg g + kb b, and chroma is the difference
 * from it, scaled to -1/2 … 1/2: cb = (b - y) / (2 (1 - kb)), cr alike. Solved for red,
 * green and blue that is the matrix here (ITU-T H.273, 8.3). */
#include "image/colour.h"

#include "base/banned.h"

static int16_t to_fixed(double value)
{
    double scaled = value * (1 << HR_MATRIX_BITS);

    return (int16_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

struct hr__matrix hr__matrix_of(enum hr__colour_space space,
                                enum hr__colour_range range)
{
    static const struct {
        double kr;
        double kb;
    } weights[] = {
        [HR_COLOUR_BT601] = {0.299, 0.114},
        [HR_COLOUR_BT709] = {0.2126, 0.0722},
        [HR_COLOUR_BT2020] = {0.2627, 0.0593},
    };
    double kr = weights[space].kr;
    double kb = weights[space].kb;
    double kg = 1 - kr - kb;
    double luma = range == HR_RANGE_LIMITED ? 255.0 / 219 : 1;
    double chroma = range == HR_RANGE_LIMITED ? 255.0 / 224 : 1;
    int32_t black = range == HR_RANGE_LIMITED ? 16 : 0;
    int32_t half = 1 << (HR_MATRIX_BITS + HR_LEVEL_BITS - 1);
    struct hr__matrix m = {
        .y = to_fixed(luma),
        .red_cr = to_fixed(2 * (1 - kr) * chroma),
        .green_cb = to_fixed(-2 * kb * (1 - kb) / kg * chroma),
        .green_cr = to_fixed(-2 * kr * (1 - kr) / kg * chroma),
        .blue_cb = to_fixed(2 * (1 - kb) * chroma),
    };
    int32_t sums[3] = {m.red_cr, m.green_cb + m.green_cr, m.blue_cb};

    for (int i = 0; i < 3; i++)
        m.constant[i] = half - (m.y * black + sums[i] * 128) * (1 << HR_LEVEL_BITS);
    return m;
}
