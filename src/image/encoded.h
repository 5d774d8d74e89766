/* encoded.h - where encoded pictures come from, and what they are called in messages. */
#ifndef HR_IMAGE_ENCODED_H
#define HR_IMAGE_ENCODED_H

#include "image/take.h"

#define HR_NAME_BYTES 128 /* that of struct hr_slot_failure */

/* Whose picture it is, for messages and for draws. */
struct hr__load_id {
    const char *name; /* NULL: the source's own */
    int64_t item;     /* source index, -1: unknown */
    int64_t slot;     /* of a batch, -1: none */
    struct hr__pick pick;
};

/* The encoded bytes of a path, bytes or a uint8 array, borrowed from src or from *file,
 * which the caller drops afterwards.
 * Errors: HR_ERR_IO, HR_ERR_ARG, HR_ERR_FORMAT, HR_ERR_LIMIT, HR_ERR_TYPE. */
HR_MUST_USE enum hr_status hr__source_open(const struct hr_value *src,
                                           uint64_t bytes_max, struct hr_buffer **file,
                                           const uint8_t **data, size_t *size,
                                           struct hr_error *err);

/* Append " (slot 3, item 17, 'a.jpg')" to the error's text: what of it is known and not
 * said yet. */
void hr__source_sign(struct hr_error *err, const struct hr_value *src,
                     const struct hr__load_id *id);

/* The source's name for messages, a long one shortened at its start. */
void hr__load_name(const struct hr_value *src, const char *name,
                   char out[HR_NAME_BYTES]);

#endif
