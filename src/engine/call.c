/* call.c - what is left in a call after it was finished.
 *
 * Outputs move into items, an exception into the ledger. Some stay: an output for which
 * there was no memory for an item, an exception for which the ledger had no room. */
#include "engine/engine.h"
#include "base/banned.h"

bool hr__call_has_rest(const struct hr_call *call)
{
    for (uint32_t i = 0; i < call->out_count; i++)
        if (call->out[i].cls)
            return true;
    return call->exception.cls != NULL;
}

void hr__call_clear(struct hr_call *call)
{
    for (uint32_t i = 0; i < call->out_count; i++)
        hr_value_release(&call->out[i]);
    call->out_count = 0;
    hr_value_release(&call->exception);
}
