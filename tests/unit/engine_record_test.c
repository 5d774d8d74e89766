/* engine_record_test.c - keys, columns, batches, and values that others hold, too. */
#include <stdlib.h>
#include <string.h>

#include "engine_kit.h"
#include "hr_test.h"

static struct kit_plan plan_of(struct kit_source *source, struct kit_stage first)
{
    struct fake_settings settings = {0};
    return (struct kit_plan){.source = source,
                             .stages = {first},
                             .count = 1,
                             .options = {.num_threads = 2},
                             .runtime = fake_begin(&settings)};
}

static long field(const struct hr_value *record, size_t i)
{
    return kit_number(&hr_record_peek(record)[i]);
}

/* ---- sources of given values ---- */

struct given {
    struct hr_value values[16];
    size_t count, next, repeat; /* repeat: 0 is once */
};

static enum hr_status given_next(void *state, struct hr_value *out,
                                 struct hr_error *err)
{
    struct given *given = state;
    (void)err;
    if (given->next == given->count * (given->repeat ? given->repeat : 1))
        return HR_END;
    const struct hr_value *value = &given->values[given->next++ % given->count];
    *out = value->cls->share(value);
    return HR_OK;
}

static const struct hr_source_class given_class = {"given", given_next, NULL, 0};

/* A record of texts. */
static struct hr_value record_of(size_t n, const char *const *names,
                                 const char *const *texts)
{
    struct hr_keys *keys = NULL;
    struct hr_value record = HR_VALUE_EMPTY;
    HR_CHECK_EQ_INT(hr_keys_new(n, names, &keys), HR_OK);
    HR_CHECK_EQ_INT(hr_record_new(keys, &record), HR_OK);
    for (size_t i = 0; i < n; i++)
        HR_CHECK_EQ_INT(
            hr_text_new(texts[i], strlen(texts[i]), &hr_record_peek(&record)[i]),
            HR_OK);
    hr_keys_unref(&keys);
    return record;
}

static struct hr_pipeline *start_given(struct given *given,
                                       const struct kit_stage *stage)
{
    struct hr_source source = {&given_class, given};
    struct kit_plan plan = plan_of(NULL, *stage);
    plan.native = &source;
    return kit_start(&plan);
}

static void release_given(struct given *given)
{
    for (size_t i = 0; i < given->count; i++)
        hr_value_release(&given->values[i]);
}

/* ---- keys ---- */

static void a_key_picks_one_field(void)
{
    static const struct {
        const char *name;
        int index;
        size_t field;
    } keys[] = {{NULL, 0, 0},  {NULL, 1, 1}, {NULL, -1, 1},
                {NULL, -2, 0}, {"x", 0, 0},  {"y", 0, 1}};
    for (int variant = 0; variant < 24; variant++) {
        int k = variant % 6;
        bool foreign = variant / 6 % 2, from_foreign = variant / 12;
        struct kit_source source = {
            .end = 30, .fail_at = -1, .fatal_at = -1, .form = KIT_RECORD};
        struct kit_op op = {.add = 100};
        struct kit_stage stage = {.kind = foreign ? KIT_FOREIGN : KIT_NATIVE,
                                  .op = &op,
                                  .options = {.key_name = keys[k].name,
                                              .key_index = keys[k].index,
                                              .has_key = 1}};
        struct kit_plan plan = plan_of(&source, stage);
        plan.foreign_source = from_foreign;
        struct hr_value value;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (long i = 0; i < 30; i++) {
            HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_OK);
            HR_CHECK_EQ_INT(field(&value, keys[k].field), i + 100);
            HR_CHECK_EQ_INT(field(&value, 1 - keys[k].field), i);
            HR_CHECK_STR(hr_keys_name(hr_record_peek_keys(&value), 0), "x");
            hr_value_release(&value);
        }
        HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_END);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* The item fails, and says what was expected. */
