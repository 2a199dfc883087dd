/* The CPU's caching allocator. Blocks are aligned to 64 bytes. Not thread safe:
 * tensors are made and freed by the thread that owns the context. */
#ifndef TS_DEVICES_MEMORY_H
#define TS_DEVICES_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* nbytes >= 0; NULL when the system has no more memory. The contents are
 * unspecified. The same nbytes must be given to free. */
void *ts_memory_alloc(int64_t nbytes);
void ts_memory_free(void *at, int64_t nbytes);
/* Gives every cached block back to the system. */
void ts_memory_trim(void);
/* Gives back what is cached anywhere, as far as this thread may, before a request is made again;
 * whether that was anything. */
bool ts_memory_reclaim(void);

int64_t ts_memory_machine(void); /* bytes of memory that this machine has */
/* ---- devices/memory_left.c, for all threads */
int64_t ts_memory_left(void); /* bytes that the program may still take; some microseconds */
/* Counts n bytes that are about to be asked of the system; false if too few are left. */
extern _Thread_local int64_t ts_memory_credit; /* what this thread may take without looking */
bool ts_memory_look(int64_t n);
static inline bool ts_memory_may_grow(int64_t n) {
  if (n <= ts_memory_credit) return ts_memory_credit -= n, true;
  return ts_memory_look(n);
}
/* While set, malloc calls this in the calling thread instead of giving NULL: for libraries that end
 * the process where memory runs out, or lose what they hold when they are left. It leaves by a
 * jump; or it returns, if n bytes matter little, and they are taken all the same. n is SIZE_MAX
 * when the system has none: then it must not return. Gives what was set. */
typedef void TsRefusal(size_t n);
TsRefusal *ts_memory_on_refusal(TsRefusal *refusal);
/* For tests: so many are left and nothing comes back; -1: what the system says. */
void ts_memory_pretend(int64_t left);
bool ts_memory_pretends(void);

/* Whole pages from the system, huge ones where they fit; NULL when it has no more. Safe from all
 * threads; munmap gives them back. */
void *ts_memory_map(int64_t nbytes);

typedef struct TsMemoryStats {
  int64_t live;   /* bytes handed out, as rounded to block sizes */
  int64_t peak;   /* the most that was live at one time */
  int64_t cached; /* bytes in free blocks kept for reuse */
} TsMemoryStats;
TsMemoryStats ts_memory_stats(void);

/* For tests: the n-th allocation of this thread from now fails (0: none does), whoever asks for
 * it: ts_memory_alloc, malloc (devices/heap.c), other allocators by ts_memory_should_fail(); on:
 * and all behind it. They give what is left of the number set before, -1 if it has come. */
int64_t ts_memory_fail_after(int64_t n, bool on);
int64_t ts_memory_call_after(int64_t n, void (*call)(void)); /* it goes well, behind a call */
void ts_memory_fail_elsewhere(int64_t n); /* of all threads but the owner's */
void ts_memory_spare(bool on);      /* what stands for hardware: its allocations do not count */
extern atomic_bool ts_memory_tried; /* one of these was called, or _poison */
bool ts_memory_is_to_fail(void);
static inline bool ts_memory_should_fail(void) {
  return atomic_load_explicit(&ts_memory_tried, memory_order_relaxed) && ts_memory_is_to_fail();
}
/* For tests: from now on what is handed out is full of this byte (0: as it happens to be), so
 * that a result that nobody wrote shows; of work memory and the null device as well. */
void ts_memory_poison(int byte);
void *ts_memory_spoiled(void *at, int64_t nbytes); /* at, or NULL */

#endif
