/* The CPU's caching allocator. Blocks are aligned to 64 bytes. Not thread safe:
 * tensors are made and freed by the thread that owns the context. */
#ifndef TS_DEVICES_MEMORY_H
#define TS_DEVICES_MEMORY_H

#include <stdint.h>

/* nbytes >= 0; NULL when the system has no more memory. The contents are
 * unspecified. The same nbytes must be given to free. */
void *ts_memory_alloc(int64_t nbytes);
void ts_memory_free(void *at, int64_t nbytes);
/* Gives every cached block back to the system. */
void ts_memory_trim(void);

int64_t ts_memory_machine(void); /* bytes of memory that this machine has */

/* Whole pages from the system, huge ones where they fit; NULL when it has no more. Safe from all
 * threads; munmap gives them back. */
void *ts_memory_map(int64_t nbytes);

typedef struct TsMemoryStats {
  int64_t live;   /* bytes handed out, as rounded to block sizes */
  int64_t peak;   /* the most that was live at one time */
  int64_t cached; /* bytes in free blocks kept for reuse */
} TsMemoryStats;
TsMemoryStats ts_memory_stats(void);

/* For tests: the n-th allocation from now fails (0: none does), counting
 * ts_memory_should_fail() of other allocators as well. */
void ts_memory_fail_after(int64_t n);
int ts_memory_should_fail(void);
/* For tests: from now on what is handed out is full of this byte (0: as it happens to be), so
 * that a result that nobody wrote shows; of work memory and the null device as well. */
void ts_memory_poison(int byte);
void *ts_memory_spoiled(void *at, int64_t nbytes); /* at, or NULL */

#endif
