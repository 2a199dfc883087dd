/* A pass that reduces along the axis of vectors.
 *
 * A sum has 256 lanes (128 of f64), which are 16 registers of AVX-512. Where they fit and the
 * rows of an element are few, they stay in registers and the rows are written once for each;
 * else lanes lie in local memory, in the first cache, and a register takes some steps of a lane
 * before it goes back. The first step is no special case: a processor's prefetcher knows loads
 * by their address. Lanes of what lies behind the end are identities, so it does not matter
 * that the order begins the halves of a short leaf below 256. */
#include "ir/tile/pass/vec.h"

#include <string.h>

enum { MAX_FOLD = 16, REGISTER_ROWS = 200, STRAIGHT_LEAVES = 32, LINE = 64 };

typedef struct Run {
  VecPass *p;
  VecFold fold[MAX_FOLD];
  int nfold, chunk; /* elements of a step of all lanes */
  bool memory, edge;
} Run;

static bool tree(const VecFold *f) { return f->kind == VEC_TREE; }

/* ---- the partial results that loops carry */
static bool carried(const Run *r, const VecFold *f) { return !tree(f) || !r->memory; }

static int collect(TsVec *v, Run *r, TsTileVal *list) {
  TsTileType t = ts_tile_vector(TS_DT_f32, r->p->lanes);
  int n = 0;
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    for (int part = 0; carried(r, f) && part < f->nregister; part++)
      for (int c = 0; c < f->copies; c++) {
        if (!f->part[part][c]) f->part[part][c] = ts_tile_vec_fold_start(v, f, part, &t);
        list[n++] = f->part[part][c];
      }
  }
  return n;
}

static void spread_out(Run *r, TsTileVal const *list) {
  int n = 0;
  for (int i = 0; i < r->nfold; i++)
    for (int part = 0; carried(r, &r->fold[i]) && part < r->fold[i].nregister; part++)
      for (int c = 0; c < r->fold[i].copies; c++) r->fold[i].part[part][c] = list[n++];
}

enum { MAX_CARRY = MAX_FOLD * 3 * 8 + VEC_MAX_ACC };

typedef struct Loop {
  TsTileLoop l;
  int n, mark;
} Loop;

static Loop begin(TsVec *v, Run *r, TsTileVal lo, TsTileVal hi, int64_t step) {
  TsTileVal list[MAX_CARRY];
  Loop o = {.n = collect(v, r, list), .mark = ts_tile_vec_mark(v)};
  o.l = ts_tile_for(&v->b, lo, hi, step, false, o.n, list);
  if (o.l.carry && !v->k->failed) spread_out(r, o.l.carry);
  return o;
}

static void end(TsVec *v, Run *r, Loop *o) {
  TsTileVal list[MAX_CARRY], out[MAX_CARRY] = {0};
  collect(v, r, list);
  ts_tile_vec_drop(v, o->mark);
  ts_tile_for_end(&v->b, &o->l, list, out);
  spread_out(r, out);
}

/* ---- one vector of all reductions and stores */
static TsTileVal index_vector(TsVec *v) {
  TsTileType t = ts_tile_vec_type(v, TS_DT_i64);
  int axis = v->at.vec;
  TsTileVal first = ts_tile_vec_sum(v, v->at.base[axis], NULL, v->at.plus[axis]);
  TsTileVal lane = ts_tile_emit1(&v->b, TS_TILE_iota, 0, NULL, NULL, &t);
  return ts_tile_op2(&v->b, TS_OP_add, ts_tile_vec_spread(v, first), lane);
}

/* Loads stand before stores: one behind a store waits for it where the last 12 bits of their
 * addresses are the same, as those of rows often are. */
static void step(TsVec *v, Run *r, TsTileVal base, int64_t plus, int slot, int64_t live) {
  TsTileVal x[MAX_FOLD];
  int mark = ts_tile_vec_mark(v);
  if (live <= 0) return;
  ts_tile_vec_at(v, base, plus, live < r->p->lanes ? (int)live : r->p->lanes, r->edge);
  ts_tile_vec_prefetch(v);
  for (int i = 0; i < r->nfold; i++)
    x[i] = ts_tile_vec_eval(v, r->fold[i].root->value, &r->fold[i].root->map);
  ts_tile_vec_stores(v, r->p);
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    TsTileVal index = f->kind == VEC_ARG ? index_vector(v) : NULL;
    ts_tile_vec_fold_step(v, f, slot % f->copies, x[i], index);
  }
  ts_tile_vec_drop(v, mark);
}

