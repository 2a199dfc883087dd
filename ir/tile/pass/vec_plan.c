/* The plan of a stretch of straight-line tile code: in which pass each value is computed, and
 * which values are kept in local memory for later passes. */
#include "ir/tile/pass/vec.h"

#include <string.h>

bool ts_tile_vec_reduces(int op) { return op >= TS_TILE_sum && op <= TS_TILE_argmin; }

static bool tile(TsTileVal x) { return !ts_tile_memory(&x->type); }

int ts_tile_vec_rank(TsVec *v, TsTileVal x) {
  return x->type.rank - (ts_tile_vec_of(v, x)->row >= 0);
}

/* In rows of an elementary function, about. */
int ts_tile_vec_cost(int op) {
  if (op < TS_OP_COUNT) return ts_op_info((TsOp)op)->code;
  switch (op) {
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_iota:
  case TS_TILE_broadcast:
  case TS_TILE_transpose:
  case TS_TILE_reshape:
  case TS_TILE_part: return 0;
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_ult:
  case TS_TILE_look:
  case TS_TILE_bitcast:
  case TS_TILE_load:
  case TS_TILE_cast: return 1;
  case TS_TILE_gather: return 12;
  case TS_TILE_random: return 48;
  default: return 24;
  }
}

/* ---- rows. If every value of two axes can give up an axis of the same extent, none is reduced
 * along it, and what has it meets only what has it, then the stretch is a loop over rows. */
static bool row_set(TsVec *v, TsTileVal x, int axis, bool *changed) {
  VecVal *p = ts_tile_vec_of(v, x);
  if (p->rowed) return p->row == axis;
  if (axis >= 0 && x->type.dim[axis] != v->rows) return false;
  p->rowed = *changed = true;
  p->row = (int8_t)axis;
  return true;
}

static bool row_meet(TsVec *v, TsTileVal a, TsTileVal b, bool *changed) {
  VecVal *p = ts_tile_vec_of(v, a), *q = ts_tile_vec_of(v, b);
  if (p->rowed) return row_set(v, b, p->row, changed);
  return !q->rowed || row_set(v, a, q->row, changed);
}

static bool row_broadcast(TsVec *v, TsTileStmt *s, bool *changed) {
  const TsAttr *a = ts_tile_attr(s, "axes");
  VecVal *out = ts_tile_vec_of(v, s->out[0]), *in = ts_tile_vec_of(v, s->in[0]);
  if (out->rowed) {
    int axis = -1;
    for (int i = 0; i < a->n; i++)
      if (a->ints[i] == out->row) axis = i;
    return row_set(v, s->in[0], axis, changed);
  }
  return !in->rowed || in->row < 0 || row_set(v, s->out[0], (int)a->ints[in->row], changed);
}

static bool row_reduce(TsVec *v, TsTileStmt *s, bool *changed) {
  int axis = (int)ts_tile_attr(s, "axis")->i;
  VecVal *out = ts_tile_vec_of(v, s->out[0]), *in = ts_tile_vec_of(v, s->in[0]);
  if (in->rowed) {
    if (in->row == axis) return false;
    return row_set(v, s->out[0], in->row < 0 ? -1 : in->row - (in->row > axis), changed);
  }
  if (!out->rowed) return true;
  return row_set(v, s->in[0], out->row < 0 ? -1 : out->row + (out->row >= axis), changed);
}

static bool row_transpose(TsVec *v, TsTileStmt *s, bool *changed) {
  const int64_t *perm = ts_tile_attr(s, "perm")->ints;
  VecVal *out = ts_tile_vec_of(v, s->out[0]), *in = ts_tile_vec_of(v, s->in[0]);
  if (out->rowed) return row_set(v, s->in[0], out->row < 0 ? -1 : (int)perm[out->row], changed);
  if (!in->rowed) return true;
  int axis = -1;
  for (int i = 0; i < s->in[0]->type.rank; i++)
    if (in->row >= 0 && perm[i] == in->row) axis = i;
  return row_set(v, s->out[0], axis, changed);
}

