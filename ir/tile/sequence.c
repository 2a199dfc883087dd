/* See ir/tile/sequence.h. */
#include "ir/tile/sequence.h"

#include <string.h>

TsTileSequence *ts_tile_sequence(TsTile *k) {
  TsTileSequence *p = ts_arena_alloc(&k->arena, sizeof *p);
  if (p) *p = (TsTileSequence){.whole = k};
  return k->sequence = p;
}

/* An array of the arena whose size is a power of two whenever it is full. */
static void *grown(TsTile *k, void *list, int n, size_t each) {
  if (n & (n - 1)) return list;
  void *p = ts_arena_alloc(&k->arena, each * (size_t)(n ? 2 * n : 1));
  if (p && n) memcpy(p, list, each * (size_t)n);
  if (!p) k->failed = true;
  return p;
}

bool ts_tile_sequence_add(TsTileSequence *p, TsTile *k, const int *arg, const int64_t *dim) {
  bool fits = k && k->nparam <= TS_TILE_STEP_PARAMS;
  TsTileStep *list = fits ? grown(p->whole, p->step, p->n, sizeof *list) : NULL;
  if (!list) {
    ts_tile_free(k);
    return false;
  }
  p->step = list;
  TsTileStep *to = &p->step[p->n++];
  *to = (TsTileStep){.k = k};
  memcpy(to->arg, arg, sizeof *arg * (size_t)k->nparam);
  if (k->ndim) memcpy(to->dim, dim, sizeof *dim * (size_t)k->ndim);
  return true;
}

int ts_tile_sequence_temp(TsTileSequence *p, int64_t nbytes, bool zero) {
  TsTileTemp *list = grown(p->whole, p->temp, p->ntemp, sizeof *list);
  if (!list) return -1;
  p->temp = list;
  p->temp[p->ntemp] = (TsTileTemp){.nbytes = nbytes, .zero = zero};
  return -1 - p->ntemp++;
}

int ts_tile_sequence_table(TsTileSequence *p, const void *data, int64_t nbytes) {
  const void *own = ts_arena_copy(&p->whole->arena, data, (size_t)nbytes);
  int arg = ts_tile_sequence_temp(p, nbytes, false);
  if (!own) p->whole->failed = true;
  if (!p->whole->failed) p->temp[-1 - arg].data = own;
  return arg;
}

int ts_tile_sequence_shared(TsTileSequence *p, int64_t nbytes, uint64_t name, bool writes) {
  int arg = ts_tile_sequence_temp(p, nbytes, false);
  if (p->whole->failed) return arg;
  p->temp[-1 - arg].shared = name;
  p->temp[-1 - arg].writes = writes;
  return arg;
}