static void a_key_that_does_not_fit_fails(void)
{
    static const struct {
        enum kit_form form;
        const char *name;
        int index;
        const char *text;
    } cases[] = {
        {KIT_TEXT, NULL, 0, "key= needs a record (a tuple or a dict), got text"},
        {KIT_TUPLE, NULL, 2, "the record has 2 fields, key=2 is none of them"},
        {KIT_TUPLE, NULL, -3, "the record has 2 fields, key=-3 is none of them"},
        {KIT_TUPLE, NULL, -2147483647 - 1,
         "the record has 2 fields, key=-2147483648 is none of them"},
        {KIT_TUPLE, "x", 0, "the record has no field 'x' (it has 2 unnamed fields)"},
        {KIT_RECORD, "z", 0, "the record has no field 'z' (it has 2 other fields)"},
    };
    for (int variant = 0; variant < 18; variant++) {
        int c = variant % 6;
        static const enum kit_kind kinds[] = {KIT_NATIVE, KIT_FOREIGN, KIT_EXPAND};
        struct kit_source source = {
            .end = 20, .fail_at = -1, .fatal_at = -1, .form = cases[c].form};
        struct kit_op op = {.fan = 2};
        struct kit_stage stage = {.kind = kinds[variant / 6],
                                  .op = &op,
                                  .options = {.key_name = cases[c].name,
                                              .key_index = cases[c].index,
                                              .has_key = 1}};
        struct kit_plan plan = plan_of(&source, stage);
        struct hr_failure failure;
        enum hr_status end;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 0);
        HR_CHECK_EQ_INT(end, HR_END);
        HR_CHECK_EQ_INT(hr_pipeline_failure(p, 19, &failure), HR_OK);
        HR_CHECK_EQ_INT(failure.error.status, HR_ERR_TYPE);
        HR_CHECK_STR(failure.error.text, cases[c].text);
        HR_CHECK_EQ_INT(atomic_load(&op.calls), 0);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Among others that fit, in groups that are claimed together. */
static void only_items_that_do_not_fit_fail(void)
{
    for (int variant = 0; variant < 6; variant++) {
        static const enum kit_kind kinds[] = {KIT_NATIVE, KIT_FOREIGN, KIT_EXPAND};
        struct given given = {.count = 16};
        struct kit_op op = {.fan = 1};
        struct hr_failure failure;
        enum hr_status end;
        const char *const one[] = {"1"}, *const two[] = {"1", "3"};
        for (size_t i = 0; i < 16; i++)
            given.values[i] = record_of(i % 3 ? 2 : 1, NULL, i % 3 ? two : one);
        given.repeat = 40;
        struct kit_stage stage = {
            .kind = kinds[variant / 2],
            .op = &op,
            .options = {.has_key = 1,
                        .key_index = 1,
                        .concurrency = 1 + (uint32_t)variant % 2}};
        struct hr_pipeline *p = start_given(&given, &stage);
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 40 * 10);
        HR_CHECK_EQ_INT(end, HR_END);
        HR_CHECK_EQ_INT(hr_pipeline_failure(p, 40 * 6 - 1, &failure), HR_OK);
        HR_CHECK_EQ_INT(failure.error.status, HR_ERR_TYPE);
        HR_CHECK_EQ_INT(hr_pipeline_failure(p, 40 * 6, &failure), HR_END);
        hr_pipeline_free(&p);
        release_given(&given);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* ---- batches ---- */

static void batches_carry_values_and_indices(void)
{
    for (int variant = 0; variant < 4; variant++) {
        struct kit_source source = {.end = 20,
                                    .fail_at = -1,
                                    .fatal_at = -1,
                                    .form = variant & 1 ? KIT_OBJECT : KIT_TEXT};
        struct kit_plan plan = plan_of(
            &source,
            (struct kit_stage){.kind = KIT_BATCH, .n = 8, .drop_last = variant & 2});
        struct hr_stage_stats stats[3];
        struct hr_value value;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (long first = 0; first < (variant & 2 ? 16 : 20); first += 8) {
            HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_OK);
            size_t n = hr_list_size(&value);
            HR_CHECK_EQ_INT(n, first == 16 ? 4 : 8);
            for (size_t i = 0; i < n; i++) {
                HR_CHECK_EQ_INT(kit_number(&hr_list_peek(&value)[i]), first + (long)i);
                HR_CHECK_EQ_INT(hr_list_peek_index(&value)[i], first + (long)i);
            }
            hr_value_release(&value);
        }
        HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_END);
        HR_CHECK_EQ_INT(hr_pipeline_stats(p, stats, 3), 3);
        HR_CHECK_EQ_INT(stats[1].filtered, variant & 2 ? 4 : 0);
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

static void columns_are_lists_of_one_record(void)
{
    for (int named = 0; named < 2; named++) {
        struct kit_source source = {.end = 12,
                                    .fail_at = -1,
                                    .fatal_at = -1,
                                    .form = named ? KIT_RECORD : KIT_TUPLE};
        struct kit_plan plan =
            plan_of(&source, (struct kit_stage){.kind = KIT_COLUMNS, .n = 6});
        struct hr_value value;
        struct hr_pipeline *p = kit_start(&plan);
        HR_REQUIRE(p);
        for (long first = 0; first < 12; first += 6) {
            HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_OK);
            HR_REQUIRE(value.cls == &hr_record_class);
            HR_CHECK_EQ_INT(hr_keys_size(hr_record_peek_keys(&value)), 2);
            for (size_t c = 0; c < 2; c++) {
                const struct hr_value *column = &hr_record_peek(&value)[c];
                HR_CHECK_EQ_INT(hr_list_size(column), 6);
                for (size_t i = 0; i < 6; i++)
                    HR_CHECK_EQ_INT(kit_number(&hr_list_peek(column)[i]),
                                    first + (long)i);
            }
            hr_value_release(&value);
        }
        hr_pipeline_free(&p);
        HR_CHECK_EQ_INT(fake_end(), 0);
    }
}

/* Fields go by name, in whatever order a record has them. */
static void columns_go_by_name(void)
{
    struct given given = {.count = 2};
    given.values[0] =
        record_of(2, (const char *[]){"a", "b"}, (const char *[]){"1", "2"});
    given.values[1] =
        record_of(2, (const char *[]){"b", "a"}, (const char *[]){"4", "3"});
    struct hr_value value;
    struct hr_pipeline *p =
        start_given(&given, &(struct kit_stage){.kind = KIT_COLUMNS, .n = 2});
    HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_OK);
    const struct hr_value *columns = hr_record_peek(&value);
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < 2; i++)
            HR_CHECK_EQ_INT(kit_number(&hr_list_peek(&columns[c])[i]),
                            (long)(1 + c + 2 * i));
    hr_value_release(&value);
    hr_pipeline_free(&p);
    release_given(&given);
}