static bool row_step(TsVec *v, TsTileStmt *s, bool *changed) {
  if (ts_tile_vec_reduces(s->op)) return row_reduce(v, s, changed);
  switch (s->op) {
  case TS_TILE_load:
  case TS_TILE_iota:
  case TS_TILE_const:
  case TS_TILE_bits:
  case TS_TILE_store: return true;
  case TS_TILE_broadcast: return row_broadcast(v, s, changed);
  case TS_TILE_transpose: return row_transpose(v, s, changed);
  case TS_TILE_gather: return row_meet(v, s->in[1], s->out[0], changed);
  case TS_TILE_scatter: return row_meet(v, s->in[1], s->in[2], changed);
  case TS_TILE_part:
  case TS_TILE_reshape:
  case TS_TILE_join:
  case TS_TILE_random:
  case TS_TILE_mma:
  case TS_TILE_outer: return false;
  }
  for (int i = 0; s->nout == 1 && i < s->nin; i++)
    if (tile(s->in[i]) && !row_meet(v, s->in[i], s->out[0], changed)) return false;
  return true;
}

static void row_clear(TsVec *v) {
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nin + v->stmt[i]->nout; j++) {
      TsTileStmt *s = v->stmt[i];
      TsTileVal x = j < s->nin ? s->in[j] : s->out[j - s->nin];
      VecVal *p = ts_tile_vec_of(v, x);
      p->rowed = tile(x) && x->type.rank == 0;
      p->row = -1;
    }
}

/* Scalars of a row must not be wanted after the rows. */
static bool row_leaves(TsVec *v) {
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      VecVal *p = ts_tile_vec_of(v, v->stmt[i]->out[j]);
      if (p->tiled && p->kept) return false;
      if (!p->rowed && v->stmt[i]->out[j]->type.rank > 1) return false;
    }
  return true;
}

static int64_t row_extent(TsVec *v) {
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      const TsTileType *t = &v->stmt[i]->out[j]->type;
      if (!ts_tile_memory(t) && t->rank > 1) return t->dim[0];
    }
  return 0;
}

static void find_rows(TsVec *v) {
  bool changed = true, ok = true;
  v->rows = 0;
  row_clear(v);
  if (v->nroot) return; /* values of loops live in memory as they are */
  if (!(v->rows = row_extent(v)) || ts_tile_dim_is(v->rows)) {
    v->rows = 0;
    return;
  }
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      TsTileVal x = v->stmt[i]->out[j];
      if (tile(x) && x->type.rank > 1) ok = ok && row_set(v, x, 0, &changed);
    }
  while (ok && changed) {
    changed = false;
    for (int i = 0; ok && i < v->nstmt; i++) ok = row_step(v, v->stmt[i], &changed);
  }
  if (ok && row_leaves(v)) return;
  v->rows = 0;
  row_clear(v);
}

/* ---- roots */
VecSpace ts_tile_vec_space(TsVec *v, TsTileVal x) {
  VecSpace s = {0};
  int row = ts_tile_vec_of(v, x)->row;
  for (int i = 0; i < x->type.rank; i++)
    if (i != row) s.dim[s.rank++] = x->type.dim[i];
  return s;
}

VecMap ts_tile_vec_map(TsVec *v, TsTileVal x) {
  VecMap m = {0};
  int row = ts_tile_vec_of(v, x)->row, n = 0;
  for (int i = 0; i < x->type.rank; i++) m.at[i].axis = (int8_t)(i == row ? VEC_ROW : n++);
  return m;
}

static VecRoot *add_root(TsVec *v, VecRootKind kind, TsTileStmt *s, TsTileVal x, int pass) {
  VecRoot *r = &v->root[v->nroot++];
  *r = (VecRoot){.kind = kind, .stmt = s, .value = x, .pass = pass};
  r->space = ts_tile_vec_space(v, x);
  r->map = ts_tile_vec_map(v, x);
  return r;
}

static void force_home(TsVec *v, TsTileVal x) {
  VecVal *p = ts_tile_vec_of(v, x);
  if (p->home) return;
  p->home = ts_tile_vec_home(v, x);
  p->homed = p->level;
  add_root(v, VEC_HOME, NULL, x, p->level)->home = p->home;
}

static bool here(TsVec *v, TsTileVal x) { return ts_tile_vec_of(v, x)->segment == v->segment; }

static int level_of(TsVec *v, TsTileVal x) {
  return here(v, x) ? ts_tile_vec_of(v, x)->level : 0;
}

/* Loads and stores of one memory keep their order: each in a pass of its own, and what was
 * loaded before a store is kept. */
