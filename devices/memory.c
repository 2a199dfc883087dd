/* Size classes over free lists.
 *
 * Small blocks (to 64 KiB, four classes a doubling) are cut from chunks and go
 * back to their class for ever. Large blocks are mappings of their own, rounded
 * to 1/8 of their power of two; a freed one is kept for reuse only while live +
 * cached stays below the program's own high-water mark, so that caching never
 * raises the peak. Where a new mapping would, a cached block that is larger is cut in
 * two, and neighbours that are cached become one for that: a program that needs now few large
 * blocks and now many small ones touches the same pages again and again. Only where nothing is
 * large enough the blocks unused for longest are unmapped. */
#include "devices/memory.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devices/work.h"

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
typedef struct Slot {
  void *at;
  int64_t nbytes;
  uint64_t used; /* clock of its free */
} Slot;
static Slot slot[NSLOT];
static int nslot;
static uint64_t clock_now;
static TsMemoryStats stats;
static pthread_t owner; /* of all this: who took the first block */
static bool owned;

/* ---- allocations that fail, for tests */
static _Thread_local struct {
  int64_t left; /* so many go well before one fails; -1: that has been */
  bool on;      /* and all behind it */
  void (*instead)(void);
  int spared;
} trial;
static atomic_llong elsewhere;

atomic_bool ts_memory_tried;

static int64_t begin_trial(int64_t n, bool on, void (*instead)(void)) {
  int64_t left = trial.left;
  ts_memory_tried = true;
  trial.left = n, trial.on = on, trial.instead = instead;
  return left;
}

int64_t ts_memory_fail_after(int64_t n, bool on) { return begin_trial(n, on, NULL); }
int64_t ts_memory_call_after(int64_t n, void (*call)(void)) {
  return begin_trial(n, false, call);
}
void ts_memory_fail_elsewhere(int64_t n) {
  ts_memory_tried = true;
  atomic_store(&elsewhere, n);
}
void ts_memory_spare(bool on) { trial.spared += on ? 1 : -1; }

static bool fails_elsewhere(void) {
  if (owned && pthread_equal(pthread_self(), owner)) return false;
  return atomic_fetch_sub(&elsewhere, 1) == 1;
}

static bool fails_here(void) {
  if (trial.spared) return false;
  if (trial.left < 0) return trial.on;
  if (--trial.left) return false;
  trial.left = -1;
  if (!trial.instead) return true;
  trial.instead();
  return false;
}

bool ts_memory_is_to_fail(void) {
  if (trial.left && fails_here()) return true;
  return atomic_load_explicit(&elsewhere, memory_order_relaxed) > 0 && fails_elsewhere();
}

static int poison;

void ts_memory_poison(int byte) {
  ts_memory_tried = true;
  poison = byte;
}
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
  if (!ts_memory_may_grow(nbytes)) return NULL;
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

static char *new_chunk(void) {
  if (!owned) owner = pthread_self(), owned = true;
  return ts_memory_map(CHUNK);
}

static void *cut_small(int c) {
  int64_t size = small_size(c);
  if (chunk_end - chunk_at < size) {
    char *p = new_chunk();
    if (!p && ts_memory_reclaim()) p = new_chunk();
    if (!p) return NULL;
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

bool ts_memory_reclaim(void) {
  int64_t before = ts_work_kept();
  bool ours = owned && pthread_equal(pthread_self(), owner);
  if (ours) before += stats.cached;
  ts_work_trim();
  if (ours) ts_memory_trim();
  return malloc_trim(0) || before > 0;
}

static void count_live(int64_t size) {
  stats.live += size;
  if (stats.live > stats.peak) stats.peak = stats.live;
}

/* More than the machine has is refused without asking. */
static bool is_absurd(int64_t size) { return stats.live + size > ts_memory_machine(); }

static void *take_slot(int i, int64_t size) {
  void *at = slot[i].at;
  stats.cached -= size;
  if (slot[i].nbytes == size)
    slot[i] = slot[--nslot];
  else
    slot[i].at = (char *)at + size, slot[i].nbytes -= size;
  return at;
}

/* The smallest cached block of at least so many bytes, of these the one used last; -1: none. */
static int find_slot(int64_t size) {
  int best = -1;
  for (int i = 0; i < nslot; i++) {
    if (slot[i].nbytes < size) continue;
    int64_t more = best < 0 ? -1 : slot[best].nbytes - slot[i].nbytes;
    if (best < 0 || more > 0 || (more == 0 && slot[i].used > slot[best].used)) best = i;
  }
  return best;
}

static int by_address(const void *a, const void *b) {
  const char *p = ((const Slot *)a)->at, *q = ((const Slot *)b)->at;
  return (p > q) - (p < q);
}

/* Cached blocks that lie one behind the other become one. */
static void merge_slots(void) {
  int n = 0;
  qsort(slot, (size_t)nslot, sizeof *slot, by_address);
  for (int i = 0; i < nslot; i++) {
    Slot *before = n ? &slot[n - 1] : NULL;
    if (!before || (char *)before->at + before->nbytes != slot[i].at) {
      slot[n++] = slot[i];
      continue;
    }
    before->nbytes += slot[i].nbytes;
    if (slot[i].used > before->used) before->used = slot[i].used;
  }
  nslot = n;
}

static bool would_raise_peak(int64_t size) {
  return nslot && stats.live + stats.cached + size > stats.peak + RESERVE;
}

static void *alloc_large(int64_t size) {
  if (is_absurd(size)) return NULL;
  int found = find_slot(size);
  if (found >= 0 && slot[found].nbytes == size) return take_slot(found, size);
  if (would_raise_peak(size)) {
    if (found < 0) merge_slots(), found = find_slot(size);
    if (found >= 0) return take_slot(found, size);
  }
  while (would_raise_peak(size)) drop_oldest();
  void *at = ts_memory_map(size);
  return at || !ts_memory_reclaim() ? at : ts_memory_map(size);
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

static void *alloc_tried(int64_t nbytes) {
  return ts_memory_should_fail() ? NULL : ts_memory_spoiled(alloc(nbytes), nbytes);
}

void *ts_memory_alloc(int64_t nbytes) {
  if (atomic_load_explicit(&ts_memory_tried, memory_order_relaxed)) return alloc_tried(nbytes);
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
  while (would_raise_peak(0)) drop_oldest();
}
