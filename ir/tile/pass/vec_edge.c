/* Edges: how many elements of a vector are inside of the memories that a pass touches, so that
 * all of its loads and stores but the last ones of a row need not ask. */
#include "ir/tile/pass/vec.h"

typedef struct Inside {
  TsTileVal n; /* elements, or NULL: all */
  int64_t all;
  struct {
    TsTileVal at;
    int64_t plus, dim;
  } seen[32];
  int nseen;
} Inside;

static bool not_negative(TsTileVal x) {
  int64_t c;
  if (ts_tile_vec_known(x, &c)) return c >= 0;
  if (!x->stmt) {
    TsTileStmt *loop = x->region ? x->region->owner : NULL;
    return loop && loop->op == TS_TILE_for && x->index == 0 && not_negative(loop->in[0]);
  }
  if (x->stmt->op == TS_TILE_dim || x->stmt->op == TS_TILE_program) return true;
  return (x->stmt->op == TS_OP_add || x->stmt->op == TS_OP_mul) &&
         not_negative(x->stmt->in[0]) && not_negative(x->stmt->in[1]);
}

static bool surely_inside(TsTileVal at, int64_t plus, int64_t extent, int64_t dim) {
  int64_t c;
  if (!ts_tile_vec_known(at, &c) || c + plus < 0) return false;
  if (extent == dim) return c + plus == 0;
  return !ts_tile_dim_is(dim) && !ts_tile_dim_is(extent) && c + plus + extent <= dim;
}

static TsTileVal both(TsVec *v, TsTileVal a, TsTileVal b) {
  return a ? ts_tile_op2(&v->b, TS_OP_minimum, a, b) : b;
}

static TsTileVal none_if(TsVec *v, TsTileVal outside, TsTileVal n) {
  return ts_tile_op3(&v->b, TS_OP_where, outside, ts_tile_vec_int(v, 0), n);
}

static void clip_axis(TsVec *v, Inside *in, const TsTileStmt *s, int axis, VecAt at,
                      int64_t extent) {
  TsTileVal from = s->in[1 + axis], pos = ts_tile_vec_of(v, from)->now;
  int64_t dim = s->in[0]->type.dim[axis];
  if (surely_inside(from, at.plus, extent, dim)) return;
  TsTileVal size = ts_tile_vec_size(v, dim), all = ts_tile_vec_int(v, in->all);
  if (at.axis == v->at.vec) {
    for (int i = 0; i < in->nseen; i++)
      if (in->seen[i].at == pos && in->seen[i].plus == at.plus && in->seen[i].dim == dim)
        return;
    if (in->nseen < 32) {
      in->seen[in->nseen].at = pos;
      in->seen[in->nseen].plus = at.plus;
      in->seen[in->nseen++].dim = dim;
    }
    TsTileVal first = ts_tile_vec_sum(v, pos, NULL, at.plus);
    TsTileVal left = ts_tile_op2(&v->b, TS_OP_sub, size, first);
    if (!not_negative(from) || at.plus < 0)
      left = none_if(v, ts_tile_op2(&v->b, TS_OP_lt, first, ts_tile_vec_int(v, 0)), left);
    in->n = both(v, in->n, left);
  } else {
    TsTileVal i = ts_tile_vec_index(v, at, pos);
    TsTileVal out = ts_tile_op2(&v->b, TS_OP_ge, i, size);
    TsTileVal low = ts_tile_op2(&v->b, TS_OP_lt, i, ts_tile_vec_int(v, 0));
    in->n = none_if(v, ts_tile_op2(&v->b, TS_OP_logical_or, out, low), in->n ? in->n : all);
  }
}

/* A loop's counter that stays within an axis. */
static bool counts_inside(TsTileVal x, int64_t dim) {
  TsTileStmt *loop = !x->stmt && x->region ? x->region->owner : NULL;
  int64_t c;
  if (ts_tile_vec_known(x, &c)) return c >= 0 && !ts_tile_dim_is(dim) && c < dim;
  if (!loop || loop->op != TS_TILE_for || x->index || !not_negative(loop->in[0])) return false;
  TsTileVal hi = loop->in[1];
  if (ts_tile_vec_known(hi, &c)) return !ts_tile_dim_is(dim) && c <= dim;
  return hi->stmt && hi->stmt->op == TS_TILE_dim && ts_tile_dim_is(dim) &&
         ts_tile_attr(hi->stmt, "index")->i == ts_tile_dim_index(dim);
}

