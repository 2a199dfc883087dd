/* A structure as the text of one JSON value, written from its beginning to its end: what commands
 * show, before it is laid out for people or given to a script. A field that has no value is left out
 * and its reason written: ts_facts_none(t, "tile", "no kernel: ..") is "tile_reason". */
#ifndef TS_LIB_FACTS_H
#define TS_LIB_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/text.h"

/* key: NULL in lists and at the top. */
void ts_facts_object(TsText *t, const char *key);
void ts_facts_list(TsText *t, const char *key);
void ts_facts_end(TsText *t, char c); /* '}' or ']' */
/* A string of JSON (lib/json.h); NULL writes nothing. */
void ts_facts_text(TsText *t, const char *key, const char *s);
void ts_facts_take(TsText *t, const char *key, TsText *s); /* the same, and frees it */
/* Infinities and NaN write nothing. */
void ts_facts_number(TsText *t, const char *key, double v);
void ts_facts_flag(TsText *t, const char *key, bool v);
void ts_facts_numbers(TsText *t, const char *key, int n, const int64_t *v);
void ts_facts_none(TsText *t, const char *key, const char *reason);

#endif