static int memory_level(TsVec *v, int n, int level) {
  TsTileStmt *s = v->stmt[n];
  bool writes = s->op != TS_TILE_load && s->op != TS_TILE_gather;
  for (int i = 0; i < n; i++) {
    TsTileStmt *o = v->stmt[i];
    if (!o->nin || !ts_tile_memory(&o->in[0]->type) || o->in[0] != s->in[0]) continue;
    bool reads = o->op == TS_TILE_load || o->op == TS_TILE_gather;
    if (reads && !writes) continue;
    int before = 0;
    if (reads) {
      before = ts_tile_vec_of(v, o->out[0])->level;
      if (ts_tile_vec_rank(v, o->out[0]) > 0) force_home(v, o->out[0]);
    } else {
      for (int r = 0; r < v->nroot; r++)
        if (v->root[r].stmt == o) before = v->root[r].pass;
    }
    if (level <= before) level = before + 1;
  }
  return level;
}

static bool touches(const TsTileStmt *s) {
  return s->op == TS_TILE_load || s->op == TS_TILE_store || s->op == TS_TILE_gather ||
         s->op == TS_TILE_scatter;
}

static void bump_broadcast(TsVec *v, TsTileStmt *s, int *level) {
  VecVal *p = ts_tile_vec_of(v, s->in[0]);
  if (ts_tile_vec_rank(v, s->in[0]) == 0 || !here(v, s->in[0])) return;
  if (p->cost <= 2 && !p->home) return;
  force_home(v, s->in[0]);
  if (*level <= p->homed) *level = p->homed + 1;
}

/* What a product can read where it is: a constant, or memory that nothing of the stretch
 * writes. */
static bool in_place(const TsVec *v, TsTileVal x) {
  const TsTileStmt *s = x->stmt;
  if (!s || x->type.rank != 2) return false;
  if (s->op == TS_TILE_const) return true;
  if (s->op != TS_TILE_load || ts_tile_attr(s, "edge")->i) return false;
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *o = v->stmt[i];
    bool writes = o->op == TS_TILE_store || o->op == TS_TILE_scatter;
    if (writes && o->in[0] == s->in[0]) return false;
  }
  return true;
}

/* Products read memory. Sums that nobody else wants are renewed in place. */
static int product_level(TsVec *v, TsTileStmt *s, int level) {
  VecVal *out = ts_tile_vec_of(v, s->out[0]), *acc = ts_tile_vec_of(v, s->in[2]);
  for (int i = 0; i < 3; i++) {
    if (!here(v, s->in[i]) || in_place(v, s->in[i])) continue;
    force_home(v, s->in[i]);
    int homed = ts_tile_vec_of(v, s->in[i])->homed;
    if (level <= homed) level = homed + 1;
  }
  if (acc->uses == 1 && !acc->kept && acc->home &&
      ts_tile_type_same(&s->in[2]->type, &s->out[0]->type) &&
      (here(v, s->in[2]) || acc->segment == VEC_CARRIED))
    out->home = acc->home;
  else
    out->home = ts_tile_vec_home(v, s->out[0]);
  out->homed = level;
  add_root(v, VEC_REDUCE, s, s->out[0], level);
  return level + 1;
}

static void level_stmt(TsVec *v, int n) {
  TsTileStmt *s = v->stmt[n];
  int level = 0, cost = ts_tile_vec_cost(s->op);
  for (int i = 0; i < s->nin; i++) {
    VecVal *p = ts_tile_vec_of(v, s->in[i]);
    if (level_of(v, s->in[i]) > level) level = level_of(v, s->in[i]);
    if (!tile(s->in[i]) || ts_tile_vec_rank(v, s->in[i]) == 0) continue; /* once a row */
    cost += !here(v, s->in[i]) || p->home ? 1 : p->cost;
  }
  if (s->op == TS_TILE_broadcast) bump_broadcast(v, s, &level);
  if (touches(s)) level = memory_level(v, n, level);
  if (ts_tile_vec_reduces(s->op)) {
    VecRoot *r = add_root(v, VEC_REDUCE, s, s->in[0], level++);
    VecVal *p = ts_tile_vec_of(v, s->out[0]);
    if (ts_tile_vec_rank(v, s->out[0]) > 0)
      r->home = p->home = ts_tile_vec_home(v, s->out[0]), p->homed = level - 1;
    cost = 1;
  } else if (s->op == TS_TILE_store || s->op == TS_TILE_scatter) {
    add_root(v, VEC_STORE, s, s->in[s->nin - 1], level);
  } else if (s->op == TS_TILE_mma || s->op == TS_TILE_outer) {
    level = product_level(v, s, level);
    cost = 1;
  }
  if (s->nout != 1) return;
  VecVal *p = ts_tile_vec_of(v, s->out[0]);
  p->level = level;
  p->cost = cost < 1000 ? cost : 1000;
  if (level >= VEC_MAX_PASS) ts_tile_vec_fail(v, s, "too many stages depend on each other");
}

