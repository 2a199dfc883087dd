/* See ir/tile/parts.h. */
#include "ir/tile/parts.h"

#include <string.h>

TsTileParts *ts_tile_parts(TsTile *k) {
  TsTileParts *p = ts_arena_alloc(&k->arena, sizeof *p);
  if (p) *p = (TsTileParts){.n = 0};
  return k->parts = p;
}

bool ts_tile_parts_add(TsTileParts *p, TsTile *k, const int *arg, const int64_t *dim) {
  if (!k || p->n == TS_TILE_PARTS || k->nparam > TS_TILE_PART_PARAMS) {
    ts_tile_free(k);
    return false;
  }
  TsTilePart *to = &p->part[p->n++];
  *to = (TsTilePart){.k = k};
  memcpy(to->arg, arg, sizeof *arg * (size_t)k->nparam);
  if (k->ndim) memcpy(to->dim, dim, sizeof *dim * (size_t)k->ndim);
  return true;
}

int ts_tile_parts_temp(TsTileParts *p, int64_t nbytes, bool zero) {
  TS_ASSERT(p->ntemp < TS_TILE_TEMPS);
  p->temp[p->ntemp] = (TsTileTemp){.nbytes = nbytes, .zero = zero};
  return -1 - p->ntemp++;
}

int ts_tile_parts_shared(TsTileParts *p, int64_t nbytes, uint64_t name, bool writes) {
  int arg = ts_tile_parts_temp(p, nbytes, false);
  p->temp[-1 - arg].shared = name;
  p->temp[-1 - arg].writes = writes;
  return arg;
}
