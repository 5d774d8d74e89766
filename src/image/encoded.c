/* Where encoded pictures come from, and what they are called in messages. */
#include "image/encoded.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "headrace/file.h"
#include "base/banned.h"

#define SHOWN_BYTES 100 /* of a name in a message */

/* ---- names in messages ---- */

/* The last bytes of text that fit, from the start of a character on. */
static const char *tail(const char *text, size_t bytes)
{
    size_t length = strlen(text);

    if (length <= bytes)
        return text;
    text += length - bytes;
    while (((unsigned char)*text & 0xc0) == 0x80)
        text++;
    return text;
}

void hr__load_name(const struct hr_value *src, const char *name,
                   char out[HR_NAME_BYTES])
{
    const char *shown;

    if (name == NULL)
        name = src->cls == &hr_text_class ? hr_text_peek(src, NULL) : "<bytes>";
    shown = tail(name, SHOWN_BYTES);
    snprintf(out, HR_NAME_BYTES, "%s%s", shown == name ? "" : "...", shown);
}

/* Encoded bytes have no name but "<bytes>"; what is neither has none at all, and the
 * error has said what it is. */
static bool has_name(const struct hr_value *src)
{
    return src->cls == &hr_text_class || hr_value_peek_bytes(src) != NULL ||
           hr_value_peek_array(src) != NULL;
}

void hr__source_sign(struct hr_error *err, const struct hr_value *src,
                     const struct hr__load_id *id)
{
    struct hr_error plain;
    char name[HR_NAME_BYTES];
    char who[HR_NAME_BYTES + 64];
    int n = 0;

    if (err == NULL)
        return;
    plain = *err;
    if (id->slot >= 0)
        n += snprintf(who + n, sizeof(who) - (size_t)n, ", slot %lld",
                      (long long)id->slot);
    if (id->item >= 0)
        n += snprintf(who + n, sizeof(who) - (size_t)n, ", item %lld",
                      (long long)id->item);
    /* a file's error has named the path */
    if (strcmp(plain.origin, "file") != 0 && (id->name != NULL || has_name(src))) {
        hr__load_name(src, id->name, name);
        n += snprintf(who + n, sizeof(who) - (size_t)n, ", '%s'", name);
    }
    if (n > 0)
        (void)hr_error_set(err, plain.status, plain.origin, plain.code, "%.*s (%s)",
                           (int)(sizeof(err->text) - strlen(who) - 2), plain.text,
                           who + 2);
    err->item = id->item; /* hr_error_set knows of none */
}

/* ---- sources ---- */

static enum hr_status read_path(const struct hr_value *src, uint64_t bytes_max,
                                struct hr_buffer **out, struct hr_error *err)
{
    size_t length;
    const char *path = hr_text_peek(src, &length);

    if (strlen(path) != length)
        return hr_error_set(err, HR_ERR_ARG, "file", 0,
                            "file: a path holds a NUL byte after %zu bytes",
                            strlen(path));
    return hr_file_read(path, bytes_max, out, err);
}

enum hr_status hr__source_open(const struct hr_value *src, uint64_t bytes_max,
                               struct hr_buffer **file, const uint8_t **data,
                               size_t *size, struct hr_error *err)
{
    const struct hr_array *array = hr_value_peek_array(src);
    const struct hr_buffer *bytes = hr_value_peek_bytes(src);
    enum hr_status status;

    if (src->cls == &hr_text_class) {
        status = read_path(src, bytes_max, file, err);
        if (status != HR_OK)
            return status;
        bytes = *file;
    }
    if (bytes != NULL) {
        *data = hr_buffer_data(bytes);
        *size = hr_buffer_size(bytes);
    } else if (array != NULL && hr_array_dtype(array) == HR_U8) {
        *data = hr_array_data(array);
        *size = hr_array_nbytes(array);
    } else {
        return hr_error_set(
            err, HR_ERR_TYPE, "image", 0,
            "load_image: expected a path or bytes, got %s%s",
            array != NULL ? "an array that is not uint8" : hr_value_kind(src),
            src->cls == &hr_record_class ? "; use pipe(..., key=...) for records" : "");
    }
    if (*size > bytes_max)
        return hr_error_set(err, HR_ERR_LIMIT, "image", 0,
                            "image: %zu encoded bytes, the limit is %llu", *size,
                            (unsigned long long)bytes_max);
    return HR_OK;
}