/* ---- what is kept for later passes */

/* The most that a value costs that is computed again. Rows that are asked for into the first cache
 * leave less room there for what they are made of: x + y is kept. */
static int cheap(const TsVec *v) { return v->paced ? 2 : VEC_CHEAP; }

static bool one_dear_operand(TsVec *v, TsTileStmt *s) {
  TsTileVal dear = NULL;
  for (int i = 0; i < s->nin; i++) {
    if (!tile(s->in[i]) || !here(v, s->in[i]) || s->in[i] == dear) continue;
    if (ts_tile_vec_of(v, s->in[i])->cost <= cheap(v)) continue;
    if (dear) return false;
    dear = s->in[i];
  }
  return dear != NULL;
}

static bool worth_keeping(TsVec *v, TsTileStmt *s) {
  VecVal *p = ts_tile_vec_of(v, s->out[0]);
  if (ts_tile_vec_rank(v, s->out[0]) == 0 || !(p->need & (p->need - 1))) return false;
  if (p->cost <= cheap(v) || p->home) return false;
  return ts_tile_vec_cost(s->op) > 2 || !one_dear_operand(v, s);
}

static void pass_on(TsVec *v, TsTileStmt *s) {
  VecVal *p = ts_tile_vec_of(v, s->out[0]);
  if (!p->need) return;
  int first = __builtin_ctzll(p->need);
  if (worth_keeping(v, s)) {
    p->home = ts_tile_vec_home(v, s->out[0]);
    p->homed = first;
    add_root(v, VEC_HOME, NULL, s->out[0], first)->home = p->home;
  }
  if (ts_tile_vec_reduces(s->op) || s->op == TS_TILE_mma || s->op == TS_TILE_outer) return;
  uint64_t need = p->home ? (uint64_t)1 << p->homed : p->need;
  for (int i = 0; i < s->nin; i++)
    if (tile(s->in[i]) && here(v, s->in[i])) ts_tile_vec_of(v, s->in[i])->need |= need;
}

static void find_needs(TsVec *v) {
  for (int i = 0; i < v->nroot; i++) {
    VecRoot *r = &v->root[i];
    if (r->kind == VEC_REDUCE && !ts_tile_vec_reduces(r->stmt->op)) continue;
    if (here(v, r->value)) ts_tile_vec_of(v, r->value)->need |= (uint64_t)1 << r->pass;
    if (r->stmt && r->stmt->op == TS_TILE_scatter && here(v, r->stmt->in[1]))
      ts_tile_vec_of(v, r->stmt->in[1])->need |= (uint64_t)1 << r->pass;
  }
  for (int i = v->nstmt; i-- > 0;)
    if (v->stmt[i]->nout == 1 && tile(v->stmt[i]->out[0])) pass_on(v, v->stmt[i]);
}

/* The values of a loop's next round are written when all of this one's have been read. What
 * depends on these is therefore put elsewhere first. */
static bool copied_to(TsVec *v, int ncopy, TsTileVal home) {
  for (int i = 0; i < ncopy; i++)
    if (v->root[i].home == home) return true;
  return false;
}

static void keep_copies(TsVec *v, int ncopy) {
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      VecVal *p = ts_tile_vec_of(v, v->stmt[i]->out[j]);
      p->carried = false;
      for (int o = 0; o < v->stmt[i]->nin; o++) {
        VecVal *q = ts_tile_vec_of(v, v->stmt[i]->in[o]);
        p->carried |= here(v, v->stmt[i]->in[o]) ? q->carried : copied_to(v, ncopy, q->home);
      }
    }
  for (int i = 0; i < ncopy; i++) {
    VecVal *p = ts_tile_vec_of(v, v->root[i].value);
    if (here(v, v->root[i].value) && p->carried)
      force_home(v, v->root[i].value);
    else if (!here(v, v->root[i].value) && copied_to(v, ncopy, p->home))
      ts_tile_vec_fail(v, v->root[i].stmt, "values of a loop that change places");
  }
}

