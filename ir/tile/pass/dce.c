/* Removes statements without effect whose results nobody uses.
 *
 * Needs a kernel whose values are defined before they are used; keeps its form and what it
 * computes. Regions are walked backwards, so that every user of a value is seen before the
 * statement that makes it, and one walk is enough. */
#include <stdlib.h>

#include "ir/tile/tile.h"

static bool effect_inside(const TsTileRegion *r) {
  for (const TsTileStmt *s = r->first; s; s = s->next)
    if (s->op != TS_TILE_yield && ts_tile_effect(s)) return true;
  return false;
}

bool ts_tile_effect(const TsTileStmt *s) {
  if (s->op < TS_OP_COUNT) return false;
  switch (s->op) {
  case TS_TILE_for:
  case TS_TILE_if:
    for (int i = 0; i < s->nregion; i++)
      if (effect_inside(s->region[i])) return true;
    return false;
  case TS_TILE_alloc:
  case TS_TILE_view:
  case TS_TILE_aligned:
  case TS_TILE_load:
  case TS_TILE_gather:
  case TS_TILE_load_rows:
  case TS_TILE_unpack:
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_dim:
  case TS_TILE_iota:
  case TS_TILE_broadcast:
  case TS_TILE_reshape:
  case TS_TILE_transpose:
  case TS_TILE_part:
  case TS_TILE_join:
  case TS_TILE_cast:
  case TS_TILE_bitcast:
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_mulhi:
  case TS_TILE_look:
  case TS_TILE_scale:
  case TS_TILE_decay:
  case TS_TILE_ex2:
  case TS_TILE_lg2:
  case TS_TILE_larger:
  case TS_TILE_inv:
  case TS_TILE_rare:
  case TS_TILE_quarter:
  case TS_TILE_row:
  case TS_TILE_ult:
  case TS_TILE_random:
  case TS_TILE_sum:
  case TS_TILE_pairs:
  case TS_TILE_prod:
  case TS_TILE_max:
  case TS_TILE_min:
  case TS_TILE_argmax:
  case TS_TILE_argmin:
  case TS_TILE_places:
  case TS_TILE_mma:
  case TS_TILE_outer:
  case TS_TILE_dot2:
  case TS_TILE_program: return false;
  default: return true;
  }
}

static void unlink_stmt(TsTileRegion *r, TsTileStmt *s) {
  *(s->prev ? &s->prev->next : &r->first) = s->next;
  *(s->next ? &s->next->prev : &r->last) = s->prev;
}

static bool needed(const TsTileStmt *s, const bool *used) {
  for (int i = 0; i < s->nout; i++)
    if (used[s->out[i]->id]) return true;
  return ts_tile_effect(s);
}

static int sweep(TsTileRegion *r, bool *used) {
  int gone = 0;
  for (TsTileStmt *s = r->last, *prev; s; s = prev) {
    prev = s->prev;
    if (!needed(s, used)) {
      unlink_stmt(r, s);
      gone++;
      continue;
    }
    for (int i = 0; i < s->nin; i++) used[s->in[i]->id] = true;
    for (int i = s->nregion; i-- > 0;) gone += sweep(s->region[i], used);
  }
  return gone;
}

int ts_tile_dce(TsTile *k, TsError *err) {
  bool *used = calloc((size_t)k->nvalue + 1, sizeof *used);
  if (!used) return ts_error_memory(err), -1;
  int gone = sweep(k->body, used);
  free(used);
  return gone;
}
