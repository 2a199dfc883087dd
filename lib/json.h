/* Whether a text is JSON, as RFC 8259 has it and nothing beside: what reads JSON here takes
 * more. */
#ifndef TS_LIB_JSON_H
#define TS_LIB_JSON_H

#include <stddef.h>

typedef struct TsJsonFault {
  size_t at; /* the byte from 0 on */
  const char *why;
} TsJsonFault;

/* 0, or -1 and the first fault; arrays and objects stand at most 1000 deep in one another.
 * fraction: where a number has more than digits, a text's first such number, else
 * fraction->why is NULL. */
int ts_json_check(const char *s, size_t n, TsJsonFault *fault, TsJsonFault *fraction);

#endif
