/* The n-th allocation fails: for programs that are linked with FAILING (scripts/targets.mk). Included
 * once by each. What is freed is filled, so that who still reads it finds nonsense in every build. */
#ifndef TS_TESTS_IR_FAILING_H
#define TS_TESTS_IR_FAILING_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* until: so many allocations go well before one fails; -1: none does. live: blocks that were
 * given and not freed; those that the C library gives are not counted. */
static long until = -1, live;

static bool fails(void) { return until >= 0 && until-- == 0; }

static void *given(void *p) {
  live += p != NULL;
  return p;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
void *__wrap_malloc(size_t n) { return fails() ? NULL : given(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) {
  return fails() ? NULL : given(__real_calloc(n, size));
}
void *__wrap_realloc(void *p, size_t n) {
  if (fails()) return NULL;
  void *q = __real_realloc(p, n);
  return p ? q : given(q);
}
void __wrap_free(void *p) {
  if (!p) return;
  memset(p, 0xa5, malloc_usable_size(p));
  live--;
  __real_free(p);
}

#endif
