/* Size classes over free lists.
 *
 * Small blocks (to 64 KiB, four classes a doubling) are cut from chunks and go
 * back to their class for ever. Large blocks are mappings of their own, rounded
 * to 1/8 of their power of two; a freed one is kept for reuse only while live +
 * cached stays below the program's own high-water mark, so that caching never
 * raises the peak: when it would, the blocks unused for longest are unmapped. */
#include "devices/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  ALIGN = 64,
  SMALL_MAX = 1 << 16,
  NSMALL = 41, /* classes 64 .. 65536, four a doubling */
  CHUNK = 1 << 18,
  HUGE_PAGE = 1 << 21,
  NSLOT = 256,      /* cached large blocks at most */
  RESERVE = 4 << 20 /* this much may always stay cached */
};

typedef struct Free {
  struct Free *next;
} Free;

static Free *small[NSMALL];
static char *chunk_at, *chunk_end;
static struct {
  void *at;
  int64_t nbytes;
  uint64_t used; /* clock of its free */
} slot[NSLOT];
static int nslot;
static uint64_t clock_now;
static TsMemoryStats stats;
static int64_t fail_after;

static int poison;
static bool tested; /* one of the two is on: all that allocations ask */

void ts_memory_fail_after(int64_t n) { fail_after = n, tested = n > 0 || poison; }
int ts_memory_should_fail(void) { return fail_after > 0 && --fail_after == 0; }
void ts_memory_poison(int byte) { poison = byte, tested = byte || fail_after > 0; }
void *ts_memory_spoiled(void *at, int64_t nbytes) {
  if (poison && at) memset(at, poison, (size_t)nbytes);
  return at;
}

TsMemoryStats ts_memory_stats(void) { return stats; }

/* Class c holds blocks of (4 + c % 4) << (4 + c / 4) bytes. */
static int small_class(int64_t nbytes) {
  if (nbytes <= 64) return 0;
  int top = 63 - __builtin_clzll((uint64_t)(nbytes - 1)); /* 2^top < nbytes <= 2^(top+1) */
  int quarter = (int)(((nbytes - 1) >> (top - 2)) & 3);
  return (top - 6) * 4 + quarter + 1;
}

static int64_t small_size(int c) { return (int64_t)(4 + c % 4) << (4 + c / 4); }

static int64_t large_size(int64_t nbytes) {
  int top = 63 - __builtin_clzll((uint64_t)nbytes);
  int64_t step = (int64_t)1 << (top - 3);
  if (step < 4096) step = 4096;
  return (nbytes + step - 1) / step * step;
}

/* The system is asked once; threads that ask at one time find the same. */
int64_t ts_memory_machine(void) {
  static int64_t known;
  int64_t n = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (n) return n;
  n = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  __atomic_store_n(&known, n, __ATOMIC_RELAXED);
  return n;
}

/* Blocks that may use huge pages are aligned to them: a mapping is made larger
 * and trimmed at both ends. */
void *ts_memory_map(int64_t nbytes) {
  bool huge = nbytes >= 2 * HUGE_PAGE;
  size_t len = (size_t)nbytes + (huge ? HUGE_PAGE : 0);
  char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
  if (!huge) return p;
  size_t head = (size_t)(-(uintptr_t)p & (HUGE_PAGE - 1)), tail = HUGE_PAGE - head;
  if (head) munmap(p, head);
  if (tail) munmap(p + head + nbytes, tail);
  madvise(p + head, (size_t)nbytes, MADV_HUGEPAGE);
  return p + head;
}

static void *cut_small(int c) {
  int64_t size = small_size(c);
  if (chunk_end - chunk_at < size) {
    char *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    chunk_at = p;
    chunk_end = p + CHUNK;
  }
  void *at = chunk_at;
  chunk_at += size;
  return at;
}

static void drop_slot(int i) {
  munmap(slot[i].at, (size_t)slot[i].nbytes);
  stats.cached -= slot[i].nbytes;
  slot[i] = slot[--nslot];
}

static void drop_oldest(void) {
  int oldest = 0;
  for (int i = 1; i < nslot; i++)
    if (slot[i].used < slot[oldest].used) oldest = i;
  drop_slot(oldest);
}

void ts_memory_trim(void) {
  while (nslot) drop_slot(nslot - 1);
}

static void count_live(int64_t size) {
  stats.live += size;
  if (stats.live > stats.peak) stats.peak = stats.live;
}

/* More than the machine has is refused at once: the system would grant it and end
 * the process when it is written. */
static bool is_absurd(int64_t size) { return stats.live + size > ts_memory_machine(); }

static void *alloc_large(int64_t size) {
  if (is_absurd(size)) return NULL;
  int best = -1;
  for (int i = 0; i < nslot; i++)
    if (slot[i].nbytes == size && (best < 0 || slot[i].used > slot[best].used)) best = i;
  if (best >= 0) {
    void *at = slot[best].at;
    stats.cached -= size;
    slot[best] = slot[--nslot];
    return at;
  }
  while (nslot && stats.live + stats.cached + size > stats.peak + RESERVE) drop_oldest();
  void *at = ts_memory_map(size);
  if (!at && nslot) {
    ts_memory_trim();
    at = ts_memory_map(size);
  }
  return at;
}

static inline void *alloc(int64_t nbytes) {
#ifdef __SANITIZE_ADDRESS__ /* blocks of its own, so that the sanitizer sees overruns */
  void *own = NULL;
  if (is_absurd(nbytes)) return NULL;
  if (posix_memalign(&own, 64, nbytes ? (size_t)nbytes : 1)) return NULL;
  count_live(nbytes);
  return own;
#endif
  if (nbytes <= SMALL_MAX) {
    int c = small_class(nbytes);
    Free *f = small[c];
    if (f) { /* the next one of this class has often left the cache */
      small[c] = f->next;
      __builtin_prefetch(f->next, 1);
      __builtin_prefetch((char *)f->next + 64, 1);
    } else if (!(f = cut_small(c)))
      return NULL;
    count_live(small_size(c));
    return f;
  }
  int64_t size = large_size(nbytes);
  void *at = alloc_large(size);
  if (at) count_live(size);
  return at;
}

void *ts_memory_alloc(int64_t nbytes) {
  if (tested) return ts_memory_should_fail() ? NULL : ts_memory_spoiled(alloc(nbytes), nbytes);
  return alloc(nbytes);
}

void ts_memory_free(void *at, int64_t nbytes) {
  if (!at) return;
#ifdef __SANITIZE_ADDRESS__
  stats.live -= nbytes;
  free(at);
  return;
#endif
  if (nbytes <= SMALL_MAX) {
    int c = small_class(nbytes);
    stats.live -= small_size(c);
    ((Free *)at)->next = small[c];
    small[c] = at;
    return;
  }
  int64_t size = large_size(nbytes);
  stats.live -= size;
  if (nslot == NSLOT) drop_oldest();
  slot[nslot].at = at;
  slot[nslot].nbytes = size;
  slot[nslot++].used = ++clock_now;
  stats.cached += size;
  while (nslot && stats.cached > RESERVE && stats.live + stats.cached > stats.peak)
    drop_oldest();
}