/* An axis of the memory across the tile: its position is inside, or nothing is. */
static void clip_across(TsVec *v, Inside *in, const TsTileStmt *s, int axis) {
  TsTileVal from = s->in[1 + axis], at = ts_tile_vec_of(v, from)->now;
  int64_t dim = s->in[0]->type.dim[axis];
  if (counts_inside(from, dim)) return;
  TsTileVal out = ts_tile_op2(&v->b, TS_OP_ge, at, ts_tile_vec_size(v, dim));
  TsTileVal low = ts_tile_op2(&v->b, TS_OP_lt, at, ts_tile_vec_int(v, 0));
  in->n = none_if(v, ts_tile_op2(&v->b, TS_OP_logical_or, out, low),
                  in->n ? in->n : ts_tile_vec_int(v, in->all));
}

static void clip(TsVec *v, const TsTileStmt *s, int rank, const TsTileType *tile,
                 const VecMap *map, Inside *in) {
  if (!ts_tile_attr(s, "edge")->i || ts_tile_vec_axis(v, rank, map) < 0) return;
  for (int i = 0; i < s->in[0]->type.rank; i++) {
    int t = ts_tile_vec_tile_axis(s, rank, i);
    VecAt at = t >= 0 ? map->at[t] : (VecAt){VEC_ROW, 0};
    if (t >= 0)
      clip_axis(v, in, s, i, at, tile->dim[t]);
    else
      clip_across(v, in, s, i);
  }
}

static void clip_load(TsVec *v, TsTileStmt *s, const VecMap *map, void *arg) {
  if (s->op == TS_TILE_load) clip(v, s, s->out[0]->type.rank, &s->out[0]->type, map, arg);
}

static TsTileVal within(TsVec *v, TsTileVal inside, int64_t n) {
  inside = ts_tile_op2(&v->b, TS_OP_minimum, inside, ts_tile_vec_int(v, n));
  return ts_tile_op2(&v->b, TS_OP_maximum, inside, ts_tile_vec_int(v, 0));
}

/* A row that lies in its memory with all its elements, or not at all. */
static bool whole_rows(const VecRoot *r) {
  const TsTileStmt *s = r->stmt;
  if (r->kind != VEC_STORE || s->op != TS_TILE_store || !ts_tile_attr(s, "edge")->i)
    return false;
  if (r->space.rank != 1) return false;
  for (int i = 0; i < s->in[0]->type.rank; i++) {
    int t = ts_tile_vec_tile_axis(s, r->value->type.rank, i);
    if (t < 0) continue;
    int64_t extent = r->value->type.dim[t];
    if (!surely_inside(s->in[1 + i], r->map.at[t].plus, extent, s->in[0]->type.dim[i]))
      return false;
  }
  return true;
}

void ts_tile_vec_guard(TsVec *v, VecRoot *r) {
  if (r->guard || !whole_rows(r)) return;
  const TsTileStmt *s = r->stmt;
  for (int i = 0; i < s->in[0]->type.rank; i++) {
    if (ts_tile_vec_tile_axis(s, r->value->type.rank, i) >= 0) continue;
    TsTileVal at = ts_tile_vec_of(v, s->in[1 + i])->now;
    int64_t dim = s->in[0]->type.dim[i];
    if (counts_inside(s->in[1 + i], dim)) continue;
    TsTileVal low = ts_tile_op2(&v->b, TS_OP_ge, at, ts_tile_vec_int(v, 0));
    TsTileVal high = ts_tile_op2(&v->b, TS_OP_lt, at, ts_tile_vec_size(v, dim));
    TsTileVal in = ts_tile_op2(&v->b, TS_OP_logical_and, low, high);
    r->guard = r->guard ? ts_tile_op2(&v->b, TS_OP_logical_and, r->guard, in) : in;
  }
}

static bool clip_store(TsVec *v, VecRoot *r, Inside *in) {
  if (r->kind == VEC_STORE && r->stmt->op == TS_TILE_store)
    clip(v, r->stmt, r->value->type.rank, &r->value->type, &r->map, in);
  return in->n != NULL;
}

TsTileVal ts_tile_vec_inside(TsVec *v, int nroot, VecRoot *const *root, int64_t n) {
  Inside in = {.all = n};
  int mark = ts_tile_vec_mark(v);
  for (int i = 0; i < nroot; i++) {
    clip_store(v, root[i], &in);
    ts_tile_vec_visit(v, root[i]->value, &root[i]->map, clip_load, &in);
  }
  ts_tile_vec_drop(v, mark);
  return in.n ? within(v, in.n, n) : NULL;
}

TsTileVal ts_tile_vec_wanted(TsVec *v, int nroot, VecRoot *const *root, int64_t n) {
  TsTileVal most = NULL;
  int mark = ts_tile_vec_mark(v);
  for (int i = 0; i < nroot; i++) {
    Inside in = {.all = n};
    if (!clip_store(v, root[i], &in)) return ts_tile_vec_drop(v, mark), NULL;
    most = most ? ts_tile_op2(&v->b, TS_OP_maximum, most, in.n) : in.n;
  }
  ts_tile_vec_drop(v, mark);
  return most ? within(v, most, n) : NULL;
}
