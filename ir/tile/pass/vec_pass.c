/* A stretch as its passes: the scalars of each stage, then one walk over the elements of each
 * space in which the stage has something to do. */
#include <stdio.h>
#include <string.h>

#include "ir/tile/pass/vec.h"

enum { CHEAP_CHUNK = 16, DEAR_CHUNK = 40, SOME_CHUNK = 60, LINE = 64 };

/* ---- what a chunk costs and which lanes suit it */
typedef struct Weight {
  int rows, of_bytes[9]; /* rows by the size of their elements */
  bool draws;
} Weight;

static void weigh(TsVec *v, TsTileStmt *s, const VecMap *map, void *arg) {
  Weight *w = arg;
  (void)v, (void)map;
  int cost = ts_tile_vec_cost(s->op), bytes = ts_dtypes[s->out[0]->type.dtype].nbytes;
  w->rows += cost;
  w->draws |= s->op == TS_TILE_random;
  if (s->out[0]->type.dtype == TS_DT_bool && s->nin)
    bytes = ts_dtypes[s->in[s->nin - 1]->type.dtype].nbytes;
  if (s->op == TS_TILE_load || s->op == TS_TILE_cast || !cost) return;
  w->of_bytes[bytes < 8 ? bytes : 8] += cost;
}

static int heaviest(const Weight *w) {
  int best = 0;
  for (int i = 1; i <= 8; i *= 2)
    if (w->of_bytes[i] && (!best || w->of_bytes[i] > w->of_bytes[best])) best = i;
  return best;
}