static void columns_need_records_of_one_shape(void)
{
    for (int c = 0; c < 4; c++) {
        struct given given = {.count = 2};
        struct hr_failure failure;
        enum hr_status end;
        const char *const ab[] = {"a", "b"}, *const ac[] = {"a", "c"};
        const char *const texts[] = {"1", "2"};
        given.values[0] = record_of(2, ab, texts);
        if (c == 0)
            given.values[1] = record_of(1, ab, texts);
        else if (c == 1)
            given.values[1] = record_of(2, ac, texts);
        else if (c == 2)
            given.values[1] = record_of(2, NULL, texts);
        else
            HR_CHECK_EQ_INT(hr_text_new("2", 1, &given.values[1]), HR_OK);
        struct hr_pipeline *p =
            start_given(&given, &(struct kit_stage){.kind = KIT_COLUMNS, .n = 2});
        HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 0);
        HR_CHECK_EQ_INT(end, HR_END);
        for (size_t i = 0; i < 2; i++) {
            HR_CHECK_EQ_INT(hr_pipeline_failure(p, i, &failure), HR_OK);
            HR_CHECK_EQ_INT(failure.error.status, HR_ERR_TYPE);
            HR_CHECK_STR(failure.error.text,
                         c < 3 ? "aggregate(columns=True) needs records of one shape, "
                                 "items 0 and 1 differ in their fields"
                               : "aggregate(columns=True) needs records (tuples or "
                                 "dicts), item 1 is text");
        }
        HR_CHECK_EQ_INT(hr_pipeline_failure(p, 2, &failure), HR_END);
        hr_pipeline_free(&p);
        release_given(&given);
    }
}

