/* See ir/tile/overlay.h. The order of the text is that of a round, and rounds have elements of their own. A
 * loop that begins where one before it has ended goes on with other elements, as does what is read from
 * there on behind it, and statements of one region whose positions differ by as much as they take. */
#include "ir/tile/overlay.h"

#include "ir/tile/position.h"

enum { MOST_STORES = 128, DEEPEST = 4 };

typedef struct Store {
  int result;
  const TsTileStmt *stmt;
} Store;

typedef struct Overlay {
  const TsTile *k;
  uint64_t *over;
  Store store[MOST_STORES]; /* of the regions around, in the order of the text */
  int nstore;
} Overlay;

static bool is_store(const TsTileStmt *s) {
  return s->op == TS_TILE_store || s->op == TS_TILE_store_below || s->op == TS_TILE_scatter;
}

static bool is_hint(const TsTileStmt *s) {
  return s->op == TS_TILE_prefetch || s->op == TS_TILE_aligned;
}

/* ---- positions */
static bool same(const TsTileValue *a, const TsTileValue *b, int depth) {
  int64_t i, j;
  if (a == b) return true;
  if (!a || !b || !a->stmt || !b->stmt || !depth) return false;
  if (ts_tile_is_number(a, &i) && ts_tile_is_number(b, &j)) return i == j;
  const TsTileStmt *s = a->stmt, *t = b->stmt;
  if (s->op != t->op || s->nin != 2 || t->nin != 2) return false;
  if (s->op != TS_OP_add && s->op != TS_OP_mul && s->op != TS_OP_sub) return false;
  return same(s->in[0], t->in[0], depth - 1) && same(s->in[1], t->in[1], depth - 1);
}

/* v = base + what it gives. */
static int64_t split(const TsTileValue *v, const TsTileValue **base) {
  int64_t sum = 0, n;
  while (v && v->stmt && v->stmt->op == TS_OP_add) {
    const TsTileStmt *s = v->stmt;
    if (ts_tile_is_number(s->in[1], &n))
      v = s->in[0];
    else if (ts_tile_is_number(s->in[0], &n))
      v = s->in[1];
    else
      break;
    sum += n;
  }
  if (ts_tile_is_number(v, &n)) sum += n, v = NULL;
  *base = v;
  return sum;
}

static int64_t elements(const TsTileType *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i] > 0 ? t->dim[i] : INT32_MAX;
  return n;
}

/* Whether a load and a store before it never have an element in common. */
static bool apart(const TsTileStmt *store, const TsTileStmt *load) {
  int n = store->nin - 2;
  if (load->op != TS_TILE_load || store->op != TS_TILE_store || load->nin - 1 != n)
    return false;
  int64_t a = elements(&store->in[store->nin - 1]->type), b = elements(&load->out[0]->type);
  for (int i = 0; i < n; i++) {
    const TsTileValue *p, *q;
    int64_t from = split(store->in[1 + i], &p), to = split(load->in[1 + i], &q);
    if (same(p, q, DEEPEST) && (to - from >= a || from - to >= b)) return true;
  }
  return false;
}

/* Whether a load begins where a loop has ended, or behind that. */
static bool is_behind(const TsTileStmt *load, const TsTileValue *end) {
  const TsTileValue *p, *q;
  int64_t from = split(end, &p);
  if (load->op != TS_TILE_load) return false;
  for (int i = 1; i < load->nin; i++) {
    int64_t to = split(load->in[i], &q);
    if (to >= from && same(p, q, DEEPEST)) return true;
  }
  return false;
}

/* ---- the walk */
static uint64_t bit(int i) { return (uint64_t)1 << i; }

/* What s reads of operands: where there was written, or where a store of this region, which begin at
 * `first`, has been before. Gives the result that is written and has no room in the list, as a bit. */
static uint64_t look(Overlay *o, const TsTileStmt *s, uint64_t written, int first) {
  uint64_t more = 0;
  for (int i = 0; i < s->nin && !is_hint(s); i++) {
    const TsTileVal v = s->in[i];
    if (!v || v->type.space != TS_SPACE_global || v->stmt || v->region) continue;
    if (v->index >= o->k->nin) {
      int result = v->index - o->k->nin;
      if (!is_store(s) || i) continue;
      if (o->nstore < MOST_STORES)
        o->store[o->nstore++] = (Store){result, s};
      else
        more |= bit(result);
      continue;
    }
    uint64_t before = written;
    for (int k = first; k < o->nstore; k++)
      if (!apart(o->store[k].stmt, s)) before |= bit(o->store[k].result);
    for (int r = 0; r < o->k->nparam - o->k->nin; r++)
      if (before >> r & 1) o->over[r] &= ~bit(v->index);
  }
  return more;
}

static uint64_t with_stores(const Overlay *o, uint64_t written, int first) {
  for (int k = first; k < o->nstore; k++) written |= bit(o->store[k].result);
  return written;
}

/* written: before the region; gives what is behind it. */
static uint64_t walk(Overlay *o, const TsTileRegion *r, uint64_t written) {
  TsTileVal end = NULL;      /* of the last loop, and */
  uint64_t before = written; /* what was written when the first of its chain began */
  int first = o->nstore;
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    written |= look(o, s, end && is_behind(s, end) ? before : written, first);
    uint64_t now = with_stores(o, written, first), behind = written;
    if (s->op == TS_TILE_for && (!end || s->in[0] != end)) before = now;
    for (int i = 0; i < s->nregion; i++)
      behind |= walk(o, s->region[i], s->op == TS_TILE_for ? before : now);
    if (s->op == TS_TILE_for) end = s->in[1];
    written = behind;
  }
  written = with_stores(o, written, first);
  o->nstore = first;
  return written;
}

void ts_tile_overlay(const TsTile *k, uint64_t *over) {
  Overlay o = {.k = k, .over = over};
  walk(&o, k->body, 0);
}