static int64_t ceil_pow2(int64_t n) {
  int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

/* The bytes of an element of a pass: of what it reduces, else of most of its rows, else of what
 * it stores. */
static int main_bytes(const VecPass *p, const Weight *w) {
  int reduced = 0, stored = 0;
  for (int i = 0; i < p->nroot; i++) {
    int each = ts_dtypes[p->root[i]->value->type.dtype].nbytes;
    int *most = p->root[i]->kind == VEC_REDUCE ? &reduced : &stored;
    if (each > *most) *most = each;
  }
  int bytes = reduced ? reduced : heaviest(w) ? heaviest(w) : stored;
  return bytes > 8 ? 8 : bytes;
}

/* Some vectors at once: their chains of dependent operations stand side by side, which a
 * processor's window of a few such chains would not reach in the order of one after the other,
 * and whether a store may go past the caches is asked once for all. Reductions along vectors
 * have it where an element is dear; there the loads of a cheap one are what is waited for.
 * Columns have many vectors of a row beside each other anyway, but one's code after another's.
 * The dearest functions have enough side by side in themselves and take long to compile. Where
 * an element is cheap, memory is waited for, and it is asked for soonest in its own order: of
 * one tile, LLVM's scheduler takes the vectors last first (64 MiB of a * 2 - b * a + c at 29
 * instead of 34 GB/s). */
static int side_by_side(const VecPass *p, int group, int64_t n, int64_t lanes) {
  int most = 4;
  bool columns = group > 3 && group < 500;
  if (p->cost >= VEC_HUGE || p->cost <= CHEAP_CHUNK) return 1;
  if ((group > 3 && !columns) || (columns && p->cost <= DEAR_CHUNK)) return 1;
  if (group && !columns) most = 2;
  while (most > 1 && n % (most * lanes) && n < 16 * most * lanes) most /= 2;
  return n < 2 * most * lanes ? 1 : most;
}

/* Random bits come 64 at a time. */
static int drawn_at_once(int64_t n, const VecPass *p) {
  enum { GROUP = 64 };
  return n % GROUP == 0 && p->lanes < GROUP ? GROUP / p->lanes : p->wide;
}

/* Rows that leave past the caches do so by whole lines: halves of two by turns are slow. */
static int of_a_line(const TsVec *v, int64_t n, int64_t lanes) {
  int vectors = LINE / v->target->vector_bytes;
  return vectors > 1 && !ts_tile_dim_is(n) && n % (vectors * lanes) == 0 ? vectors : 1;
}

static void choose_lanes(TsVec *v, VecPass *p, int group) {
  Weight w = {0};
  int mark = ts_tile_vec_mark(v);
  for (int i = 0; i < p->nroot; i++)
    ts_tile_vec_visit(v, p->root[i]->value, &p->root[i]->map, weigh, &w);
  ts_tile_vec_drop(v, mark);
  int64_t lanes = v->target->vector_bytes / main_bytes(p, &w);
  int64_t n = p->space.dim[p->space.rank - 1];
  p->cost = w.rows;
  if (ts_tile_dim_is(n))
    lanes = 1;
  else if (ceil_pow2(n) < lanes)
    lanes = ceil_pow2(n);
  p->lanes = lanes < 1 ? 1 : (int)lanes;
  p->wide = ts_tile_dim_is(n) ? 1 : side_by_side(p, group, n, p->lanes);
  if (w.draws && !ts_tile_dim_is(n) && group < 4) p->wide = drawn_at_once(n, p);
  if (v->pipelined && group && p->wide == 1) p->wide = of_a_line(v, n, p->lanes);
  p->lanes *= p->wide;
}

/* ---- what is the same in every chunk is computed before the loop */
typedef struct Same {
  TsTileStmt *s[128];
  VecMap map[128];
  int n;
} Same;

static void find_same(TsVec *v, TsTileStmt *s, const VecMap *map, void *arg) {
  Same *h = arg;
  VecMap in;
  (void)v;
  if (s->op != TS_TILE_const && s->op != TS_TILE_bits && s->op != TS_TILE_broadcast) return;
  if (s->op == TS_TILE_broadcast) {
    ts_tile_vec_through(s, map, &in);
    for (int i = 0; i < s->in[0]->type.rank; i++)
      if (in.at[i].axis != VEC_ROW) return;
  }
  if (h->n == 128) return;
  h->s[h->n] = s;
  h->map[h->n++] = *map;
}

void ts_tile_vec_hoist(TsVec *v, const VecPass *p) {
  Same h = {.n = 0};
  int mark = ts_tile_vec_mark(v);
  for (int i = 0; i < p->nroot; i++)
    ts_tile_vec_visit(v, p->root[i]->value, &p->root[i]->map, find_same, &h);
  ts_tile_vec_drop(v, mark);
  for (int i = 0; i < h.n; i++) ts_tile_vec_eval(v, h.s[i]->out[0], &h.map[i]);
}

/* ---- chunks */
void ts_tile_vec_at(TsVec *v, TsTileVal base, int64_t plus, int live, bool edge) {
  int axis = v->at.vec;
  v->at.base[axis] = base;
  v->at.plus[axis] = plus;
  v->at.live = live;
  v->at.edge = edge;
}

/* Everything is computed before anything is stored, since a loop's next value may lie where
 * this one does. */
void ts_tile_vec_stores(TsVec *v, const VecPass *p) {
  TsTileVal x[64];
  for (int i = 0; i < p->nroot; i++)
    if (p->root[i]->kind != VEC_REDUCE)
      x[i] = ts_tile_vec_eval(v, p->root[i]->value, &p->root[i]->map);
  for (int i = 0; i < p->nroot; i++)
    if (p->root[i]->kind != VEC_REDUCE) ts_tile_vec_put(v, p->root[i], x[i]);
}

static void chunk(TsVec *v, VecPass *p, TsTileVal base, int64_t plus, int live, bool edge) {
  int mark = ts_tile_vec_mark(v);
  ts_tile_vec_at(v, base, plus, live, edge);
  ts_tile_vec_prefetch(v);
  ts_tile_vec_stores(v, p);
  ts_tile_vec_drop(v, mark);
}

static void chunk_loop(TsVec *v, VecPass *p, TsTileVal lo, TsTileVal hi, int unroll,
                       bool edge) {
  int mark = ts_tile_vec_mark(v);
  TsTileLoop l = ts_tile_for(&v->b, lo, hi, (int64_t)unroll * p->lanes, false, 0, NULL);
  for (int u = 0; u < unroll; u++) chunk(v, p, l.i, (int64_t)u * p->lanes, p->lanes, edge);
  ts_tile_for_end(&v->b, &l, NULL, NULL);
  ts_tile_vec_drop(v, mark);
}

static int unroll_of(const TsVec *v, const VecPass *p) {
  if (p->wide > 1) return 1;
  if (v->from->unroll) return v->from->unroll;
  return p->cost <= CHEAP_CHUNK ? 4 : p->cost <= SOME_CHUNK ? 2 : 1;
}

static TsTileVal floor_to(TsVec *v, TsTileVal x, int64_t power) {
  return ts_tile_op2(&v->b, TS_OP_bitwise_and, x, ts_tile_vec_int(v, -power));
}

/* What is done once or never goes vector by vector: that is a fraction of the code to compile.
 * Values that were made before the loop have another length: mark stands before them. */
static void narrow(TsVec *v, VecPass *p, int mark) {
  if (p->wide == 1) return;
  p->lanes /= p->wide;
  p->wide = 1;
  v->at.lanes = v->at.live = p->lanes;
  ts_tile_vec_drop(v, mark);
  ts_tile_vec_hoist(v, p);
}

/* No element may lie outside of memory. */
static void walk_plain(TsVec *v, VecPass *p, int64_t n, int mark) {
  int w = p->lanes, unroll = unroll_of(v, p);
  int64_t main = n / (unroll * w) * (unroll * w), from = main;
  if (main == unroll * w)
    for (; main > 0 && unroll > 0; unroll--)
      chunk(v, p, NULL, main - (int64_t)unroll * w, w, false);
  else if (main)
    chunk_loop(v, p, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, main), unroll, false);
  if (from == n) return;
  narrow(v, p, mark);
  w = p->lanes;
  int64_t whole = n / w * w;
  if (whole - from == w)
    chunk(v, p, NULL, from, w, false);
  else if (whole > from)
    chunk_loop(v, p, ts_tile_vec_int(v, from), ts_tile_vec_int(v, whole), 1, false);
  if (whole < n) chunk(v, p, NULL, whole, (int)(n - whole), false);
}

