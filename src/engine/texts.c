/* texts.c - a source of texts (paths), all in one arena. */
#include <string.h>

#include "base/mem.h"
#include "headrace/pipeline.h"
#include "base/banned.h"

struct texts {
    size_t count, next;
    size_t *starts; /* count + 1 offsets into bytes */
    char *bytes;
};

static enum hr_status texts_next(void *state, struct hr_value *out,
                                 struct hr_error *err)
{
    struct texts *t = state;
    if (t->next == t->count)
        return HR_END;
    const char *text = t->bytes + t->starts[t->next];
    size_t len = t->starts[t->next + 1] - t->starts[t->next] - 1;
    if (hr_text_new(text, len, out) != HR_OK)
        return hr__nomem(err, "source", "a text", len);
    t->next++;
    return HR_OK;
}

static void texts_free(void *state)
{
    struct texts *t = state;
    hr__free(t->starts);
    hr__free(t->bytes);
    hr__free(t);
}

static const struct hr_source_class texts_class = {"source", texts_next, texts_free, 1};

enum hr_status hr_source_of_texts(const char *const *texts, size_t n,
                                  struct hr_source *out, struct hr_error *err)
{
    *out = (struct hr_source){NULL, NULL};
    size_t total = 0;
    struct texts *t = hr__calloc(1, sizeof(*t));
    size_t *starts = n < SIZE_MAX ? hr__calloc(n + 1, sizeof(*starts)) : NULL;
    if (!t || !starts)
        goto nomem;
    t->starts = starts;
    t->count = n;
    for (size_t i = 0; i < n; i++) {
        starts[i] = total;
        if (!hr__add(total, strlen(texts[i]) + 1, &total))
            goto nomem;
    }
    starts[n] = total;
    t->bytes = hr__malloc(total ? total : 1);
    if (!t->bytes)
        goto nomem;
    for (size_t i = 0; i < n; i++)
        memcpy(t->bytes + starts[i], texts[i], starts[i + 1] - starts[i]);
    *out = (struct hr_source){&texts_class, t};
    return HR_OK;
nomem:
    hr__free(starts);
    hr__free(t);
    return hr__nomem(err, "source", "its texts", total);
}
