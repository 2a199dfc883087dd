/* A GPU's caching allocator, whoever makes it.
 *
 * A block may be handed out again at once, while kernels that used it are still queued:
 * everything on a device is in the order of its work stream. Asking the driver costs
 * microseconds, and giving back waits for the device, so both are rare. Small blocks (to 256
 * KiB, four classes a doubling) are places in slabs of one class; what is known of them stands
 * on the host, since the GPU's memory cannot be looked at. Of what is free the lowest address
 * is taken, of large blocks that of the last ones, so that who does the same again, with all
 * given back in between, gets the same addresses, and records of launches fit as they are.
 * Large blocks are allocations of their own, rounded to 1/8 of their power of two, from 16 MiB
 * on to 1/32 or 2 MiB, and kept while live + cached stays below the most that the program ever
 * had live, or cached below 1/16 of the memory. What was given back and is wanted again would
 * have been worth keeping, so the limit grows by it: a program that does the same again and
 * again soon asks no more.
 *
 * When the driver has nothing left, a block that is kept and larger than what is wanted is cut
 * (devices/driver/cut.c), from then on before the driver is asked. Where there is none,
 * launches that were put off are made, blocks that were not used for longest go back until
 * there are as many bytes, at last all, and the driver is asked once more. */
#include <stdlib.h>
#include <string.h>

#include "devices/driver/driver.h"
#include "devices/memory.h"

enum {
  SMALL_MIN = 512,
  SMALL_MAX = 256 << 10,
  NSMALL = 37, /* classes 512 .. 256 Ki, four a doubling */
  SLAB = 2 << 20,
  NLARGE = 240,       /* classes from SMALL_MAX on, eight a doubling */
  FINE = 16 << 20,    /* from here on sizes are rounded to less */
  RESERVE = 64 << 20, /* this much may always stay cached, */
  PART = 16,          /* or this part of the memory */
  LOOKS = 64,         /* so many kept blocks are compared: there may be thousands */
  /* A block is cut for what takes this part of it at least: the rest may have to wait for that
   * as long as it lives. */
  SHARE = 8
};

typedef struct Slab {
  struct Slab *next; /* of its class, while it has free places */
  uintptr_t base;
  int cls, n, nfree;
  int first;       /* no word before it has a bit */
  uint64_t free[]; /* bits of places */
} Slab;

/* A large block that is kept. */
typedef struct Kept {
  struct Kept *newer, *older; /* of its class */
  uintptr_t at;
  int64_t nbytes;
  uint64_t used;
} Kept;

typedef struct TsDriverPool {
  const TsDriver *driver;
  Slab *partial[NSMALL]; /* with free places, by address */
  Slab **slab;           /* all, by address */
  int nslab, room;
  Kept *newest[NLARGE], *oldest[NLARGE];
  Kept *spare; /* nodes without a block, by older */
  int64_t reserve;
  int64_t nlive;        /* blocks handed out */
  int64_t held, cached; /* large: bytes handed out, and kept; */
  int64_t pieces;       /* of these, in free pieces of what is cut */
  TsCuts *cuts;
  bool tight;                 /* the driver had nothing left */
  int64_t most;               /* most ever handed out, and what was given back too early */
  int32_t given_back[NLARGE]; /* blocks of a class that were dropped to stay below it */
  int64_t slabs_free;         /* bytes of free places in slabs */
  uint64_t clock;
  uintptr_t last;      /* large block handed out last, 0: it was a small one */
  uint64_t last_freed; /* by clock */
  uint64_t hold;       /* blocks freed after this stay; 0: none has to */
} TsDriverPool;

TsDriverPool *ts_driver_pool_new(const TsDriven *s) {
  TsDriverPool *p = calloc(1, sizeof *p);
  int64_t part = (int64_t)s->total / PART;
  if (!p || !(p->cuts = ts_cuts_new())) return free(p), NULL;
  p->driver = s->driver, p->reserve = part > RESERVE ? part : RESERVE;
  return p;
}

int64_t ts_driver_cached(const TsDevice *d) {
  const TsDriverPool *p = ((const TsDriven *)d->state)->pool;
  return p ? p->cached + p->slabs_free : 0;
}

uint64_t ts_driver_freed(const TsDevice *d) {
  return ((const TsDriven *)d->state)->pool->clock;
}

uint64_t ts_driver_freed_at(const TsDevice *d, const void *block) {
  const TsDriverPool *p = ((const TsDriven *)d->state)->pool;
  bool last = block && p->last == (uintptr_t)block;
  return last ? p->last_freed : p->clock;
}

