/* tree.h - lists and records that are about to be changed in place. */
#ifndef HR_BASE_TREE_H
#define HR_BASE_TREE_H

#include <stdbool.h>

#include "headrace/value.h"

/* Make sure that *value, a list or a record, has no other holder: if it has, it becomes
 * a copy whose elements are shared with the old one.
 * Errors: HR_ERR_NOMEM; HR_ERR_TYPE: an element can't be shared. *value then is as it
 * was. */
HR_MUST_USE enum hr_status hr__tree_own(struct hr_value *value);

/* True if *value, a list or a record, has no other holder. */
bool hr__tree_is_sole(const struct hr_value *value);

#endif