/* ---- values with other holders stay as they are ---- */

static void a_shared_record_is_not_emptied_by_columns(void)
{
    struct given given = {.count = 3};
    const char *const texts[] = {"7", "8"};
    struct hr_value value;
    given.values[0] = record_of(2, NULL, texts);
    for (int i = 1; i < 3; i++)
        given.values[i] = given.values[0].cls->share(&given.values[0]);
    struct hr_pipeline *p =
        start_given(&given, &(struct kit_stage){.kind = KIT_COLUMNS, .n = 3});
    HR_CHECK_EQ_INT(hr_pipeline_next(p, HR_NO_DEADLINE, &value, NULL), HR_OK);
    for (size_t c = 0; c < 2; c++)
        for (size_t i = 0; i < 3; i++)
            HR_CHECK_EQ_INT(kit_number(&hr_list_peek(&hr_record_peek(&value)[c])[i]),
                            (long)(7 + c));
    HR_CHECK_EQ_INT(field(&given.values[0], 0), 7);
    HR_CHECK_EQ_INT(field(&given.values[0], 1), 8);
    hr_value_release(&value);
    hr_pipeline_free(&p);
    release_given(&given);
}

static void a_shared_list_is_not_emptied_by_disaggregate(void)
{
    struct given given = {.count = 3};
    long numbers[6];
    enum hr_status end;
    HR_CHECK_EQ_INT(hr_list_new(2, &given.values[0]), HR_OK);
    HR_CHECK_EQ_INT(hr_text_new("5", 1, &hr_list_peek(&given.values[0])[0]), HR_OK);
    HR_CHECK_EQ_INT(hr_text_new("6", 1, &hr_list_peek(&given.values[0])[1]), HR_OK);
    for (int i = 1; i < 3; i++)
        given.values[i] = given.values[0].cls->share(&given.values[0]);
    struct hr_pipeline *p =
        start_given(&given, &(struct kit_stage){.kind = KIT_SPREAD});
    HR_CHECK_EQ_INT(kit_drain(p, false, numbers, 6, &end), 6);
    for (int i = 0; i < 6; i++)
        HR_CHECK_EQ_INT(numbers[i], 5 + i % 2);
    HR_CHECK_EQ_INT(kit_number(&hr_list_peek(&given.values[0])[1]), 6);
    hr_pipeline_free(&p);
    release_given(&given);
}

static void disaggregate_needs_lists(void)
{
    struct given given = {.count = 2};
    struct hr_failure failure;
    enum hr_status end;
    HR_CHECK_EQ_INT(hr_text_new("5", 1, &given.values[0]), HR_OK);
    HR_CHECK_EQ_INT(hr_list_new(0, &given.values[1]), HR_OK); /* gives nothing */
    struct hr_pipeline *p =
        start_given(&given, &(struct kit_stage){.kind = KIT_SPREAD});
    HR_CHECK_EQ_INT(kit_drain(p, false, NULL, 0, &end), 0);
    HR_CHECK_EQ_INT(end, HR_END);
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 0, &failure), HR_OK);
    HR_CHECK_STR(failure.error.text, "disaggregate needs a list, got text");
    HR_CHECK_EQ_INT(hr_pipeline_failure(p, 1, &failure), HR_END);
    hr_pipeline_free(&p);
    release_given(&given);
}

static const struct hr_test tests[] = {
    HR_TEST(a_key_picks_one_field),
    HR_TEST(a_key_that_does_not_fit_fails),
    HR_TEST(only_items_that_do_not_fit_fail),
    HR_TEST(batches_carry_values_and_indices),
    HR_TEST(columns_are_lists_of_one_record),
    HR_TEST(columns_go_by_name),
    HR_TEST(columns_need_records_of_one_shape),
    HR_TEST(a_shared_record_is_not_emptied_by_columns),
    HR_TEST(a_shared_list_is_not_emptied_by_disaggregate),
    HR_TEST(disaggregate_needs_lists),
};

HR_TEST_MAIN(tests)
