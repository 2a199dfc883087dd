/* Texts of kernels that somebody looked at, or will: what LLVM makes of a kernel for people takes as long
 * as compiling it, and the same kernel is shown again and again. Any thread. */
#ifndef TS_JIT_TEXTS_H
#define TS_JIT_TEXTS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/text.h"

enum { TS_TEXTS_BYTES = 64 << 20 }; /* the oldest go first */

/* Adds the text that is kept under the key; false: there is none. */
bool ts_texts_find(const TsText *key, TsText *to);
/* Copies both, as far as memory goes. */
void ts_texts_keep(const TsText *key, const char *text, size_t n);
/* Bytes of all texts and keys. */
size_t ts_texts_bytes(void);
void ts_texts_drop(void); /* all of them */

#endif
