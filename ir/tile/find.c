/* See ir/tile/find.h. */
#include "ir/tile/find.h"

const TsTileStmt *ts_tile_find(const TsTileRegion *r, int op) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (s->op == op) return s;
    for (int i = 0; i < s->nregion; i++) {
      const TsTileStmt *inner = ts_tile_find(s->region[i], op);
      if (inner) return inner;
    }
  }
  return NULL;
}

const TsTileType *ts_tile_find_fragment(const TsTileRegion *r, bool matrix) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nout; i++) {
      const TsTileType *t = &s->out[i]->type;
      if (t->space == TS_SPACE_fragment && (!matrix || t->rank == 2)) return t;
    }
    for (int i = 0; i < s->nregion; i++) {
      const TsTileType *t = ts_tile_find_fragment(s->region[i], matrix);
      if (t) return t;
    }
  }
  return NULL;
}