/* Class c holds blocks of (4 + c % 4) << (7 + c / 4) bytes. */
static int small_class(int64_t nbytes) {
  if (nbytes <= SMALL_MIN) return 0;
  int top = 63 - __builtin_clzll((uint64_t)(nbytes - 1));
  return (top - 9) * 4 + (int)(((nbytes - 1) >> (top - 2)) & 3) + 1;
}

static int64_t small_size(int c) { return (int64_t)(4 + c % 4) << (7 + c / 4); }

static int64_t large_size(int64_t nbytes) {
  int top = 63 - __builtin_clzll((uint64_t)nbytes);
  int64_t step = (int64_t)1 << (top - 3);
  if (nbytes > FINE) step = step / 4 > SLAB ? step / 4 : SLAB;
  return (nbytes + step - 1) / step * step;
}

static int large_class(int64_t size) {
  int top = 63 - __builtin_clzll((uint64_t)size);
  int c = (top - 18) * 8 + (int)((size >> (top - 3)) & 7);
  return c < NLARGE ? c : NLARGE - 1;
}

/* ---- blocks that are kept */
static bool keep(TsDriverPool *p, uintptr_t at, int64_t size) {
  int c = large_class(size);
  Kept *k = p->spare;
  if (k)
    p->spare = k->older;
  else if (!(k = malloc(sizeof *k)))
    return false;
  *k = (Kept){NULL, p->newest[c], at, size, ++p->clock};
  *(k->older ? &k->older->newer : &p->oldest[c]) = k;
  p->newest[c] = k;
  p->cached += size;
  return true;
}

static void take(TsDriverPool *p, Kept *k) {
  int c = large_class(k->nbytes);
  *(k->newer ? &k->newer->older : &p->newest[c]) = k->older;
  *(k->older ? &k->older->newer : &p->oldest[c]) = k->newer;
  p->cached -= k->nbytes;
  k->older = p->spare;
  p->spare = k;
}

/* ---- giving back */
/* Its class, or -1: there is none that may go. */
static int drop_oldest(TsDriverPool *p) {
  Kept *oldest = NULL;
  for (int c = 0; c < NLARGE; c++)
    if (p->oldest[c] && (!oldest || p->oldest[c]->used < oldest->used)) oldest = p->oldest[c];
  if (!oldest || (p->hold && oldest->used > p->hold)) return -1;
  int c = large_class(oldest->nbytes);
  p->driver->free((void *)oldest->at);
  take(p, oldest);
  return c;
}

void ts_driver_hold(TsDevice *d, bool on) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  if (on && !p->hold) p->hold = ++p->clock;
  if (!on) p->hold = 0;
}

static void drop_empty_slabs(TsDriverPool *p) {
  int kept = 0;
  memset(p->partial, 0, sizeof p->partial);
  for (int i = 0; i < p->nslab; i++) {
    Slab *s = p->slab[i];
    if (s->nfree == s->n) {
      p->driver->free((void *)s->base);
      p->slabs_free -= s->n * small_size(s->cls);
      free(s);
      continue;
    }
    p->slab[kept++] = s;
  }
  p->nslab = kept;
  for (int i = kept; i-- > 0;) { /* the lowest ones first */
    Slab *s = p->slab[i];
    if (!s->nfree) continue;
    s->next = p->partial[s->cls];
    p->partial[s->cls] = s;
  }
}

/* For all that may use what goes back. */
static void wait_for_work(TsDevice *d) {
  const TsDriven *s = d->state;
  s->driver->stream_wait(s->work);
  s->driver->stream_wait(s->copy);
  ts_driver_aside_wait(d);
}

void ts_driver_trim(TsDevice *d) {
  TsDriven *s = d->state;
  TsError ignored;
  if (!s->pool || ts_driver_enter(d, &ignored)) return;
  wait_for_work(d);
  while (drop_oldest(s->pool) >= 0) {
  }
  s->pool->tight = false;
  s->pool->most = s->pool->held;
  memset(s->pool->given_back, 0, sizeof s->pool->given_back);
  if (!s->pool->hold) drop_empty_slabs(s->pool);
}

