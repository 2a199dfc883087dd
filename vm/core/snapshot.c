/* See vm/core/snapshot.h. */
#include "vm/core/snapshot.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "devices/cpu_pool.h"
#include "devices/device.h"
#include "devices/memory.h"
#include "lib/clock.h"
#include "vm/core/defer.h"
#include "vm/core/mapped.h"
#include "vm/core/offload.h"

enum {
  CHUNK = 1 << 20,
  LINE = 64,
  MANY = 8,
  PAGES = 2 << 20
}; /* chunks that are worth other threads */

typedef struct Piece {
  TsTensor *t; /* a view of our own; a copy on another device; NULL: let go of */
  int device;  /* of a copy; else 0 */
  const char *from;
  char *to; /* from, where nothing is copied */
  int64_t nbytes;
  _Atomic int64_t taken, done; /* bytes that somebody copies, that are copied */
} Piece;

struct TsSnapshot {
  TsSnapshot *next;
  int n;
  Piece *piece, **by_storage; /* in order of storages' addresses */
  bool aside;
  atomic_bool copied; /* nobody needs tensors any more */
  void
      *queued[TS_MAX_DEVICES]; /* the event behind which copies on a device are made, or NULL */
  int64_t held_up;
};

static TsSnapshot *first; /* that other threads read */

/* Memory for copies stays for the next one: new pages cost several times what copying costs. */
static struct {
  char *at;
  int64_t nbytes;
  bool used;
} room;

static void drop_room(void) {
  if (room.at && !room.used) munmap(room.at, (size_t)room.nbytes);
  if (!room.used) room.at = NULL, room.nbytes = 0;
}

static char *take_room(int64_t nbytes) {
  if (room.used) return NULL;
  nbytes = (nbytes + PAGES - 1) / PAGES * PAGES;
  if (room.nbytes < nbytes) {
    drop_room();
    room.at = nbytes <= ts_memory_left() ? ts_memory_map(nbytes) : NULL;
    room.nbytes = room.at ? nbytes : 0;
  }
  room.used = room.at != NULL;
  return room.at;
}

/* The next chunk of a piece; false if there is none. */
static bool copy_chunk(Piece *p) {
  int64_t at = atomic_fetch_add(&p->taken, CHUNK);
  if (at >= p->nbytes) return false;
  int64_t n = p->nbytes - at < CHUNK ? p->nbytes - at : CHUNK;
  memcpy(p->to + at, p->from + at, (size_t)n);
  atomic_fetch_add(&p->done, n);
  return true;
}

static void copy_chunks(void *arg, int64_t lo, int64_t hi, int worker) {
  (void)worker;
  while (lo < hi && copy_chunk(arg)) lo++;
}

/* To the end, whoever has begun it. */
static void complete(Piece *p) {
  int64_t left = (p->nbytes - p->taken + CHUNK - 1) / CHUNK;
  if (left >= MANY) ts_cpu_parallel(left, MANY / 2, copy_chunks, p);
  while (copy_chunk(p)) { /* what an interrupt has left, and all of a small one */
  }
  while (p->done < p->nbytes) sched_yield();
}

static int fetch(TsSnapshot *s, int device, TsError *err) {
  TsDevice *d = ts_device_at(device);
  TsFetch *list = malloc(sizeof *list * (size_t)s->n);
  int n = 0;
  if (!list) return ts_error_memory(err);
  for (int i = 0; i < s->n; i++)
    if (s->piece[i].device == device)
      list[n++] = (TsFetch){s->piece[i].to, s->piece[i].from, s->piece[i].nbytes};
  int failed = d->fetch(d, n, list, s->queued[device], err);
  free(list);
  return failed;
}

int ts_snapshot_copy(TsSnapshot *s, TsError *err) {
  int failed = 0;
  for (int i = 0; i < s->n; i++)
    while (!s->piece[i].device && copy_chunk(&s->piece[i])) {
    }
  for (int i = 0; i < s->n; i++)
    while (!s->piece[i].device && s->piece[i].done < s->piece[i].nbytes) sched_yield();
  for (int d = 0; d < TS_MAX_DEVICES && !failed; d++)
    if (s->queued[d]) failed = fetch(s, d, err);
  s->copied = true;
  return failed;
}

/* ---- taking */
static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)(*(Piece *const *)a)->t->storage;
  uintptr_t y = (uintptr_t)(*(Piece *const *)b)->t->storage;
  return (x > y) - (x < y);
}

/* The device that alone has current bytes, and lets another thread fetch them; 0: none. */
static int far_device(const TsStorage *s) {
  for (TsCopy *p = s->valid & 1 ? NULL : s->copies; p; p = p->next)
    if (s->valid >> p->device & 1 && ts_device_at(p->device)->fetch) return p->device;
  return 0;
}

/* A copy on the device; false where it has no room for one. */
static bool take_there(TsContext *c, Piece *p, TsTensor *t) {
  int device = far_device(t->storage);
  TsTensor *copy = device ? ts_tensor_copy(c, t) : NULL;
  const char *at =
      copy && far_device(copy->storage) == device ? ts_tensor_read_on(copy, device) : NULL;
  if (!at) {
    ts_tensor_unref(copy);
    ts_error_clear(&c->err);
    return false;
  }
  p->t = copy, p->device = device, p->from = at;
  p->nbytes = p->done = p->taken = ts_meta_nbytes(&t->meta);
  return true;
}

