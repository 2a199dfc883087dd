/* JSON: strings of it, and whether a text is some, as RFC 8259 has it and nothing beside: what reads
 * JSON here takes more. */
#ifndef TS_LIB_JSON_H
#define TS_LIB_JSON_H

#include "lib/text.h"

/* `before` and n bytes of s as one string in quotes, behind which stands a NUL; bytes that are no
 * UTF-8 become U+FFFD. */
void ts_json_string(TsText *t, const char *before, const char *s, size_t n);

typedef struct TsJsonFault {
  size_t at; /* the byte from 0 on */
  const char *why;
} TsJsonFault;

/* 0, or -1 and the first fault; arrays and objects stand at most 1000 deep in one another.
 * fraction: where a number has more than digits, a text's first such number, else
 * fraction->why is NULL. */
int ts_json_check(const char *s, size_t n, TsJsonFault *fault, TsJsonFault *fraction);

#endif