/* ---- lanes in registers */
static void run_registers(TsVec *v, Run *r, TsTileVal base, int64_t len) {
  int w = r->p->lanes, slots = r->chunk / w;
  int64_t whole = len / r->chunk * r->chunk;
  if (whole > r->chunk) {
    TsTileVal lo = ts_tile_vec_sum(v, base, NULL, 0),
              hi = ts_tile_vec_sum(v, base, NULL, whole);
    Loop o = begin(v, r, lo, hi, r->chunk);
    for (int s = 0; s < slots; s++) step(v, r, o.l.i, (int64_t)s * w, s, w);
    end(v, r, &o);
  } else if (whole) {
    for (int s = 0; s < slots; s++) step(v, r, base, (int64_t)s * w, s, w);
  }
  for (int s = 0; s < slots; s++) step(v, r, base, whole + s * w, s, len - whole - s * w);
}

/* ---- lanes in memory */
static TsTileVal load_lanes(TsVec *v, Run *r, VecFold *f, TsTileVal q) {
  TsTileType t = ts_tile_vector(f->dtype, r->p->lanes);
  return ts_tile_load(&v->b, f->lanes, &q, &t, NULL);
}

static void lanes_in(TsVec *v, Run *r, TsTileVal q) {
  for (int i = 0; i < r->nfold; i++)
    if (tree(&r->fold[i])) r->fold[i].part[0][0] = load_lanes(v, r, &r->fold[i], q);
}

static void lanes_out(TsVec *v, Run *r, TsTileVal q) {
  for (int i = 0; i < r->nfold; i++)
    if (tree(&r->fold[i]))
      ts_tile_store(&v->b, r->fold[i].lanes, &q, r->fold[i].part[0][0], NULL);
}

static bool any_tree(const Run *r) {
  for (int i = 0; i < r->nfold; i++)
    if (tree(&r->fold[i])) return true;
  return false;
}

static void lanes_start(TsVec *v, Run *r) {
  TsTileType t = ts_tile_vector(TS_DT_f32, r->p->lanes);
  if (!any_tree(r)) return;
  TsTileLoop l = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, r->chunk),
                             r->p->lanes, false, 0, NULL);
  for (int i = 0; i < r->nfold; i++)
    if (tree(&r->fold[i])) {
      TsTileVal e = ts_tile_vec_fold_start(v, &r->fold[i], 0, &t);
      ts_tile_store(&v->b, r->fold[i].lanes, &l.i, e, NULL);
    }
  ts_tile_for_end(&v->b, &l, NULL, NULL);
}

/* Lanes 0 .. width, `steps` of each, elements from base on. */
static void lanes_walk(TsVec *v, Run *r, TsTileVal base, int64_t plus, int64_t width,
                       int steps) {
  int w = r->p->lanes;
  if (width <= 0) return;
  Loop o = begin(v, r, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, width), w);
  lanes_in(v, r, o.l.i);
  TsTileVal first = ts_tile_vec_sum(v, base, o.l.i, plus);
  for (int s = 0; s < steps; s++) step(v, r, first, (int64_t)s * r->chunk, s, w);
  lanes_out(v, r, o.l.i);
  end(v, r, &o);
}

static void lanes_loop(TsVec *v, Run *r, TsTileVal base, int64_t from, int64_t to, int steps) {
  if (to - from == (int64_t)steps * r->chunk) {
    lanes_walk(v, r, base, from, r->chunk, steps);
  } else if (to > from) {
    TsTileVal lo = ts_tile_vec_sum(v, base, NULL, from),
              hi = ts_tile_vec_sum(v, base, NULL, to);
    Loop o = begin(v, r, lo, hi, (int64_t)steps * r->chunk);
    lanes_walk(v, r, o.l.i, 0, r->chunk, steps);
    end(v, r, &o);
  }
}

/* An index of the largest element needs the elements in order: the first of equals wins. Vectors of
 * half a line go in order as well: steps of a lane take each line twice, far apart (a Zen 3 sums
 * rows of x * y from memory at 12 GB/s by four, 19 by one). */
