/* Computes equal things once.
 *
 * Needs a kernel whose values are defined before they are used; keeps its form and every bit. A
 * statement without effect that says what one before it says, in the same region or one around
 * it, gives way to that one. Loads stay: what lies in memory may have changed. */
#include <stdlib.h>

#include "ir/text/value.h"
#include "ir/tile/tile.h"

typedef struct Cse {
  TsTile *k;
  TsTileVal *is; /* by id: what stands for a value */
  TsTileStmt **slot;
  size_t room, n;
  int gone;
  bool failed;
} Cse;

/* Fragments of one axis lie along rows or columns, as their users say: two that begin alike may
 * lie apart. */
static bool begins_line(const TsTileStmt *s) {
  const TsTileType *t = &s->out[0]->type;
  return t->space == TS_SPACE_fragment && t->rank == 1 && (!s->nin || !s->in[0]->type.rank);
}

static bool plain(const TsTileStmt *s) {
  if (s->nout == 1 && begins_line(s)) return false;
  switch (s->op) {
  case TS_TILE_load:
  case TS_TILE_gather:
  case TS_TILE_load_rows:
  case TS_TILE_unpack:
  case TS_TILE_alloc:
  case TS_TILE_mma:
  case TS_TILE_outer: return false;
  default: return s->nout == 1 && !s->nregion && !ts_tile_effect(s);
  }
}

static size_t hash_of(const TsTileStmt *s) {
  uint64_t h = s->op * 0x9e3779b97f4a7c15u + s->out[0]->type.dtype;
  for (int i = 0; i < s->nin; i++) h = (h ^ s->in[i]->id) * 0xff51afd7ed558ccdu;
  for (int i = 0; i < s->nattr; i++)
    if (s->attr[i].type == TS_ATTR_int) h = (h ^ (uint64_t)s->attr[i].i) * 0xff51afd7ed558ccdu;
  return (size_t)(h ^ h >> 29);
}

static bool same(const TsTileStmt *a, const TsTileStmt *b) {
  if (a->op != b->op || a->nin != b->nin || a->nattr != b->nattr) return false;
  if (!ts_tile_type_same(&a->out[0]->type, &b->out[0]->type)) return false;
  for (int i = 0; i < a->nin; i++)
    if (a->in[i] != b->in[i]) return false;
  for (int i = 0; i < a->nattr; i++)
    if (!ts_attr_same(&a->attr[i], &b->attr[i])) return false;
  return true;
}

static bool visible(const TsTileRegion *from, const TsTileRegion *r) {
  while (from && from != r) from = from->outer;
  return from != NULL;
}

static void put(Cse *c, TsTileStmt *s) {
  size_t i = hash_of(s) & (c->room - 1);
  while (c->slot[i]) i = (i + 1) & (c->room - 1);
  c->slot[i] = s;
  c->n++;
}

static bool grow(Cse *c) {
  TsTileStmt **old = c->slot;
  size_t n = c->room;
  if (2 * c->n < c->room) return true;
  c->room = n ? 2 * n : 256;
  c->n = 0;
  if (!(c->slot = calloc(c->room, sizeof *c->slot))) {
    c->slot = old, c->room = n;
    return false;
  }
  for (size_t i = 0; i < n; i++)
    if (old[i]) put(c, old[i]);
  free(old);
  return true;
}

static TsTileStmt *find(const Cse *c, const TsTileStmt *s) {
  for (size_t i = hash_of(s) & (c->room - 1); c->slot[i]; i = (i + 1) & (c->room - 1))
    if (same(c->slot[i], s) && visible(s->in_region, c->slot[i]->in_region)) return c->slot[i];
  return NULL;
}

static void unlink_stmt(TsTileStmt *s) {
  TsTileRegion *r = s->in_region;
  *(s->prev ? &s->prev->next : &r->first) = s->next;
  *(s->next ? &s->next->prev : &r->last) = s->prev;
}

/* Without memory nothing more gives way, but what did still has to be replaced in its users. */
static void walk(Cse *c, TsTileRegion *r) {
  for (TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++)
      if (c->is[s->in[i]->id]) s->in[i] = c->is[s->in[i]->id];
    for (int i = 0; i < s->nregion; i++) walk(c, s->region[i]);
    if (c->failed || !plain(s)) continue;
    if (!grow(c)) {
      c->failed = true;
      continue;
    }
    TsTileStmt *first = find(c, s);
    if (!first) {
      put(c, s);
      continue;
    }
    if (!first->out[0]->name) first->out[0]->name = s->out[0]->name;
    c->is[s->out[0]->id] = first->out[0];
    unlink_stmt(s);
    c->gone++;
  }
}

int ts_tile_cse(TsTile *k, TsError *err) {
  Cse c = {.k = k, .is = calloc((size_t)k->nvalue + 1, sizeof *c.is)};
  c.failed = !c.is;
  if (c.is) walk(&c, k->body);
  free(c.is);
  free(c.slot);
  return c.failed ? ts_error_memory(err), -1 : c.gone;
}
