/* See ir/tile/ahead.h. What a role has waited for holds for what stands behind in its region, and in
 * regions there; a wait inside of a loop or of one branch says nothing of what stands behind those. */
#include "ir/tile/ahead.h"

#include "ir/tile/find.h"

static bool is_param(const TsTileValue *v) { return !v->stmt && !v->region; }

/* Scratch is of all runs of the kernel: nobody says who writes it. */
static uint64_t touched(const TsTileStmt *s) {
  uint64_t bits = 0;
  for (int i = 0; i < s->nin; i++) {
    if (is_param(s->in[i])) bits |= 1ull << s->in[i]->index;
    if (s->in[i]->type.space == TS_SPACE_scratch) bits = TS_TILE_AHEAD_ALL;
  }
  return bits;
}

static uint64_t before_wait(const TsTileRegion *r) {
  uint64_t bits = 0;
  for (const TsTileStmt *s = r->first; s && s->op != TS_TILE_await_launch; s = s->next) {
    bits |= touched(s);
    for (int i = 0; i < s->nregion; i++) bits |= before_wait(s->region[i]);
  }
  return bits;
}

uint64_t ts_tile_ahead(const TsTile *k) {
  bool known = k->nparam < 64 && ts_tile_find(k->body, TS_TILE_await_launch);
  return known ? before_wait(k->body) : TS_TILE_AHEAD_ALL;
}