static int steps_of(const TsVec *v, const Run *r) {
  if (v->target->vector_bytes < LINE) return 1;
  for (int i = 0; i < r->nfold; i++)
    if (r->fold[i].kind == VEC_ARG) return 1;
  return r->edge || r->p->wide > 1 || r->p->cost > 40 ? 1 : r->p->cost > 12 ? 2 : 4;
}

/* The lanes by halves, down to a few vectors in registers. */
static void lanes_fold(TsVec *v, Run *r) {
  int w = r->p->lanes;
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    if (!tree(f)) continue;
    int h = r->chunk;
    for (h /= 2; h >= 8 * w; h /= 2) {
      TsTileLoop l =
          ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, h), w, false, 0, NULL);
      TsTileVal high = ts_tile_op2(&v->b, TS_OP_add, l.i, ts_tile_index(&v->b, h));
      TsTileVal x =
          ts_tile_vec_fold_two(v, f, load_lanes(v, r, f, l.i), load_lanes(v, r, f, high));
      ts_tile_store(&v->b, f->lanes, &l.i, x, NULL);
      ts_tile_for_end(&v->b, &l, NULL, NULL);
    }
    int slots = 2 * h / w;
    for (int s = 0; s < slots; s++)
      f->part[0][s] = load_lanes(v, r, f, ts_tile_vec_int(v, s * w));
    ts_tile_vec_fold_slots(v, f, slots);
  }
}

static void run_memory(TsVec *v, Run *r, TsTileVal base, int64_t len) {
  int w = r->p->lanes, steps = steps_of(v, r);
  int64_t many = len / (steps * r->chunk) * (steps * r->chunk),
          whole = len / r->chunk * r->chunk;
  lanes_start(v, r);
  lanes_loop(v, r, base, 0, many, steps);
  lanes_loop(v, r, base, many, whole, 1);
  lanes_walk(v, r, base, whole, (len - whole) / w * w, 1);
  int64_t part = len % w, q = (len - whole) / w * w;
  if (part) {
    TsTileVal at = ts_tile_vec_int(v, q);
    lanes_in(v, r, at);
    step(v, r, base, whole + q, 0, part);
    lanes_out(v, r, at);
  }
  lanes_fold(v, r);
}

/* ---- leaves */
static void run(TsVec *v, Run *r, TsTileVal base, int64_t len) {
  if (r->memory)
    run_memory(v, r, base, len);
  else
    run_registers(v, r, base, len);
}

/* The trees of a leaf to its sum; the others go on. */
static void end_leaf(TsVec *v, Run *r, TsTileVal leaf) {
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    if (!tree(f)) continue;
    if (!r->memory) ts_tile_vec_fold_slots(v, f, f->copies);
    TsTileVal x = ts_tile_vec_fold_end(v, f, true);
    f->part[0][0] = x;
    if (!leaf) continue;
    ts_tile_store(&v->b, f->leaves, &leaf, x, NULL);
    for (int c = 0; c < f->copies; c++) f->part[0][c] = NULL;
  }
}

static TsTileVal few_leaves(TsVec *v, VecFold *f, int64_t n) {
  TsTileVal x[STRAIGHT_LEAVES];
  TsTileType t = ts_tile_scalar(f->dtype);
  for (int i = 0; i < n; i++) {
    TsTileVal at = ts_tile_vec_int(v, i);
    x[i] = ts_tile_load(&v->b, f->leaves, &at, &t, NULL);
  }
  for (; n > 1; n = (n + 1) / 2)
    for (int i = 0; i < (n + 1) / 2; i++)
      x[i] = ts_tile_vec_fold_two(v, f, x[2 * i], 2 * i + 1 < n ? x[2 * i + 1] : NULL);
  return x[0];
}

static TsTileVal many_leaves(TsVec *v, VecFold *f, int64_t n) {
  int vec = v->at.vec;
  TsTileType t = ts_tile_scalar(f->dtype);
  TsTileVal x;
  v->at.vec = -1;
  VecCounter c = ts_tile_vec_counter(v, f, 1);
  TsTileLoop l =
      ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, n), 1, false, 0, NULL);
  x = ts_tile_load(&v->b, f->leaves, &l.i, &t, NULL);
  ts_tile_vec_counter_push(v, &c, l.i, &x);
  ts_tile_for_end(&v->b, &l, NULL, NULL);
  ts_tile_vec_counter_end(v, &c, ts_tile_vec_int(v, n), &x);
  v->at.vec = vec;
  return x;
}