static bool only_edge_stores(const VecPass *p) {
  for (int i = 0; i < p->nroot; i++)
    if (p->root[i]->kind != VEC_STORE || p->root[i]->stmt->op != TS_TILE_store ||
        !ts_tile_attr(p->root[i]->stmt, "edge")->i)
      return false;
  return true;
}

/* Elements from `inside` on may lie outside; where nothing but memory wants them, they are left
 * out. */
static void walk_edge(TsVec *v, VecPass *p, int64_t n, TsTileVal inside, int mark) {
  int w = p->lanes, unroll = unroll_of(v, p);
  TsTileVal main = floor_to(v, inside, (int64_t)unroll * w);
  bool most = n >= unroll * w;
  if (most) chunk_loop(v, p, ts_tile_vec_int(v, 0), main, unroll, false);
  narrow(v, p, mark);
  int64_t whole = n / p->lanes * p->lanes;
  TsTileVal end = ts_tile_vec_int(v, whole);
  if (whole && only_edge_stores(p)) {
    TsTileVal wanted = ts_tile_vec_wanted(v, p->nroot, p->root, n);
    if (wanted) end = ts_tile_op2(&v->b, TS_OP_minimum, end, wanted);
  }
  if (whole) chunk_loop(v, p, most ? main : ts_tile_vec_int(v, 0), end, 1, true);
  if (whole < n) chunk(v, p, NULL, whole, (int)(n - whole), true);
}

void ts_tile_vec_open(TsVec *v, VecNest *nest, const VecSpace *s, int naxis) {
  nest->n = naxis;
  nest->mark = ts_tile_vec_mark(v);
  v->at.rank = s->rank;
  v->at.vec = s->rank - 1;
  for (int i = 0; i < s->rank; i++) v->at.base[i] = NULL, v->at.plus[i] = 0;
  for (int i = 0; i < naxis; i++) {
    nest->loop[i] = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_size(v, s->dim[i]), 1,
                                false, 0, NULL);
    v->at.base[i] = nest->loop[i].i;
  }
}

void ts_tile_vec_close(TsVec *v, VecNest *nest) {
  for (int i = nest->n; i-- > 0;) ts_tile_for_end(&v->b, &nest->loop[i], NULL, NULL);
  ts_tile_vec_drop(v, nest->mark);
  v->at.vec = -1;
}

static void pointwise(TsVec *v, VecPass *p) {
  VecNest nest;
  int last = p->space.rank - 1;
  int64_t n = p->space.dim[last];
  ts_tile_vec_open(v, &nest, &p->space, last);
  v->at.lanes = v->at.live = p->lanes;
  int mark = ts_tile_vec_mark(v);
  ts_tile_vec_hoist(v, p);
  if (ts_tile_dim_is(n)) {
    chunk_loop(v, p, ts_tile_vec_int(v, 0), ts_tile_vec_size(v, n), 1, true);
  } else {
    TsTileVal inside = ts_tile_vec_inside(v, p->nroot, p->root, n);
    if (inside)
      walk_edge(v, p, n, inside, mark);
    else
      walk_plain(v, p, n, mark);
  }
  ts_tile_vec_close(v, &nest);
}

