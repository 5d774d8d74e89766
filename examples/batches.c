/* batches.c - decode JPEGs into batches of (n, 224, 224, 3), without Python.
 *
 *     cc batches.c $(pkg-config --cflags --libs headrace) -o batches
 *     ./batches a.jpg b.jpg ... */
#include <stdio.h>

#include <headrace/headrace.h>

int main(int argc, char **argv)
{
    struct hr_error err = {0};
    struct hr_plan *plan = NULL;
    struct hr_pipeline *pipeline = NULL;
    struct hr_source paths = {0};
    struct hr_op load = {0};
    struct hr_value batch;
    struct hr_image_options options;
    hr_image_options_init(&options);
    options.width = options.height = 224;

    enum hr_status status = HR_ERR_ARG; /* until the last item has come */
    if (hr_plan_new(&plan, &err) ||     /* HR_OK is 0 */
        hr_source_of_texts((const char *const *)argv + 1, (size_t)argc - 1, &paths,
                           &err) ||
        hr_image_load_batch_op(&options, 0, &load, &err) ||
        hr_plan_source(plan, &paths, &err) || hr_plan_aggregate(plan, 32, 0, 0, &err) ||
        hr_plan_pipe(plan, &load, NULL, &err) || hr_plan_sink(plan, 3, &err) ||
        hr_pipeline_new(&plan, NULL, &pipeline, &err) ||
        hr_pipeline_start(pipeline, &err))
        goto out;

    while ((status = hr_pipeline_next(pipeline, HR_NO_DEADLINE, &batch, &err)) ==
           HR_OK) {
        size_t failed;
        const struct hr_slot_failure *why = hr_batch_peek_failures(&batch, &failed);
        const int64_t *shape = hr_array_shape(hr_batch_peek_array(&batch));
        printf("(%lld, %lld, %lld, %lld), %zu failed\n", (long long)shape[0],
               (long long)shape[1], (long long)shape[2], (long long)shape[3], failed);
        for (size_t i = 0; i < failed; i++)
            printf("  %s\n", why[i].error.text);
        hr_value_release(&batch);
    }
out:
    if (status != HR_END)
        fprintf(stderr, "%s\n", err.text);
    hr_pipeline_free(&pipeline);
    hr_plan_free(&plan);
    hr_source_free(&paths);
    hr_op_free(&load);
    return status != HR_END;
}