/* A tile that a loop carries, or one that is made of those. */
static bool of_last_round(TsVec *v, int ncopy, TsTileVal x) {
  VecVal *p = ts_tile_vec_of(v, x);
  if (!tile(x) || !x->type.rank) return false;
  return here(v, x) ? p->carried : copied_to(v, ncopy, p->home);
}

/* Where each element of what a loop carries is read at the place where it is renewed, and in
 * one walk with that, it is renewed at once: a walk computes the elements of a step before it
 * stores them. */
static bool renews_in_place(TsVec *v, int ncopy, int pass) {
  for (int i = 0; i < v->nstmt; i++) {
    const TsTileStmt *s = v->stmt[i];
    bool element = s->op == TS_TILE_store || ts_tile_vec_elementwise(s);
    for (int o = 0; o < s->nin && !element; o++)
      if (of_last_round(v, ncopy, s->in[o])) return false;
  }
  for (int i = 0; i < v->nroot; i++) {
    TsTileVal x = v->root[i].value;
    bool last = of_last_round(v, ncopy, x);
    if (i < ncopy ? last || !here(v, x) || level_of(v, x) != pass
                  : last && v->root[i].pass != pass)
      return false;
  }
  return true;
}

static void place_copies(TsVec *v, int ncopy) {
  int last = 0;
  keep_copies(v, ncopy);
  for (int i = 0; i < v->nroot; i++) {
    int level = i < ncopy ? level_of(v, v->root[i].value) : v->root[i].pass;
    if (level > last) last = level;
  }
  int pass = ncopy ? level_of(v, v->root[0].value) : 0;
  for (int i = 0; i < ncopy; i++) v->root[i].pass = pass;
  if (ncopy && renews_in_place(v, ncopy, pass) && ts_tile_vec_one_walk(v, pass)) {
    for (int i = 0; i < ncopy; i++) { /* later passes find it there */
      VecVal *p = ts_tile_vec_of(v, v->root[i].value);
      if (!p->home) p->home = v->root[i].home, p->homed = pass;
    }
    return;
  }
  for (int i = 0; i < ncopy; i++) v->root[i].pass = last + 1;
}

/* Scalars that depend on tiles, and so on passes. */
static void find_tiled(TsVec *v) {
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      VecVal *p = ts_tile_vec_of(v, v->stmt[i]->out[j]);
      p->level = 0, p->need = 0, p->tiled = false;
      for (int o = 0; o < v->stmt[i]->nin; o++) {
        TsTileVal x = v->stmt[i]->in[o];
        p->tiled |=
            tile(x) && (x->type.rank > 0 || (here(v, x) && ts_tile_vec_of(v, x)->tiled));
      }
    }
}

/* Needs: v->stmt; roots that are there already copy values to homes of loops. Gives levels,
 * homes and roots. */
int ts_tile_vec_plan(TsVec *v) {
  int ncopy = v->nroot;
  find_tiled(v);
  find_rows(v);
  for (int i = 0; i < ncopy; i++) {
    ts_tile_vec_of(v, v->root[i].value)->row = -1; /* it may have been one of rows elsewhere */
    v->root[i].space = ts_tile_vec_space(v, v->root[i].value);
    v->root[i].map = ts_tile_vec_map(v, v->root[i].value);
  }
  for (int i = 0; i < v->nstmt && !v->failed; i++) level_stmt(v, i);
  for (int i = 0; i < v->nstmt && !v->failed; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      TsTileVal x = v->stmt[i]->out[j];
      if (tile(x) && x->type.rank > 0 && ts_tile_vec_of(v, x)->kept) force_home(v, x);
    }
  if (v->failed) return -1;
  if (!v->nroot) v->rows = 0;
  place_copies(v, ncopy);
  ts_tile_vec_pace(v);
  find_needs(v);
  v->npass = 0;
  for (int i = 0; i < v->nroot; i++)
    if (v->root[i].pass >= v->npass) v->npass = v->root[i].pass + 1;
  for (int i = 0; i < v->nstmt; i++)
    for (int j = 0; j < v->stmt[i]->nout; j++) {
      int level = ts_tile_vec_of(v, v->stmt[i]->out[j])->level;
      if (level >= v->npass) v->npass = level + 1;
    }
  ts_tile_vec_prefetch_plan(v);
  return v->failed ? -1 : 0;
}
