/* The limit of B3: how many JPEGs a second of CPU decodes when nothing else is done.
 *
 *     limit_jpeg FOLDER|FILE...      prints {"images_per_cpu_s": 1463.0, ...}
 *
 * The median of passes over all files, one second of them at least. */
#include "limit_jpeg.h"

#define PASSES_MAX 1000

int main(int argc, char **argv)
{
    struct jpeg_decompress_struct lib;
    struct jpeg_error_mgr errors;
    struct jpeg_set set = {NULL, 0};
    double pass[PASSES_MAX];
    double total = 0;
    double mid;
    int n = 0;

    for (int i = 1; i < argc; i++)
        add_path(&set, argv[i]);
    if (set.count == 0)
        die("usage: limit_jpeg FOLDER|FILE...", "no pictures");
    lib.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&lib);
    time_limit(&lib, &set); /* warm up */
    while (n < PASSES_MAX && (n < 5 || total < 1.0))
        total += pass[n++] = time_limit(&lib, &set);
    jpeg_destroy_decompress(&lib);
    mid = median(pass, n);
    printf(
        "{\"images_per_cpu_s\": %.1f, \"images\": %zu, \"passes\": %d, \"ms\": %.4f}\n",
        (double)set.count / mid, set.count, n, mid * 1e3 / (double)set.count);
    return 0;
}
