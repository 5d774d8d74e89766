/* utf8.h - cutting text without breaking a character. */
#ifndef HR_BASE_UTF8_H
#define HR_BASE_UTF8_H

#include <stddef.h>

/* The greatest length <= len that does not end inside a UTF-8 sequence. Bytes that are
 * no UTF-8 count as characters of their own. Looks at no byte from text[len] on. */
static inline size_t hr__utf8_cut(const char *text, size_t len)
{
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        unsigned char byte = (unsigned char)text[len - back];
        if ((byte & 0xC0) == 0x80)
            continue; /* a continuation: the lead is further left */
        size_t need = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return need > back ? len - back : len;
    }
    return len;
}

#endif