static void run_leaves(TsVec *v, Run *r, int64_t n) {
  int64_t leaves = (n + VEC_LEAF - 1) / VEC_LEAF, whole = n / VEC_LEAF;
  for (int i = 0; i < r->nfold; i++)
    if (tree(&r->fold[i]))
      r->fold[i].leaves = ts_tile_vec_local(v, r->fold[i].dtype, 1, &leaves);
  Run free = *r; /* the loop over leaves carries no lanes */
  free.memory = true;
  Loop o = begin(v, &free, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, whole), 1);
  memcpy(r->fold, free.fold, sizeof r->fold);
  TsTileVal base = ts_tile_op2(&v->b, TS_OP_mul, o.l.i, ts_tile_vec_int(v, VEC_LEAF));
  run(v, r, base, VEC_LEAF);
  end_leaf(v, r, o.l.i);
  memcpy(free.fold, r->fold, sizeof r->fold);
  end(v, &free, &o);
  memcpy(r->fold, free.fold, sizeof r->fold);
  if (whole < leaves) {
    run(v, r, ts_tile_vec_int(v, whole * VEC_LEAF), n - whole * VEC_LEAF);
    end_leaf(v, r, ts_tile_vec_int(v, whole));
  }
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    if (tree(f))
      f->part[0][0] =
          leaves <= STRAIGHT_LEAVES ? few_leaves(v, f, leaves) : many_leaves(v, f, leaves);
  }
}

/* ---- the pass */
static void plan_run(TsVec *v, Run *r, VecPass *p, bool edge) {
  int w = p->lanes, registers = 0;
  *r = (Run){.p = p, .edge = edge};
  for (int i = 0; i < p->nroot; i++) {
    if (p->root[i]->kind != VEC_REDUCE) continue;
    if (r->nfold == MAX_FOLD) {
      ts_tile_vec_fail(v, p->root[i]->stmt, "so many reductions at once");
      return;
    }
    ts_tile_vec_fold_of(v, &r->fold[r->nfold++], p->root[i]);
  }
  int64_t n = p->space.dim[p->space.rank - 1], vectors = (n + w - 1) / w;
  r->chunk = edge || p->cost > 24 ? w : p->cost > 12 ? 2 * w : 4 * w;
  if (any_tree(r))
    for (int i = 0; i < r->nfold; i++)
      if (tree(&r->fold[i])) r->chunk = ts_tile_vec_fold_lanes(r->fold[i].dtype);
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    f->copies = tree(f) ? r->chunk / w : r->chunk / w < 2 || r->nfold > 1 ? 1 : 2;
    if (f->copies > vectors) f->copies = (int)vectors;
    registers += f->copies * f->nregister * p->wide;
  }
  if (vectors > r->chunk / w) vectors = r->chunk / w;
  r->memory = any_tree(r) && (edge || vectors * p->cost * p->wide > REGISTER_ROWS ||
                              (n >= r->chunk && registers > v->target->registers - 6) ||
                              vectors > VEC_MAX_ACC);
  for (int i = 0; i < r->nfold; i++) {
    VecFold *f = &r->fold[i];
    int64_t lanes = r->chunk;
    if (!tree(f) || !r->memory) continue;
    f->copies = 1;
    f->lanes = ts_tile_vec_local(v, f->dtype, 1, &lanes);
  }
}

/* All reductions of a walk over n elements: scalars in out. */
static void run_all(TsVec *v, VecPass *p, int64_t n, bool edge, TsTileVal *out) {
  static _Thread_local Run r;
  int mark = ts_tile_vec_mark(v);
  plan_run(v, &r, p, edge);
  if (v->failed) return;
  if (any_tree(&r) && n > VEC_LEAF) {
    run_leaves(v, &r, n);
  } else {
    run(v, &r, NULL, n);
    end_leaf(v, &r, NULL);
  }
  v->at.live = v->at.lanes;
  for (int i = 0; i < r.nfold; i++) {
    VecFold *f = &r.fold[i];
    if (!tree(f)) ts_tile_vec_fold_slots(v, f, f->copies);
    out[i] = tree(f) ? f->part[0][0] : ts_tile_vec_fold_end(v, f, true);
  }
  ts_tile_vec_drop(v, mark);
}

