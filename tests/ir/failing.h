/* The n-th allocation fails: for programs that are linked with --wrap=malloc, calloc, realloc
 * (scripts/targets.mk). Included once by each. */
#ifndef TS_TESTS_IR_FAILING_H
#define TS_TESTS_IR_FAILING_H

#include <stdbool.h>
#include <stddef.h>

/* until: so many allocations go well before one fails; -1: none does. */
static long until = -1;

static bool fails(void) { return until >= 0 && until-- == 0; }

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

#endif
