/* ledger.h - which items failed, where and why. Guarded by the pipeline's lock. */
#ifndef HR_ENGINE_LEDGER_H
#define HR_ENGINE_LEDGER_H

#include <stdbool.h>

#include "engine/item.h"
#include "headrace/pipeline.h"

enum { HR_LEDGER_MAX = 10000, HR_LEDGER_KINDS_MAX = 64 };

struct hr_ledger_entry {
    struct hr_failure failure;
    struct hr_value exception;
};

/* Failures of one stage that look alike, for logging each kind once. */
struct hr_ledger_kind {
    uint32_t stage;
    enum hr_status status;
    char type[48];
    uint64_t count;
};

struct hr_ledger {
    struct hr_ledger_entry **entries;
    size_t count, capacity;
    uint64_t total;
    struct hr_ledger_kind kinds[HR_LEDGER_KINDS_MAX];
    uint32_t kind_count;
    /* what ends the run: told to the consumer after the last item */
    bool failed;
    struct hr_ledger_entry final;
};

/* Write a failed item down and log new kinds.
 * Ownership: takes *exception and empties it while there is room for the entry; else it
 * stays the caller's, to be released without the lock. */
void hr__ledger_add(struct hr_ledger *ledger, uint32_t stage, const char *stage_name,
                    const struct hr_item *item, const struct hr_error *err,
                    struct hr_value *exception);

/* The failure that ends the run; the first one counts. Ownership of *exception as above.
 * item may be NULL. */
void hr__ledger_end(struct hr_ledger *ledger, const char *stage_name,
                    const struct hr_item *item, const struct hr_error *err,
                    struct hr_value *exception);

/* Instead of the failure that ends the run so far. Its exception is put in the place of
 * *exception. */
void hr__ledger_replace(struct hr_ledger *ledger, const char *stage_name,
                        const struct hr_item *item, const struct hr_error *err,
                        struct hr_value *exception);

/* Releases everything; not under a lock. */
void hr__ledger_fini(struct hr_ledger *ledger);

#endif