/* ---- asking the driver */
static int out_of_memory(TsDevice *d, int64_t nbytes, TsError *err) {
  size_t nfree = 0, total = 0;
  const TsDriverPool *p = ((TsDriven *)d->state)->pool;
  const TsDriver *v = p->driver;
  const char *name = NULL, *text = NULL;
  v->say(v->full, &name, &text);
  v->room(&nfree, &total);
  ts_error_set(err, TS_ERR_memory,
               "out of memory: %s has no room for %lld bytes: %lld bytes live in %lld blocks, "
               "%lld cached, %zu of %zu free (%s: %s)",
               d->name, (long long)nbytes, (long long)d->live, (long long)p->nlive,
               (long long)ts_driver_cached(d), nfree, total, v->name.alloc,
               name ? name : "out of memory");
  return ts_error_hint(err,
                       "drop tensors that are not needed (x = nil), or keep some on the CPU");
}

/* A piece of a block that is kept: of one that is cut, or of the smallest that is large
 * enough. */
static bool cut(TsDriverPool *p, int64_t nbytes, uintptr_t *at, uint64_t *used) {
  if (!ts_cuts_take(p->cuts, nbytes, at, used)) {
    Kept *best = NULL;
    for (int c = large_class(nbytes); c < NLARGE && !best; c++)
      for (Kept *k = p->newest[c]; k; k = k->older)
        if (k->nbytes >= nbytes && (!best || k->nbytes < best->nbytes)) best = k;
    if (!best || best->nbytes / SHARE > nbytes) return false;
    if (!ts_cuts_add(p->cuts, best->at, best->nbytes, best->used)) return false;
    p->cached += best->nbytes, p->pieces += best->nbytes; /* again, behind what take does */
    take(p, best);
    if (!ts_cuts_take(p->cuts, nbytes, at, used)) return false;
  }
  p->cached -= nbytes, p->pieces -= nbytes;
  return true;
}

/* What is not used for longest goes back, until it is as many bytes. */
static void make_room(TsDevice *d, int64_t nbytes) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  int64_t least = p->cached - nbytes;
  wait_for_work(d);
  while (p->cached > least && drop_oldest(p) >= 0) {
  }
}

/* Memory of the driver's; or, since `used`, a piece of what is kept, if that is not NULL. */
static int ask(TsDevice *d, int64_t nbytes, uintptr_t *at, uint64_t *used, TsError *err) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  const TsDriver *v = p->driver;
  void *block = NULL;
  if (used && p->tight && cut(p, nbytes, at, used)) return 0;
  int code = v->alloc(&block, (size_t)nbytes);
  if (code == v->full) {
    p->tight = true;
    if (p->most > p->held + p->cached) p->most = p->held + p->cached;
    if (used && cut(p, nbytes, at, used)) return 0;
    if (d->let_go && d->let_go(d->holder, err)) return -1;
    make_room(d, nbytes);
    code = v->alloc(&block, (size_t)nbytes);
  }
  if (code == v->full) {
    ts_driver_trim(d);
    p->tight = true;
    code = v->alloc(&block, (size_t)nbytes);
  }
  *at = (uintptr_t)block;
  if (!code) return 0;
  if (code == v->full) return out_of_memory(d, nbytes, err);
  return ts_driver_fail(d, code, v->name.alloc, err);
}

/* ---- slabs */
/* The number of slabs that begin at or before an address. */
static int slabs_before(const TsDriverPool *p, uintptr_t at) {
  int lo = 0, hi = p->nslab;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if (p->slab[mid]->base <= at)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

static int out_of_host(TsError *err) {
  return ts_error_set(err, TS_ERR_memory, "out of memory: host memory for the GPU's allocator");
}

static void put_partial(TsDriverPool *p, Slab *s) {
  Slab **at = &p->partial[s->cls];
  while (*at && (*at)->base < s->base) at = &(*at)->next;
  s->next = *at;
  *at = s;
}

static int add_slab(TsDevice *d, int c, TsError *err) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  int n = (int)(SLAB / small_size(c));
  if (p->nslab == p->room) {
    int room = p->room ? 2 * p->room : 16;
    Slab **more = realloc(p->slab, (size_t)room * sizeof *more);
    if (!more) return out_of_host(err);
    p->slab = more, p->room = room;
  }
  size_t nword = (size_t)(n + 63) / 64;
  Slab *s = malloc(sizeof *s + nword * sizeof *s->free);
  if (!s) return out_of_host(err);
  if (ask(d, SLAB, &s->base, NULL, err)) {
    free(s);
    return -1;
  }
  s->cls = c, s->n = s->nfree = n, s->first = 0;
  memset(s->free, 0xff, nword * sizeof *s->free);
  if (n % 64) s->free[nword - 1] = (UINT64_C(1) << n % 64) - 1;
  int at = slabs_before(p, s->base);
  memmove(p->slab + at + 1, p->slab + at, (size_t)(p->nslab - at) * sizeof *p->slab);
  p->slab[at] = s;
  p->nslab++;
  put_partial(p, s);
  p->slabs_free += n * small_size(c);
  return 0;
}

