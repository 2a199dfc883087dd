/* See ir/tile/overlay.h. The order of the text is that of a round, and rounds have elements of their own. A
 * loop that begins where one before it has ended goes on with other elements. */
#include "ir/tile/overlay.h"

typedef struct Overlay {
  const TsTile *k;
  uint64_t *over;
} Overlay;

static bool is_store(const TsTileStmt *s) {
  return s->op == TS_TILE_store || s->op == TS_TILE_store_below || s->op == TS_TILE_scatter;
}

static bool is_hint(const TsTileStmt *s) {
  return s->op == TS_TILE_prefetch || s->op == TS_TILE_aligned;
}

/* What s reads of operands, when these results are written; gives what is written behind it. */
static uint64_t look(Overlay *o, const TsTileStmt *s, uint64_t written) {
  uint64_t more = 0;
  for (int i = 0; i < s->nin && !is_hint(s); i++) {
    const TsTileVal v = s->in[i];
    if (!v || v->type.space != TS_SPACE_global || v->stmt || v->region) continue;
    if (v->index >= o->k->nin) {
      if (is_store(s) && !i) more |= (uint64_t)1 << (v->index - o->k->nin);
      continue;
    }
    for (int r = 0; r < o->k->nparam - o->k->nin; r++)
      if (written >> r & 1) o->over[r] &= ~((uint64_t)1 << v->index);
  }
  return written | more;
}

/* written: before the region; gives what is behind it. */
static uint64_t walk(Overlay *o, const TsTileRegion *r, uint64_t written) {
  TsTileVal end = NULL;      /* of the last loop, and */
  uint64_t before = written; /* what was written when the first of its chain began */
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    written = look(o, s, written);
    if (s->op == TS_TILE_for && (!end || s->in[0] != end)) before = written;
    uint64_t behind = written;
    for (int i = 0; i < s->nregion; i++)
      behind |= walk(o, s->region[i], s->op == TS_TILE_for ? before : written);
    if (s->op == TS_TILE_for) end = s->in[1];
    written = behind;
  }
  return written;
}

void ts_tile_overlay(const TsTile *k, uint64_t *over) {
  Overlay o = {.k = k, .over = over};
  walk(&o, k->body, 0);
}