/* Whether all memory that is written past the caches lies as that wants it; NULL: none is. */
static TsTileVal streams(TsVec *v, const VecPass *p) {
  TsTileVal all = NULL, seen = NULL, yes;
  TsTileType t = ts_tile_scalar(TS_DT_bool);
  for (int i = 0; i < p->nroot; i++) {
    const TsTileStmt *s = p->root[i]->kind == VEC_STORE ? p->root[i]->stmt : NULL;
    if (!s || s->op != TS_TILE_store || !ts_tile_attr(s, "stream")->i || s->in[0] == seen)
      continue;
    seen = s->in[0];
    yes = ts_tile_emit1(&v->b, TS_TILE_aligned, 1, &ts_tile_vec_of(v, seen)->now, NULL, &t);
    all = all ? ts_tile_op2(&v->b, TS_OP_logical_and, all, yes) : yes;
  }
  return all;
}

/* Elements may lie outside of memory, or results where they cannot go past the caches: a short
 * code for that case beside the fast one, which asks for neither at each store. inside and past
 * may be NULL. */
static void run_either(TsVec *v, VecPass *p, int64_t n, TsTileVal inside, TsTileVal past,
                       TsTileVal *out) {
  TsTileType type[MAX_FOLD];
  TsTileVal list[MAX_FOLD];
  TsTileBuild here = v->b;
  int nout = 0;
  for (int i = 0; i < p->nroot; i++)
    if (p->root[i]->kind == VEC_REDUCE && nout < MAX_FOLD)
      type[nout++] = ts_tile_scalar((TsDtype)p->root[i]->stmt->out[0]->type.dtype);
  TsTileVal all = inside ? ts_tile_op2(&v->b, TS_OP_ge, inside, ts_tile_vec_int(v, n)) : past;
  if (inside && past) all = ts_tile_op2(&v->b, TS_OP_logical_and, all, past);
  TsTileStmt *s = ts_tile_emit(&v->b, TS_TILE_if, 1, &all, NULL, nout, type);
  if (!s) return;
  here = v->b;
  for (int k = 0; k < 2; k++) {
    v->b.at = s->region[k];
    v->past = k ? VEC_CACHED : VEC_ALIGNED;
    run_all(v, p, n, k == 1, list);
    if (nout) ts_tile_emit(&v->b, TS_TILE_yield, nout, list, NULL, 0, NULL);
  }
  v->b = here;
  v->past = VEC_ASK;
  for (int i = 0; i < nout; i++) out[i] = s->out[i];
}

void ts_tile_vec_result(TsVec *v, const VecRoot *r, TsTileVal x) {
  TsTileVal out = r->stmt->out[0];
  if (out->type.rank == 0) {
    ts_tile_vec_of(v, out)->now = x;
  } else {
    VecMap map = ts_tile_vec_map(v, out);
    ts_tile_vec_seen(v, out, &map, x);
  }
}

/* The result at the place where the outer loops stand. */
static void store_result(TsVec *v, const VecRoot *r, TsTileVal x) {
  TsTileVal at[TS_TILE_RANK];
  const VecVal *result = ts_tile_vec_of(v, r->stmt->out[0]);
  int n = 0, k = 0, axis = (int)ts_tile_attr(r->stmt, "axis")->i; /* k: axis of the result */
  for (int i = 0; i < r->value->type.rank; i++) {
    if (i == axis) continue;
    if (!result->rowless || k != result->row)
      at[n++] = ts_tile_vec_sum(v, v->at.base[r->map.at[i].axis], NULL, 0);
    k++;
  }
  ts_tile_store(&v->b, r->home, at, x, NULL);
}

static void finish(TsVec *v, VecPass *p, VecNest *nest, TsTileVal *out) {
  int n = 0;
  for (int i = 0; i < p->nroot; i++)
    if (p->root[i]->kind == VEC_REDUCE) {
      if (p->root[i]->home) store_result(v, p->root[i], out[n]);
      n++;
    }
  ts_tile_vec_close(v, nest);
  n = 0;
  for (int i = 0; i < p->nroot; i++)
    if (p->root[i]->kind == VEC_REDUCE) {
      if (!p->root[i]->home) ts_tile_vec_result(v, p->root[i], out[n]);
      n++;
    }
}

