/* ledger.c - failed items are listed, and logged by kind.
 *
 * A kind is a stage, a status and, for a foreign exception, its type: a data set with a
 * million broken files gives some lines in the log, not a million. */
#include "engine/ledger.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/banned.h"

/* The word before the first colon of a foreign exception's text is its type; of other
 * errors *out stays as it is. */
static void kind_type(const struct hr_error *err, char *out, size_t size)
{
    if (err->status != HR_ERR_FOREIGN)
        return;
    size_t len = strcspn(err->text, ":");
    if (len >= size)
        len = size - 1;
    memcpy(out, err->text, len);
    out[len] = '\0';
}

static struct hr_ledger_kind *find_kind(struct hr_ledger *ledger, uint32_t stage,
                                        const struct hr_error *err)
{
    char type[sizeof(ledger->kinds[0].type)] = "";
    kind_type(err, type, sizeof(type));
    for (uint32_t i = 0; i < ledger->kind_count; i++) {
        struct hr_ledger_kind *kind = &ledger->kinds[i];
        if (kind->stage == stage && kind->status == err->status &&
            strcmp(kind->type, type) == 0)
            return kind;
    }
    if (ledger->kind_count == HR_LEDGER_KINDS_MAX)
        return NULL;
    struct hr_ledger_kind *kind = &ledger->kinds[ledger->kind_count++];
    kind->stage = stage;
    kind->status = err->status;
    memcpy(kind->type, type, sizeof(type));
    kind->count = 0;
    return kind;
}

static bool is_power_of_ten(uint64_t n)
{
    while (n >= 10 && n % 10 == 0)
        n /= 10;
    return n == 1;
}

/* The first of a kind, then the 10th, the 100th, ... */
static void log_failure(struct hr_ledger *ledger, uint32_t stage,
                        const struct hr_failure *failure)
{
    struct hr_ledger_kind *kind = find_kind(ledger, stage, &failure->error);
    if (!kind || !is_power_of_ten(++kind->count))
        return;
    char which[192];
    if (failure->label[0])
        (void)snprintf(which, sizeof(which), "item %lld ('%s')",
                       (long long)failure->index, failure->label);
    else if (failure->index >= 0)
        (void)snprintf(which, sizeof(which), "item %lld", (long long)failure->index);
    else
        (void)snprintf(which, sizeof(which), "its flush");
    if (kind->count == 1)
        hr__log(HR_LOG_WARNING, "%s: %s failed: %s (more like it are only counted)",
                failure->stage, which, failure->error.text);
    else
        hr__log(HR_LOG_WARNING, "%s: %llu items failed like %s: %s", failure->stage,
                (unsigned long long)kind->count, which, failure->error.text);
}

static struct hr_ledger_entry *add_entry(struct hr_ledger *ledger)
{
    if (ledger->count == HR_LEDGER_MAX)
        return NULL;
    if (ledger->count == ledger->capacity) {
        size_t capacity = ledger->capacity ? ledger->capacity * 2 : 16;
        struct hr_ledger_entry **grown =
            hr__realloc(ledger->entries, capacity, sizeof(*grown));
        if (!grown)
            return NULL;
        ledger->entries = grown;
        ledger->capacity = capacity;
    }
    struct hr_ledger_entry *entry = hr__calloc(1, sizeof(*entry));
    if (entry)
        ledger->entries[ledger->count++] = entry;
    return entry;
}

static void fill_failure(struct hr_failure *out, const char *stage_name,
                         const struct hr_item *item, const struct hr_error *err)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->stage, sizeof(out->stage), "%s", stage_name);
    out->index = item ? item->index : -1;
    out->error = *err;
    if (item) {
        out->error.item = item->index;
        if (item->label.cls)
            (void)snprintf(out->label, sizeof(out->label), "%s",
                           hr_text_peek(&item->label, NULL));
    }
}

void hr__ledger_add(struct hr_ledger *ledger, uint32_t stage, const char *stage_name,
                    const struct hr_item *item, const struct hr_error *err,
                    struct hr_value *exception)
{
    ledger->total++;
    struct hr_failure failure;
    fill_failure(&failure, stage_name, item, err);
    struct hr_ledger_entry *entry = add_entry(ledger);
    if (entry) {
        entry->failure = failure;
        entry->exception = *exception;
        *exception = HR_VALUE_EMPTY;
    }
    log_failure(ledger, stage, &failure);
}

void hr__ledger_end(struct hr_ledger *ledger, const char *stage_name,
                    const struct hr_item *item, const struct hr_error *err,
                    struct hr_value *exception)
{
    if (ledger->failed)
        return;
    ledger->failed = true;
    fill_failure(&ledger->final.failure, stage_name, item, err);
    ledger->final.exception = *exception;
    *exception = HR_VALUE_EMPTY;
}

void hr__ledger_replace(struct hr_ledger *ledger, const char *stage_name,
                        const struct hr_item *item, const struct hr_error *err,
                        struct hr_value *exception)
{
    struct hr_value old = ledger->final.exception;
    fill_failure(&ledger->final.failure, stage_name, item, err);
    ledger->final.exception = *exception;
    *exception = old;
}

void hr__ledger_fini(struct hr_ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++) {
        hr_value_release(&ledger->entries[i]->exception);
        hr__free(ledger->entries[i]);
    }
    hr__free(ledger->entries);
    hr_value_release(&ledger->final.exception);
    memset(ledger, 0, sizeof(*ledger));
}