/* ---- the passes of a stage */
static bool same_space(const VecSpace *a, const VecSpace *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

/* Which of the roots of a space can share a walk: 0 with any, else only its like. */
static int group_of(const VecRoot *r) {
  if (r->kind != VEC_REDUCE) return 0;
  if (!ts_tile_vec_reduces(r->stmt->op)) return 1000;
  int axis = r->map.at[ts_tile_attr(r->stmt, "axis")->i].axis;
  bool pairs = r->stmt->op == TS_TILE_pairs;
  if (axis != r->space.rank - 1) return (pairs ? 500 : 10) + axis;
  if (pairs) return 1000;
  bool tree = r->stmt->op == TS_TILE_sum || r->stmt->op == TS_TILE_prod;
  if (!tree || !ts_dtype_is((TsDtype)r->value->type.dtype, TS_KIND_F)) return 1;
  return r->value->type.dtype == TS_DT_f64 ? 3 : 2;
}

static bool joins(int group, int other) {
  return group == 0 || other == 0 || group == other || (group == 1 && other < 4) ||
         (other == 1 && group < 4);
}

/* What a pass is, for profiles: "max", "exp sum", where it only writes results a store. */
static TsTileStage stage_of(const VecPass *p, int group, char *what, size_t room) {
  bool stores = true;
  *what = 0;
  for (int i = 0; i < p->nroot; i++) {
    const VecRoot *r = p->root[i];
    const TsTileStmt *s = r->kind == VEC_REDUCE ? r->stmt : r->value->stmt;
    int op = s ? s->op : TS_TILE_load;
    size_t n = strlen(what);
    stores &= r->kind == VEC_STORE;
    if (strstr(what, ts_tile_op_name(op))) continue;
    snprintf(what + n, room - n, "%s%s", n ? " " : "", ts_tile_op_name(op));
  }
  return group == 1000 ? TS_STAGE_mma : stores ? TS_STAGE_store : TS_STAGE_other;
}

static void walk_pass(TsVec *v, VecPass *p, int group) {
  for (int i = 0; i < p->nroot; i++) ts_tile_vec_guard(v, p->root[i]);
  if (group == 1000 && !ts_tile_vec_reduces(p->root[0]->stmt->op)) {
    ts_tile_vec_product(v, p->root[0]->stmt);
    return;
  }
  choose_lanes(v, p, group);
  if (group == 0)
    pointwise(v, p);
  else if (group < 10)
    ts_tile_vec_reduce(v, p);
  else if (group == 1000)
    ts_tile_vec_pairs(v, p);
  else
    ts_tile_vec_columns(v, p);
}

static void walk(TsVec *v, VecPass *p, int group) {
  char what[40];
  ts_tile_vec_line(v, p->root[0]);
  if (!v->k->marks || v->own_marks) return walk_pass(v, p, group);
  TsTileStage stage = stage_of(p, group, what, sizeof what);
  int line = v->b.line;
  ts_tile_mark(&v->b, stage, what, false);
  walk_pass(v, p, group);
  v->b.line = line;
  ts_tile_mark(&v->b, stage, what, true);
}

/* Stores go with what is reduced along the first of two axes: each row is seen once. */
static bool with_columns(int group, int other, const VecSpace *s) {
  return other == 0 && group == 10 && s->rank == 2;
}

bool ts_tile_vec_one_walk(TsVec *v, int pass) {
  const VecRoot *first = NULL;
  int group = 0, n = 0;
  for (const VecRoot *r = v->root; r < v->root + v->nroot; r++) {
    if (r->pass != pass || !r->space.rank) continue;
    int g = group_of(r);
    if (!first) first = r;
    if (!same_space(&r->space, &first->space) || g >= 10 || !joins(group, g)) return false;
    if (g > group) group = g;
    n++;
  }
  return n > 0 && n < 64;
}

/* Takes a first root and all that can go with it; products go alone. */
static void take_pass(TsVec *v, VecRoot *first) {
  VecPass p = {.space = first->space};
  int group = group_of(first);
  for (VecRoot *r = first; r < v->root + v->nroot && p.nroot < 64; r++) {
    int g = group_of(r);
    if (r->done || r->pass != v->pass || !same_space(&r->space, &p.space)) continue;
    if (r != first && (g >= 1000 || group >= 1000)) continue;
    bool stores = with_columns(group, g, &p.space) || with_columns(g, group, &p.space);
    if (r != first && (g >= 10 || group >= 10) && g != group && !stores) continue;
    if (!joins(group, g)) continue;
    if (g > group) group = g;
    r->done = true;
    p.root[p.nroot++] = r;
  }
  walk(v, &p, group);
}

/* ---- scalars */
static TsTileVal copy_scalar(TsVec *v, TsTileStmt *s) {
  TsTileVal in[TS_TILE_RANK + 4];
  TsTileType out[1];
  TS_ASSERT(s->nin <= TS_TILE_RANK + 4 && s->nout <= 1);
  for (int i = 0; i < s->nin; i++) in[i] = ts_tile_vec_of(v, s->in[i])->now;
  if (s->nout) out[0] = s->out[0]->type;
  if (s->op == TS_TILE_alloc) return ts_tile_alloc(&v->b, (TsSpace)out[0].space, out);
  TsTileStmt *made = ts_tile_emit(&v->b, s->op, s->nin, in, s->attr, s->nout, out);
  return made && s->nout ? made->out[0] : NULL;
}

static bool plain(const TsTileStmt *s) {
  for (int i = 0; i < s->nin; i++)
    if (!ts_tile_memory(&s->in[i]->type) && s->in[i]->type.rank) return false;
  for (int i = 0; i < s->nout; i++)
    if (!ts_tile_memory(&s->out[i]->type) && s->out[i]->type.rank) return false;
  return true;
}

static void scalar_stmt(TsVec *v, TsTileStmt *s) {
  v->b.line = s->line;
  if (plain(s)) {
    TsTileVal x = copy_scalar(v, s);
    if (s->nout) ts_tile_vec_of(v, s->out[0])->now = x;
  } else if (v->nroot && s->nout == 1 && !ts_tile_vec_reduces(s->op)) {
    VecMap map = ts_tile_vec_map(v, s->out[0]);
    TsTileVal x = ts_tile_vec_eval(v, s->out[0], &map);
    if (s->out[0]->type.rank == 0) ts_tile_vec_of(v, s->out[0])->now = x;
  }
}

static bool early(TsVec *v, const TsTileStmt *s) {
  if (!plain(s) || !s->nout) return false;
  VecVal *p = ts_tile_vec_of(v, s->out[0]);
  return !p->tiled && p->level == 0;
}

static bool scalar_result(TsVec *v, const TsTileStmt *s) {
  return s->nout == 1 &&
         (ts_tile_memory(&s->out[0]->type) || ts_tile_vec_rank(v, s->out[0]) == 0);
}

static void scalars_of(TsVec *v, int pass) {
  v->at.vec = -1;
  for (int i = 0; i < v->nstmt && !v->failed; i++) {
    TsTileStmt *s = v->stmt[i];
    if (scalar_result(v, s)) {
      if (ts_tile_vec_of(v, s->out[0])->level == pass && !early(v, s)) scalar_stmt(v, s);
      continue;
    }
    for (int r = 0; r < v->nroot; r++) {
      VecRoot *root = &v->root[r];
      if (root->stmt != s || root->pass != pass || root->space.rank || root->done) continue;
      root->done = true;
      ts_tile_vec_put(v, root, ts_tile_vec_eval(v, root->value, &root->map));
    }
    if (s->nout == 0 && s->op != TS_TILE_store && s->op != TS_TILE_scatter && pass == 0)
      scalar_stmt(v, s);
  }
}

static void stage(TsVec *v, int pass) {
  v->pass = pass;
  scalars_of(v, pass);
  for (int r = 0; r < v->nroot && !v->failed; r++)
    if (!v->root[r].done && v->root[r].pass == pass) take_pass(v, &v->root[r]);
}

/* Needs: the plan. Gives: the code of the stretch. */
int ts_tile_vec_emit(TsVec *v) {
  TsTileLoop rows = {0};
  int mark = ts_tile_vec_mark(v);
  v->at.vec = -1;
  v->at.base[VEC_ROW] = NULL;
  v->at.plus[VEC_ROW] = 0;
  v->pass = 0;
  for (int i = 0; i < v->nstmt; i++)
    if (scalar_result(v, v->stmt[i]) && early(v, v->stmt[i])) scalar_stmt(v, v->stmt[i]);
  if (v->rows) {
    rows = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, v->rows), 1, false, 0,
                       NULL);
    v->at.base[VEC_ROW] = rows.i;
  }
  for (int p = 0; p < v->npass && !v->failed; p++) stage(v, p);
  if (v->rows) ts_tile_for_end(&v->b, &rows, NULL, NULL);
  v->at.base[VEC_ROW] = NULL;
  ts_tile_vec_drop(v, mark);
  return v->failed ? -1 : 0;
}