void ts_tile_vec_reduce(TsVec *v, VecPass *p) {
  VecNest nest;
  TsTileVal out[64] = {0};
  int last = p->space.rank - 1;
  int64_t n = p->space.dim[last];
  if (ts_tile_dim_is(n)) {
    for (int i = 0; i < p->nroot; i++)
      if (p->root[i]->kind == VEC_REDUCE)
        ts_tile_vec_fail(v, p->root[i]->stmt, "a reduction along a last axis of symbolic size");
    return;
  }
  ts_tile_vec_open(v, &nest, &p->space, last);
  v->at.lanes = v->at.live = p->lanes;
  ts_tile_vec_hoist(v, p);
  TsTileVal inside = ts_tile_vec_inside(v, p->nroot, p->root, n);
  TsTileVal past = streams(v, p);
  if (inside || past)
    run_either(v, p, n, inside, past, out);
  else
    run_all(v, p, n, false, out);
  finish(v, p, &nest, out);
}

/* ---- the end of a sum in two phases: the elements are leaves */
static TsTileVal addend(TsVec *v, const VecFold *f, const VecRoot *r) {
  return ts_tile_cast(&v->b, ts_tile_vec_eval(v, r->value, &r->map), f->dtype);
}

static void pairs_vectors(TsVec *v, VecPass *p, VecFold *f, int64_t n, TsTileVal *x) {
  VecRoot *r = p->root[0];
  int w = p->lanes;
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType one = ts_tile_scalar(f->dtype);
  int64_t whole = n / w;
  int vec = v->at.vec;
  v->at.vec = -1;
  VecCounter c = ts_tile_vec_counter(v, f, 1);
  v->at.vec = vec;
  TsTileLoop l =
      ts_tile_for(&v->b, ts_tile_vec_int(v, 0), ts_tile_vec_int(v, whole), 1, false, 0, NULL);
  int mark = ts_tile_vec_mark(v);
  ts_tile_vec_at(v, ts_tile_op2(&v->b, TS_OP_mul, l.i, ts_tile_vec_int(v, w)), 0, w, true);
  TsTileVal y = addend(v, f, r);
  y = ts_tile_emit1(&v->b, TS_TILE_pairs, 1, &y, &axis, &one);
  ts_tile_vec_counter_push(v, &c, l.i, &y);
  ts_tile_vec_drop(v, mark);
  ts_tile_for_end(&v->b, &l, NULL, NULL);
  if (n % w) {
    mark = ts_tile_vec_mark(v);
    ts_tile_vec_at(v, NULL, whole * w, (int)(n % w), true);
    y = addend(v, f, r);
    TsTileType t = ts_tile_vector(f->dtype, w);
    y = ts_tile_vec_live(v, y, ts_tile_vec_fold_start(v, f, 0, &t));
    y = ts_tile_emit1(&v->b, TS_TILE_pairs, 1, &y, &axis, &one);
    ts_tile_vec_counter_push(v, &c, ts_tile_vec_int(v, whole), &y);
    ts_tile_vec_drop(v, mark);
  }
  ts_tile_vec_counter_end(v, &c, ts_tile_vec_int(v, (n + w - 1) / w), x);
}

static void pairs_elements(TsVec *v, VecPass *p, VecFold *f, int64_t n, TsTileVal *x) {
  VecRoot *r = p->root[0];
  int axis = v->at.vec;
  v->at.vec = -1;
  VecCounter c = ts_tile_vec_counter(v, f, 1);
  TsTileVal size = ts_tile_vec_size(v, n);
  TsTileLoop l = ts_tile_for(&v->b, ts_tile_vec_int(v, 0), size, 1, false, 0, NULL);
  int mark = ts_tile_vec_mark(v);
  v->at.base[axis] = l.i;
  TsTileVal y = addend(v, f, r);
  ts_tile_vec_counter_push(v, &c, l.i, &y);
  ts_tile_vec_drop(v, mark);
  ts_tile_for_end(&v->b, &l, NULL, NULL);
  ts_tile_vec_counter_end(v, &c, size, x);
}

void ts_tile_vec_pairs(TsVec *v, VecPass *p) {
  static _Thread_local VecFold f;
  VecNest nest;
  TsTileVal out[64] = {0};
  int last = p->space.rank - 1;
  int64_t n = p->space.dim[last];
  ts_tile_vec_fold_of(v, &f, p->root[0]);
  if (v->failed) return;
  ts_tile_vec_open(v, &nest, &p->space, last);
  v->at.lanes = v->at.live = p->lanes;
  if (ts_tile_dim_is(n))
    pairs_elements(v, p, &f, n, out);
  else
    pairs_vectors(v, p, &f, n, out);
  finish(v, p, &nest, out);
}