static int take_piece(TsContext *c, Piece *p, TsTensor *t, bool aside) {
  TsTensor *whole = ts_defer_force(t) ? NULL : ts_tensor_contiguous(c, t);
  if (whole && aside && take_there(c, p, whole)) {
    ts_tensor_unref(whole);
    return 0;
  }
  bool read = whole && ts_tensor_read(whole) && !ts_mapped_check(c, 1, &whole);
  if (read) p->t = ts_tensor_view(whole, &whole->meta, whole->stride, whole->offset);
  ts_tensor_unref(whole);
  if (!p->t) return -1;
  p->from = ts_tensor_read(p->t);
  p->to = (char *)(uintptr_t)p->from;
  p->nbytes = p->done = p->taken = ts_meta_nbytes(&p->t->meta);
  return 0;
}

/* Memory of others, which may be changed without a word. */
static bool is_foreign(const TsStorage *s) { return s->release || s->held == TS_HELD_NEVER; }

/* The point in a device's order behind which all copies are made; these are queued already. */
static int note_queued(TsContext *c, TsSnapshot *s, int device) {
  TsDevice *d = ts_device_at(device);
  if (s->queued[device]) return 0;
  if ((c->replaying || c->waiting) && c->offload->flush(c, false)) return -1;
  if (d->run->event_new(d, &s->queued[device], &c->err)) return -1;
  return d->run->event_record(d, s->queued[device], NULL, &c->err);
}

static int begin_copies(TsContext *c, TsSnapshot *s) {
  int64_t all = 0;
  for (int i = 0; i < s->n; i++) all += (s->piece[i].nbytes + LINE - 1) / LINE * LINE;
  char *at = take_room(all + LINE);
  if (!at) return -1;
  s->aside = true;
  s->next = first;
  first = s;
  for (int i = 0; i < s->n; i++) {
    Piece *p = &s->piece[i];
    p->to = at;
    at += (p->nbytes + LINE - 1) / LINE * LINE;
    if (p->device) {
      if (note_queued(c, s, p->device)) return -1;
      continue;
    }
    p->taken = p->done = 0;
    if (is_foreign(p->t->storage)) {
      complete(p);
      if (ts_mapped_check(c, 1, &p->t)) return -1;
    } else {
      p->t->storage->snapped = 1;
    }
  }
  return 0;
}

TsSnapshot *ts_snapshot_take(TsContext *c, int n, TsTensor *const *t, bool aside) {
  TsSnapshot *s = calloc(1, sizeof *s);
  if (s) s->piece = calloc((size_t)n + 1, sizeof *s->piece);
  if (s) s->by_storage = calloc((size_t)n + 1, sizeof *s->by_storage);
  int failed = !s || !s->piece || !s->by_storage ? ts_error_memory(&c->err) : 0;
  for (int i = 0; i < n && !failed; i++) {
    s->by_storage[i] = &s->piece[i];
    failed = take_piece(c, &s->piece[i], t[i], aside);
    s->n = i + !failed;
  }
  if (!failed) {
    qsort(s->by_storage, (size_t)n, sizeof *s->by_storage, by_address);
    if (aside)
      failed = begin_copies(c, s);
    else
      drop_room();
  }
  if (!failed) return s;
  ts_snapshot_free(s);
  return NULL;
}

const void *ts_snapshot_bytes(const TsSnapshot *s, int i, int64_t *nbytes) {
  *nbytes = s->piece[i].nbytes;
  return s->piece[i].to;
}

int64_t ts_snapshot_held_up(const TsSnapshot *s) { return s->held_up; }

/* Where the pieces of a storage begin in by_storage. */
static int find(const TsSnapshot *s, const TsStorage *storage) {
  int lo = 0, hi = s->n;
  while (lo < hi) {
    int mid = (lo + hi) / 2;
    if ((uintptr_t)s->by_storage[mid]->t->storage < (uintptr_t)storage)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

void ts_snapshot_touch(TsStorage *storage) {
  storage->snapped = 0;
  for (TsSnapshot *s = first; s; s = s->next) {
    int64_t from = ts_clock_nsec();
    for (int i = find(s, storage); i < s->n && s->by_storage[i]->t->storage == storage; i++)
      complete(s->by_storage[i]);
    s->held_up += ts_clock_nsec() - from;
  }
}

static void let_go(TsSnapshot *s) {
  for (TsSnapshot **p = &first; *p; p = &(*p)->next)
    if (*p == s) {
      *p = s->next;
      break;
    }
  for (int i = 0; i < s->n; i++) {
    TsTensor *t = s->piece[i].t;
    if (t && s->aside) t->storage->snapped = 0;
    ts_tensor_unref(t);
    s->piece[i].t = NULL;
  }
  for (int i = 0; i < TS_MAX_DEVICES; i++) {
    if (s->queued[i]) ts_device_at(i)->run->event_free(ts_device_at(i), s->queued[i]);
    s->queued[i] = NULL;
  }
}

void ts_snapshot_tidy(void) {
  for (TsSnapshot *s = first, *next; s; s = next) {
    next = s->next;
    if (s->copied) let_go(s);
  }
}

void ts_snapshot_free(TsSnapshot *s) {
  if (!s) return;
  let_go(s);
  if (s->aside) room.used = false;
  free(s->piece);
  free(s->by_storage);
  free(s);
}
