/* The second order of a simulated GPU (devices/aside.h). All runs at once, so that nothing is gained;
 * instead what would go wrong on a GPU is found: work of the device's own order on memory that a
 * section has made and that was not rejoined, and memory that is freed while a section uses it. */
#include <stdlib.h>

#include "devices/aside.h"
#include "devices/sim.h"

typedef struct Block {
  TsDevice *d;
  char *at; /* as the device has it */
  int64_t nbytes;
  uint64_t ticket; /* 0: of the section that goes on */
} Block;

typedef struct List {
  Block *of;
  int n, cap;
} List;

static List made, used, late; /* used: addresses; late: freed by sections */
static struct {
  bool aside;
  uint64_t rejoined;
} state[TS_MAX_DEVICES];

/* Without memory less is found. */
static bool add(List *l, TsDevice *d, void *at, int64_t nbytes) {
  if (l->n == l->cap) {
    int cap = l->cap ? 2 * l->cap : 64;
    Block *more = realloc(l->of, sizeof *more * (size_t)cap);
    if (!more) return false;
    l->of = more, l->cap = cap;
  }
  l->of[l->n++] = (Block){d, at, nbytes, 0};
  return true;
}

static void stamp(List *l, TsDevice *d, uint64_t ticket) {
  for (int i = 0; i < l->n; i++)
    if (l->of[i].d == d && !l->of[i].ticket) l->of[i].ticket = ticket;
}

static void forget(List *l, const TsDevice *d, uint64_t upto) {
  int n = 0;
  for (int i = 0; i < l->n; i++)
    if (l->of[i].d != d || !l->of[i].ticket || l->of[i].ticket > upto) l->of[n++] = l->of[i];
  l->n = n;
}

int ts_sim_aside_begin(TsDevice *d, TsError *err) {
  (void)err;
  if (state[d->index].aside) TS_BUG("%s: a section begins within another one", d->name);
  state[d->index].aside = true;
  return 0;
}

int ts_sim_aside_end(TsDevice *d, uint64_t ticket, TsError *err) {
  (void)err;
  state[d->index].aside = false;
  stamp(&made, d, ticket);
  stamp(&used, d, ticket);
  stamp(&late, d, ticket);
  return 0;
}

int ts_sim_aside_rejoin(TsDevice *d, uint64_t ticket, TsError *err) {
  (void)err;
  if (state[d->index].rejoined < ticket) state[d->index].rejoined = ticket;
  forget(&made, d, ticket);
  forget(&used, d, ticket);
  for (int i = 0; i < late.n;) {
    Block b = late.of[i];
    if (b.d != d || !b.ticket || b.ticket > ticket) {
      i++;
      continue;
    }
    late.of[i] = late.of[--late.n];
    d->free(d, b.at, b.nbytes);
  }
  return 0;
}

void ts_sim_aside_made(TsDevice *d, void *at, int64_t nbytes) {
  if (state[d->index].aside) add(&made, d, at, nbytes);
}

bool ts_sim_aside_keeps(TsDevice *d, void *at, int64_t nbytes) {
  if (state[d->index].aside) return add(&late, d, at, nbytes);
  for (int i = 0; i < used.n; i++) {
    const Block *b = &used.of[i];
    bool within = b->at >= (char *)at && b->at < (char *)at + nbytes;
    if (within && (!b->ticket || b->ticket > state[d->index].rejoined))
      TS_BUG("%s: memory is freed that %s still uses beside its own work", d->name, b->d->name);
  }
  return false;
}

void ts_sim_aside_touch(TsDevice *d, const void *at) {
  const char *p = at;
  if (state[d->index].aside) {
    add(&used, d, (void *)(uintptr_t)at, 0);
    return;
  }
  for (int i = 0; i < made.n; i++)
    if (p >= made.of[i].at && p < made.of[i].at + made.of[i].nbytes)
      TS_BUG("%s reads or writes what is still on its way beside its own work", d->name);
}
