/* Damaged JPEGs by the ten thousand: what our decoder takes of them, libjpeg takes without
 * a warning and with the same samples. */
#include <stdio.h>

#include "hr_test.h"
#include "jpeg_judge.h"
#include "jpeg_kinds.h"
#include "jpeg_mutate.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MUTANTS 200
#else
#define MUTANTS 1280
#endif /* of each sampling: 10,240 of a kind */

static struct jpeg_judge *court;

static struct blob original(size_t sampling, int n)
{
    struct how how = samplings[sampling];

    how.quality = 40 + 7 * (int)sampling;
    how.restart = n % 3 == 0 ? 4 : 0;
    how.optimised = n % 2;
    return picture((enum kind)(n % KINDS), 41, 30, how);
}

/* Changes of the kind, then of the other one; how many are taken. */
static int judge_mutants(size_t sampling, enum jpeg_mutation kind,
                         enum jpeg_mutation then)
{
    uint32_t seed = (uint32_t)(20 + 100 * sampling + kind);
    struct blob originals[KINDS];
    int taken = 0;

    for (int n = 0; n < KINDS; n++)
        originals[n] = original(sampling, n);
    for (int i = 0; i < MUTANTS; i++) {
        struct blob mutant = blob_copy(&originals[i % KINDS]);
        enum jpeg_verdict verdict;

        jpeg_mutate(&mutant, kind, &seed);
        jpeg_mutate(&mutant, then, &seed);
        verdict = jpeg_judge_all(court, mutant.data, mutant.size, seed);
        taken += verdict == EQUAL;
        if (verdict == WRONG)
            printf("# sampling %zu, kind %d, mutant %d: %s\n", sampling, (int)kind, i,
                   jpeg_judge_reason(court));
        HR_CHECK(verdict != WRONG);
        blob_free(&mutant);
    }
    for (int n = 0; n < KINDS; n++)
        blob_free(&originals[n]);
    return taken;
}

/* At least one in `share` is taken, else nothing was tried. */
static void try_mutants(enum jpeg_mutation kind, enum jpeg_mutation then, int share)
{
    int taken = 0;

    for (size_t s = 0; s < SAMPLINGS; s++)
        taken += judge_mutants(s, kind, then);
    printf("# %d of %d taken\n", taken, SAMPLINGS * MUTANTS);
    HR_CHECK(taken > SAMPLINGS * MUTANTS / share);
}

static void flipped_bits(void)
{
    try_mutants(MUTATE_BITS, MUTATIONS, 20);
}

static void damaged_data(void)
{
    try_mutants(MUTATE_DATA, MUTATIONS, 20);
}

static void missing_ends_and_pieces(void)
{
    try_mutants(MUTATE_CUT, MUTATIONS, 1000);
}

static void segments_at_other_places(void)
{
    try_mutants(MUTATE_SEGMENTS, MUTATIONS, 20);
}

static void segments_that_were_not_there(void)
{
    try_mutants(MUTATE_INSERT, MUTATIONS, 20);
}

/* With the data of the original, and with data that such tables would have. */
static void hostile_codes(void)
{
    try_mutants(MUTATE_CODES, MUTATIONS, 50);
    try_mutants(MUTATE_CODES, MUTATE_STREAM, 20);
}

static void other_quantisation(void)
{
    try_mutants(MUTATE_QUANT, MUTATIONS, 20);
}

static void other_frames(void)
{
    try_mutants(MUTATE_FRAME, MUTATIONS, 100);
    try_mutants(MUTATE_FRAME, MUTATE_STREAM, 20);
}

static void other_restart_intervals(void)
{
    try_mutants(MUTATE_RESTART, MUTATIONS, 20);
    try_mutants(MUTATE_RESTART, MUTATE_STREAM, 20);
}

static const struct hr_test tests[] = {
    HR_TEST(flipped_bits),
    HR_TEST(damaged_data),
    HR_TEST(missing_ends_and_pieces),
    HR_TEST(segments_at_other_places),
    HR_TEST(segments_that_were_not_there),
    HR_TEST(hostile_codes),
    HR_TEST(other_quantisation),
    HR_TEST(other_frames),
    HR_TEST(other_restart_intervals),
};

int main(int argc, char **argv)
{
    int failed;

    court = jpeg_judge_new();
    failed = hr_test_main(tests, sizeof(tests) / sizeof(tests[0]), argc, argv);
    jpeg_judge_free(&court);
    return failed;
}