static int alloc_small(TsDevice *d, int64_t nbytes, uintptr_t *at, TsError *err) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  int c = small_class(nbytes);
  if (!p->partial[c] && add_slab(d, c, err)) return -1;
  p->last = 0;
  Slab *s = p->partial[c];
  while (!s->free[s->first]) s->first++;
  int bit = __builtin_ctzll(s->free[s->first]);
  s->free[s->first] &= s->free[s->first] - 1;
  *at = s->base + (uintptr_t)((64 * s->first + bit) * small_size(c));
  if (!--s->nfree) p->partial[c] = s->next;
  p->slabs_free -= small_size(c);
  return 0;
}

static void free_small(TsDriverPool *p, uintptr_t at) {
  int i = slabs_before(p, at) - 1;
  if (i < 0 || at >= p->slab[i]->base + SLAB)
    TS_BUG("the GPU's block %llx is of no slab", (unsigned long long)at);
  Slab *s = p->slab[i];
  int place = (int)((int64_t)(at - s->base) / small_size(s->cls));
  s->free[place / 64] |= UINT64_C(1) << place % 64;
  if (place / 64 < s->first) s->first = place / 64;
  p->slabs_free += small_size(s->cls);
  if (!s->nfree++) put_partial(p, s);
}

/* ---- large blocks */
static void fit_cache(TsDriverPool *p, int64_t more) {
  while (p->cached - p->pieces > p->reserve && p->held + p->cached + more > p->most) {
    int c = drop_oldest(p);
    if (c < 0) return;
    p->given_back[c]++;
  }
}

static int alloc_large(TsDevice *d, int64_t size, uintptr_t *at, TsError *err) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  Kept *k = NULL;
  int looks = LOOKS;
  for (Kept *i = p->newest[large_class(size)]; i && (looks-- > 0 || !k); i = i->older)
    if (i->nbytes == size && (!k || i->at < k->at)) k = i;
  if (k) {
    *at = p->last = k->at;
    p->last_freed = k->used;
    take(p, k);
  } else {
    int32_t *given_back = &p->given_back[large_class(size)];
    if (*given_back) --*given_back, p->most += size;
    fit_cache(p, size);
    uint64_t used = 0;
    if (ask(d, size, at, &used, err)) return -1;
    p->last = *at, p->last_freed = used;
  }
  p->held += size;
  if (p->held > p->most) p->most = p->held;
  return 0;
}

static void free_large(TsDriverPool *p, uintptr_t at, int64_t size) {
  if (at == p->last) p->last = 0;
  p->held -= size;
  uintptr_t whole;
  int64_t nbytes;
  if (ts_cuts_give(p->cuts, at, ++p->clock, &whole, &nbytes)) {
    p->cached += size, p->pieces += size;
    if (!nbytes) return;
    p->cached -= nbytes, p->pieces -= nbytes;
    at = whole, size = nbytes;
  }
  if (!keep(p, at, size)) p->driver->free((void *)at);
  fit_cache(p, 0);
}

void *ts_driver_alloc(TsDevice *d, int64_t nbytes, TsError *err) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  uintptr_t at = 0;
  bool at_hand =
      nbytes <= SMALL_MAX && p->partial[small_class(nbytes)]; /* no driver is asked */
  if (ts_memory_should_fail()) return ts_device_full(d, nbytes, err), NULL;
  if (!at_hand && ts_driver_enter(d, err)) return NULL;
  int failed = nbytes <= SMALL_MAX ? alloc_small(d, nbytes, &at, err)
                                   : alloc_large(d, large_size(nbytes), &at, err);
  if (failed) return NULL;
  p->nlive++;
  d->live += nbytes;
  if (d->live > d->peak) d->peak = d->live;
  return (void *)at;
}

void ts_driver_free(TsDevice *d, void *block, int64_t nbytes) {
  TsDriverPool *p = ((TsDriven *)d->state)->pool;
  TsError ignored;
  uintptr_t at = (uintptr_t)block;
  if (!block || (nbytes > SMALL_MAX && ts_driver_enter(d, &ignored))) return;
  if (ts_driver_aside_keeps(d, block, nbytes)) return;
  d->live -= nbytes;
  p->nlive--;
  if (nbytes <= SMALL_MAX)
    free_small(p, at);
  else
    free_large(p, at, large_size(nbytes));
}
