/* malloc and its kin, to which the linker leads every call of the program and of the libraries in
 * it (Makefile, --wrap): so what holds for memory holds for all of it, without a name of our own
 * at hundreds of places. A request that the system refuses is made again when our caches have
 * gone back to it; one that would leave the machine without memory is refused before the system
 * has to end somebody; and tests make the n-th one fail. See devices/memory.h. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "devices/held.h"
#include "devices/memory.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t n);

static _Thread_local TsRefusal *refusal;
static _Thread_local int held_before; /* of ts_held, when it was set */

TsRefusal *ts_memory_on_refusal(TsRefusal *now) {
  TsRefusal *before = refusal;
  refusal = now;
  held_before = ts_held;
  return before;
}

static void *none(void) {
  if (refusal) refusal(SIZE_MAX);
  errno = ENOMEM;
  return NULL;
}

/* What is asked for meanwhile is given, as long as the system has it. */
static _Thread_local bool needed;

static bool refused(size_t n) {
  if (needed || (refusal && ts_held > held_before)) return false;
  if (!ts_memory_should_fail() && n <= INT64_MAX && ts_memory_may_grow((int64_t)n))
    return false;
  if (refusal && n <= INT64_MAX) return refusal(n), false;
  return true;
}

/* p, or what a second request gives. */
#define OR_AGAIN(p, again)                                                                     \
  if (p) return p;                                                                             \
  void *q = ts_memory_reclaim() ? again : NULL;                                                \
  return q ? q : none()

void *__wrap_malloc(size_t n) {
  if (refused(n)) return none();
  void *p = __real_malloc(n);
  OR_AGAIN(p, __real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size) {
  size_t all;
  if (__builtin_mul_overflow(n, size, &all) || refused(all)) return none();
  void *p = __real_calloc(n, size);
  OR_AGAIN(p, __real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t n) {
  if (n && refused(n)) return none();
  void *p = __real_realloc(old, n);
  if (!n) return p;
  OR_AGAIN(p, __real_realloc(old, n));
}

void *__wrap_aligned_alloc(size_t align, size_t n) {
  if (refused(n)) return none();
  void *p = __real_aligned_alloc(align, n);
  OR_AGAIN(p, __real_aligned_alloc(align, n));
}

int __wrap_posix_memalign(void **p, size_t align, size_t n) {
  void *at = __wrap_aligned_alloc(align, (n + align - 1) / align * align);
  if (!at) return ENOMEM;
  *p = at;
  return 0;
}

static char *copy_of(const char *text, size_t len) {
  char *copy = __wrap_malloc(len + 1);
  if (!copy) return NULL;
  memcpy(copy, text, len);
  copy[len] = 0;
  return copy;
}

char *__wrap_strndup(const char *text, size_t n) { return copy_of(text, strnlen(text, n)); }
char *__wrap_strdup(const char *text) { return copy_of(text, strlen(text)); }

/* LuaJIT tells the unwinder of its code, which crashes when it is refused the few bytes for it. */
void __real___register_frame(void *begin);
void __wrap___register_frame(void *begin);
void __wrap___register_frame(void *begin) {
  needed = true;
  __real___register_frame(begin);
  needed = false;
}
