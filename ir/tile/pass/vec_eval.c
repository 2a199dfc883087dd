/* One chunk of a tile: the vector, or the element, of a value at the place v->at, seen through
 * a map from the value's axes to those of the space. What was computed there already is found
 * in the memo, whose newest part is dropped at the end of a scope. */
#include "ir/tile/pass/vec.h"

#include <stdlib.h>
#include <string.h>

/* ---- the memo */
/* Entry 0 stands for the end of a list. */
int ts_tile_vec_mark(TsVec *v) { return v->nmemo > 1 ? v->nmemo : 1; }

void ts_tile_vec_drop(TsVec *v, int mark) {
  while (v->nmemo > mark) {
    VecMemo *m = &v->memo[--v->nmemo];
    if (m->of) ts_tile_vec_of(v, (TsTileVal)(uintptr_t)m->of)->memo = m->next;
  }
}

static VecMemo *remember(TsVec *v) {
  if (v->nmemo == v->room) {
    int room = v->room ? 2 * v->room : 256;
    VecMemo *m = realloc(v->memo, (size_t)room * sizeof *m);
    if (!m) {
      v->k->failed = true;
      return NULL;
    }
    v->memo = m;
    v->room = room;
  }
  if (!v->nmemo) v->nmemo = 1;
  memset(&v->memo[v->nmemo], 0, sizeof *v->memo);
  return &v->memo[v->nmemo++];
}

static bool same_map(const VecMap *a, const VecMap *b, int rank) {
  for (int i = 0; i < rank; i++)
    if (a->at[i].axis != b->at[i].axis || a->at[i].plus != b->at[i].plus) return false;
  return true;
}

void ts_tile_vec_seen(TsVec *v, TsTileVal x, const VecMap *map, TsTileVal is) {
  VecMemo *m = remember(v);
  if (!m) return;
  m->of = x;
  if (map) m->map = *map;
  m->is = is;
  m->next = ts_tile_vec_of(v, x)->memo;
  ts_tile_vec_of(v, x)->memo = (int)(m - v->memo);
}

static bool find_memo(TsVec *v, TsTileVal x, const VecMap *map, TsTileVal *is) {
  for (int i = ts_tile_vec_of(v, x)->memo; i; i = v->memo[i].next)
    if (same_map(&v->memo[i].map, map, x->type.rank)) return *is = v->memo[i].is, true;
  return false;
}

/* ---- positions */
static TsTileVal find_sum(TsVec *v, TsTileVal a, TsTileVal b, int64_t c) {
  for (int i = v->nmemo; i-- > 1;) {
    VecMemo *m = &v->memo[i];
    if (!m->of && m->a == a && m->b == b && m->c == c) return m->is;
  }
  return NULL;
}

static TsTileVal keep_sum(TsVec *v, TsTileVal a, TsTileVal b, int64_t c, TsTileVal is) {
  VecMemo *m = remember(v);
  if (!m) return NULL;
  m->a = a;
  m->b = b;
  m->c = c;
  return m->is = is;
}

bool ts_tile_vec_known(TsTileVal x, int64_t *c) {
  if (!x) return *c = 0, true;
  if (!x->stmt || x->stmt->op != TS_TILE_const || x->type.rank) return false;
  return *c = (int64_t)ts_tile_attr(x->stmt, "value")->f, true;
}

TsTileVal ts_tile_vec_int(TsVec *v, int64_t c) {
  TsTileVal x = find_sum(v, NULL, NULL, c);
  return x ? x : keep_sum(v, NULL, NULL, c, ts_tile_index(&v->b, c));
}

TsTileVal ts_tile_vec_sum(TsVec *v, TsTileVal a, TsTileVal b, int64_t c) {
  int64_t n;
  if (ts_tile_vec_known(a, &n)) c += n, a = NULL;
  if (ts_tile_vec_known(b, &n)) c += n, b = NULL;
  if (!a) a = b, b = NULL;
  if (!a) return ts_tile_vec_int(v, c);
  if (!b && !c) return a;
  TsTileVal x = find_sum(v, a, b, c);
  if (x) return x;
  x = b ? c ? ts_tile_vec_sum(v, a, b, 0) : ts_tile_op2(&v->b, TS_OP_add, a, b)
        : ts_tile_op2(&v->b, TS_OP_add, a, ts_tile_vec_int(v, c));
  if (b && c) x = ts_tile_op2(&v->b, TS_OP_add, x, ts_tile_vec_int(v, c));
  return keep_sum(v, a, b, c, x);
}

TsTileVal ts_tile_vec_size(TsVec *v, int64_t dim) {
  if (!ts_tile_dim_is(dim)) return ts_tile_vec_int(v, dim);
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  TsTileVal x = find_sum(v, NULL, NULL, dim);
  TsAttr a = {.type = TS_ATTR_int, .i = ts_tile_dim_index(dim)};
  return x ? x
           : keep_sum(v, NULL, NULL, dim, ts_tile_emit1(&v->b, TS_TILE_dim, 0, NULL, &a, &t));
}

TsTileVal ts_tile_vec_index(TsVec *v, VecAt at, TsTileVal from) {
  return ts_tile_vec_sum(v, from, v->at.base[at.axis], v->at.plus[at.axis] + at.plus);
}

/* ---- chunks */
TsTileType ts_tile_vec_type(TsVec *v, TsDtype d) {
  return v->at.vec < 0 ? ts_tile_scalar(d) : ts_tile_vector(d, v->at.lanes);
}

TsTileVal ts_tile_vec_spread(TsVec *v, TsTileVal x) {
  if (!x || v->at.vec < 0 || x->type.rank) return x;
  TsTileType t = ts_tile_vec_type(v, x->type.dtype);
  return ts_tile_broadcast(&v->b, x, &t, NULL);
}

/* As many true lanes as there are live ones. */
static TsTileVal live_mask(TsVec *v) {
  TsTileType t = ts_tile_vector(TS_DT_i32, v->at.lanes);
  TsTileVal lane = ts_tile_emit1(&v->b, TS_TILE_iota, 0, NULL, NULL, &t);
  return ts_tile_op2(&v->b, TS_OP_lt, lane, ts_tile_const(&v->b, v->at.live, &t));
}

TsTileVal ts_tile_vec_live(TsVec *v, TsTileVal x, TsTileVal other) {
  if (v->at.vec < 0 || v->at.live == v->at.lanes) return x;
  return ts_tile_op3(&v->b, TS_OP_where, live_mask(v), x, other);
}

int ts_tile_vec_axis(TsVec *v, int rank, const VecMap *map) {
  for (int i = 0; v->at.vec >= 0 && i < rank; i++)
    if (map->at[i].axis == v->at.vec) return i;
  return -1;
}

/* ---- memory */
int ts_tile_vec_tile_axis(const TsTileStmt *s, int rank, int memory) {
  const TsAttr *axes = ts_tile_attr(s, "axes");
  int first = s->in[0]->type.rank - rank;
  if (axes->type != TS_ATTR_ints) return memory >= first ? memory - first : -1;
  for (int i = 0; i < axes->n; i++)
    if (axes->ints[i] == memory) return i;
  return -1;
}

/* A position that is a multiple of n for certain. */
static bool multiple(TsTileVal x, int64_t n) {
  int64_t c;
  if (ts_tile_vec_known(x, &c)) return c % n == 0;
  if (!x->stmt) {
    TsTileStmt *loop = x->region ? x->region->owner : NULL;
    return loop && loop->op == TS_TILE_for && x->index == 0 && multiple(loop->in[0], n) &&
           ts_tile_attr(loop, "step")->i % n == 0;
  }
  if (x->stmt->op == TS_OP_mul)
    return multiple(x->stmt->in[0], n) || multiple(x->stmt->in[1], n);
  if (x->stmt->op == TS_OP_bitwise_and) /* rounded down to a power of two */
    return multiple(x->stmt->in[0], n) || multiple(x->stmt->in[1], n);
  return (x->stmt->op == TS_OP_add || x->stmt->op == TS_OP_sub) &&
         multiple(x->stmt->in[0], n) && multiple(x->stmt->in[1], n);
}

/* All rows of the last axis begin at multiples of 64 bytes if the first one does. */
static bool rows_aligned(const TsTileType *t) {
  int64_t nbytes = ts_dtypes[t->dtype].nbytes, row = t->dim[t->rank - 1];
  if (!t->strided) return t->rank < 2 || (!ts_tile_dim_is(row) && row * nbytes % 64 == 0);
  for (int i = 0; i < t->rank - 1; i++)
    if (t->stride[i] * nbytes % 64) return false;
  return t->stride[t->rank - 1] == 1;
}

/* Whether a vector along the last axis is aligned, if memory begins at 64 bytes. */
static bool aligned(TsTileVal m, int vec, TsTileVal last, int lanes) {
  return vec == m->type.rank - 1 && rows_aligned(&m->type) && multiple(last, lanes);
}

typedef struct Place {
  TsTileVal memory, at[TS_TILE_RANK];
  int vec; /* the memory's axis along which vectors lie, -1: one element */
  int64_t axes[1];
  TsTileAccess access;
} Place;

/* guarded: it is known that the row is inside. */
static Place place_of(TsVec *v, const TsTileStmt *s, int rank, const VecMap *map,
                      bool guarded) {
  Place p = {.memory = ts_tile_vec_of(v, s->in[0])->now, .vec = -1};
  int vec = ts_tile_vec_axis(v, rank, map);
  for (int i = 0; i < s->in[0]->type.rank; i++) {
    int t = ts_tile_vec_tile_axis(s, rank, i);
    p.at[i] = ts_tile_vec_of(v, s->in[1 + i])->now;
    if (t >= 0) p.at[i] = ts_tile_vec_index(v, map->at[t], p.at[i]);
    if (t >= 0 && t == vec) p.vec = i;
  }
  bool edge = ts_tile_attr(s, "edge")->i != 0 && !guarded;
  int last = s->in[0]->type.rank - 1;
  /* Memory smaller than a vector is never entered without edge, but the check wants it said. */
  bool small = p.vec >= 0 && !ts_tile_dim_is(s->in[0]->type.dim[p.vec]) &&
               s->in[0]->type.dim[p.vec] < v->at.lanes;
  p.access.edge =
      small || (edge && (v->at.edge || p.vec < 0)) || (p.vec >= 0 && v->at.live < v->at.lanes);
  p.access.stream = p.vec >= 0 && ts_tile_attr(s, "stream")->i && !p.access.edge &&
                    v->past != VEC_CACHED && aligned(p.memory, p.vec, p.at[last], v->at.lanes);
  p.access.aligned = p.access.stream && v->past == VEC_ALIGNED;
  p.axes[0] = p.vec;
  if (p.vec >= 0 && p.vec != last) p.access.naxis = 1;
  return p;
}

static TsTileVal load(TsVec *v, const TsTileStmt *s, const VecMap *map) {
  Place p = place_of(v, s, s->out[0]->type.rank, map, false);
  TsTileType t = p.vec < 0 ? ts_tile_scalar((TsDtype)s->out[0]->type.dtype)
                           : ts_tile_vector((TsDtype)s->out[0]->type.dtype, v->at.lanes);
  p.access.axes = p.axes;
  p.access.fill = p.access.edge ? ts_tile_attr(s, "fill")->f : 0;
  return ts_tile_load(&v->b, p.memory, p.at, &t, &p.access);
}

/* Asks for the lines that the load would read; where they do not lie one behind the other that
 * would be a request for each element. */
void ts_tile_vec_ask(TsVec *v, TsTileStmt *s, const VecMap *map, void *far) {
  TsTileVal in[TS_TILE_RANK + 1];
  int n = s->in[0]->type.rank;
  if (s->op != TS_TILE_load || s->in[0]->type.space != TS_SPACE_global) return;
  Place p = place_of(v, s, s->out[0]->type.rank, map, false);
  if (p.vec != n - 1) return;
  TsAttr hint[3] = {
      {.type = TS_ATTR_bool}, {.type = TS_ATTR_bool, .i = *(bool *)far}, {.type = TS_ATTR_int}};
  in[0] = p.memory;
  for (int i = 0; i < n; i++) in[1 + i] = p.at[i];
  int64_t line = 64 / ts_dtypes[s->in[0]->type.dtype].nbytes;
  for (int64_t k = 0; k < v->at.lanes; k += line) {
    if (k) in[n] = ts_tile_vec_sum(v, p.at[n - 1], NULL, k);
    ts_tile_emit(&v->b, TS_TILE_prefetch, n + 1, in, hint, 0, NULL);
  }
}

/* ---- homes: memory that is padded, so that whole vectors are always inside */
typedef struct HomePlace {
  TsTileVal at[TS_TILE_RANK];
  int rank, vec;
} HomePlace;

static HomePlace home_place(TsVec *v, TsTileVal x, const VecMap *map) {
  HomePlace h = {.vec = -1};
  VecVal *p = ts_tile_vec_of(v, x);
  int vec = ts_tile_vec_axis(v, x->type.rank, map);
  for (int i = 0; i < x->type.rank; i++) {
    if (p->rowless && i == p->row) continue;
    if (i == vec) h.vec = h.rank;
    h.at[h.rank++] = ts_tile_vec_index(v, map->at[i], NULL);
  }
  return h;
}

static TsTileVal load_home(TsVec *v, TsTileVal x, const VecMap *map) {
  HomePlace h = home_place(v, x, map);
  int64_t axes[1] = {h.vec};
  TsTileAccess a = {.axes = axes};
  TsTileType t = h.vec < 0 ? ts_tile_scalar((TsDtype)x->type.dtype)
                           : ts_tile_vector((TsDtype)x->type.dtype, v->at.lanes);
  if (h.vec >= 0 && h.vec != h.rank - 1) a.naxis = 1, a.edge = v->at.live < v->at.lanes;
  return ts_tile_load(&v->b, ts_tile_vec_of(v, x)->home, h.at, &t, &a);
}

static void store_home(TsVec *v, const VecRoot *r, TsTileVal x) {
  HomePlace h = home_place(v, r->value, &r->map);
  ts_tile_store(&v->b, r->home, h.at, x, NULL);
}

/* ---- operators */
bool ts_tile_vec_through(const TsTileStmt *s, const VecMap *map, VecMap *in) {
  *in = *map;
  if (s->op == TS_TILE_broadcast) {
    const TsAttr *axes = ts_tile_attr(s, "axes");
    for (int i = 0; i < s->in[0]->type.rank; i++) in->at[i] = map->at[axes->ints[i]];
  } else if (s->op == TS_TILE_transpose) {
    const int64_t *perm = ts_tile_attr(s, "perm")->ints;
    for (int i = 0; i < s->out[0]->type.rank; i++) in->at[perm[i]] = map->at[i];
  } else if (s->op == TS_TILE_part) {
    const int64_t *start = ts_tile_attr(s, "start")->ints;
    for (int i = 0; i < s->out[0]->type.rank; i++) in->at[i].plus += start[i];
  } else {
    return false;
  }
  return true;
}

/* Axes of one element come and go; nothing else may. */
static bool reshape_map(const TsTileStmt *s, const VecMap *map, VecMap *in, VecAt zero) {
  const TsTileType *a = &s->in[0]->type, *o = &s->out[0]->type;
  int j = 0;
  for (int i = 0; i < a->rank; i++) {
    if (a->dim[i] == 1) {
      in->at[i] = zero;
      continue;
    }
    while (j < o->rank && o->dim[j] == 1) j++;
    if (j == o->rank || o->dim[j] != a->dim[i]) return false;
    in->at[i] = map->at[j++];
  }
  while (j < o->rank && o->dim[j] == 1) j++;
  return j == o->rank;
}

static TsTileVal iota(TsVec *v, TsTileStmt *s, const VecMap *map) {
  int axis = (int)ts_tile_attr(s, "axis")->i;
  TsDtype d = s->out[0]->type.dtype;
  TsTileVal first = ts_tile_cast(&v->b, ts_tile_vec_index(v, map->at[axis], NULL), d);
  if (ts_tile_vec_axis(v, s->out[0]->type.rank, map) != axis) return first;
  TsTileType t = ts_tile_vector(d, v->at.lanes);
  TsTileVal lane = ts_tile_emit1(&v->b, TS_TILE_iota, 0, NULL, NULL, &t);
  return ts_tile_op2(&v->b, TS_OP_add, ts_tile_vec_spread(v, first), lane);
}

static TsTileVal gather(TsVec *v, TsTileStmt *s, const VecMap *map, bool vector) {
  TsTileVal at = ts_tile_vec_eval(v, s->in[1], map);
  TsTileType t = vector ? ts_tile_vector((TsDtype)s->out[0]->type.dtype, v->at.lanes)
                        : ts_tile_scalar((TsDtype)s->out[0]->type.dtype);
  if (!at) return NULL;
  if (vector && at->type.rank == 0) at = ts_tile_vec_spread(v, at);
  if (vector) at = ts_tile_vec_live(v, at, ts_tile_const(&v->b, 0, &at->type));
  return ts_tile_emit1(&v->b, TS_TILE_gather, 2,
                       (TsTileVal[]){ts_tile_vec_of(v, s->in[0])->now, at}, s->attr, &t);
}

/* The elements of a chunk lie one behind the other. */
static TsTileVal random_bits(TsVec *v, TsTileStmt *s, const VecMap *map, bool vector) {
  enum { GROUP = 64 };
  TsTileVal in[3];
  for (int i = 0; i < 3; i++)
    if (!(in[i] = ts_tile_vec_of(v, s->in[i])->now)) return NULL;
  if (s->out[0]->type.rank) in[2] = ts_tile_vec_index(v, map->at[0], in[2]);
  TsTileType t = vector ? ts_tile_vector(TS_DT_i32, v->at.lanes) : ts_tile_scalar(TS_DT_i32);
  bool aligned = vector && v->at.lanes % GROUP == 0 && multiple(in[2], GROUP);
  TsAttr attr = {.type = TS_ATTR_bool, .i = aligned};
  return ts_tile_emit1(&v->b, TS_TILE_random, 3, in, &attr, &t);
}

/* A row whose operands are elements of one place. */
static const TsTileStmt *made_by(TsTileVal v, int op) {
  return v->stmt && v->stmt->op == op ? v->stmt : NULL;
}

/* A difference from the largest of its axis: not above 0, or NaN. */
static bool never_positive(TsTileVal x) {
  const TsTileStmt *s = made_by(x, TS_OP_sub);
  const TsTileStmt *spread = s ? made_by(s->in[1], TS_TILE_broadcast) : NULL;
  const TsTileStmt *max = spread ? made_by(spread->in[0], TS_TILE_max) : NULL;
  return max && max->in[0] == s->in[0] && x->type.rank == 1;
}

bool ts_tile_vec_elementwise(const TsTileStmt *s) {
  switch (s->op) {
  case TS_TILE_cast:
  case TS_TILE_bitcast:
  case TS_TILE_shl:
  case TS_TILE_shr:
  case TS_TILE_sar:
  case TS_TILE_mulhi:
  case TS_TILE_look:
  case TS_TILE_scale:
  case TS_TILE_decay:
  case TS_TILE_ult: return true;
  default: return s->op < TS_OP_COUNT && s->nout == 1;
  }
}

int ts_tile_vec_row(const TsTileStmt *s) {
  return s->op == TS_OP_exp && never_positive(s->in[0]) ? TS_TILE_decay : s->op;
}

static TsTileVal row(TsVec *v, TsTileStmt *s, const VecMap *map) {
  TsTileVal in[TS_MAX_IN];
  bool vector = false;
  for (int i = 0; i < s->nin; i++) {
    if (!(in[i] = ts_tile_vec_eval(v, s->in[i], map))) return NULL;
    vector = vector || in[i]->type.rank > 0;
  }
  for (int i = 0; vector && i < s->nin; i++) in[i] = ts_tile_vec_spread(v, in[i]);
  TsTileType t = vector ? ts_tile_vector((TsDtype)s->out[0]->type.dtype, v->at.lanes)
                        : ts_tile_scalar((TsDtype)s->out[0]->type.dtype);
  return ts_tile_emit1(&v->b, ts_tile_vec_row(s), s->nin, in, s->attr, &t);
}

static TsTileVal compute(TsVec *v, TsTileStmt *s, const VecMap *map) {
  VecMap in;
  TsTileType t = s->out[0]->type;
  bool vector = ts_tile_vec_axis(v, t.rank, map) >= 0;
  if (ts_tile_vec_through(s, map, &in)) return ts_tile_vec_eval(v, s->in[0], &in);
  t = vector ? ts_tile_vector(t.dtype, v->at.lanes) : ts_tile_scalar(t.dtype);
  switch (s->op) {
  case TS_TILE_load: return load(v, s, map);
  case TS_TILE_iota: return iota(v, s, map);
  case TS_TILE_gather: return gather(v, s, map, vector);
  case TS_TILE_random: return random_bits(v, s, map, vector);
  case TS_TILE_const:
  case TS_TILE_bits: return ts_tile_emit1(&v->b, s->op, 0, NULL, s->attr, &t);
  case TS_TILE_reshape:
    /* The walk is along the axis of vectors; an axis of one element has index 0 everywhere. */
    if (reshape_map(s, map, &in, (VecAt){VEC_ROW, 0}) && !v->rows)
      return ts_tile_vec_eval(v, s->in[0], &in);
    return ts_tile_vec_fail(v, s, "a reshape"), NULL;
  }
  if (ts_tile_vec_elementwise(s)) return row(v, s, map);
  return ts_tile_vec_fail(v, s, "this operation in tiles"), NULL;
}

static bool in_home(TsVec *v, TsTileVal x) {
  VecVal *p = ts_tile_vec_of(v, x);
  return p->home && (p->segment != v->segment || v->pass > p->homed);
}

TsTileVal ts_tile_vec_eval(TsVec *v, TsTileVal x, const VecMap *map) {
  VecVal *p = ts_tile_vec_of(v, x);
  TsTileVal is;
  if (v->failed || v->k->failed) return NULL;
  if (x->type.rank == 0 && p->now) return p->now;
  if (find_memo(v, x, map, &is)) return is;
  if (in_home(v, x)) {
    is = load_home(v, x, map);
  } else if (!x->stmt || x->stmt->nregion) {
    TS_BUG("a tile of a loop has no home");
  } else {
    int line = v->b.line; /* of what asks for it */
    v->b.line = x->stmt->line;
    is = compute(v, x->stmt, map);
    v->b.line = line;
  }
  if (is && ts_tile_vec_axis(v, x->type.rank, map) >= 0) is = ts_tile_vec_spread(v, is);
  if (is) ts_tile_vec_seen(v, x, map, is);
  return is;
}

/* ---- stores */
static TsTileVal piece(TsVec *v, TsTileVal x, int64_t start, int64_t n) {
  TsTileType t = ts_tile_vector(x->type.dtype, n);
  TsAttr a = {.type = TS_ATTR_ints, .n = 1, .ints = &start};
  return ts_tile_emit1(&v->b, TS_TILE_part, 1, &x, &a, &t);
}

/* Whether memory ends where the tile does, so that lanes behind it are dropped. */
static bool ends_together(const TsTileStmt *s, int vec, const TsTileType *tile) {
  const TsTileType *m = &s->in[0]->type;
  int64_t c;
  int t = ts_tile_vec_tile_axis(s, tile->rank, vec);
  return ts_tile_vec_known(s->in[1 + vec], &c) && !ts_tile_dim_is(m->dim[vec]) &&
         c + tile->dim[t] == m->dim[vec];
}

/* The live lanes only, as vectors of falling sizes. */
static void store_pieces(TsVec *v, const TsTileStmt *s, Place *p, TsTileVal x) {
  TsTileVal at[TS_TILE_RANK];
  int64_t start = 0;
  memcpy(at, p->at, sizeof at);
  p->access.edge = ts_tile_attr(s, "edge")->i && v->at.edge;
  for (int64_t n = v->at.lanes; n > 0; n /= 2) {
    if (!(v->at.live & n)) continue;
    at[p->vec] = ts_tile_vec_sum(v, p->at[p->vec], NULL, start);
    ts_tile_store(&v->b, p->memory, at, piece(v, x, start, n), &p->access);
    start += n;
  }
}

static void scatter_pieces(TsVec *v, const TsTileStmt *s, TsTileVal at, TsTileVal x) {
  TsTileVal memory = ts_tile_vec_of(v, s->in[0])->now;
  int64_t start = 0;
  for (int64_t n = v->at.lanes; n > 0; n /= 2) {
    if (!(v->at.live & n)) continue;
    TsTileVal in[3] = {memory, at, x};
    if (n < v->at.lanes) in[1] = piece(v, at, start, n), in[2] = piece(v, x, start, n);
    ts_tile_emit(&v->b, TS_TILE_scatter, 3, in, s->attr, 0, NULL);
    start += n;
  }
}

void ts_tile_vec_line(TsVec *v, const VecRoot *r) {
  const TsTileStmt *s = r->stmt ? r->stmt : r->value->stmt;
  if (s) v->b.line = s->line;
}

void ts_tile_vec_put(TsVec *v, const VecRoot *r, TsTileVal x) {
  if (!x) return;
  ts_tile_vec_line(v, r);
  if (r->kind == VEC_HOME) {
    store_home(v, r, x);
    return;
  }
  if (r->stmt->op == TS_TILE_scatter) {
    TsTileVal at = ts_tile_vec_eval(v, r->stmt->in[1], &r->map);
    TsTileVal in[3] = {ts_tile_vec_of(v, r->stmt->in[0])->now, at, x};
    if (v->at.vec < 0)
      ts_tile_emit(&v->b, TS_TILE_scatter, 3, in, r->stmt->attr, 0, NULL);
    else
      scatter_pieces(v, r->stmt, at, x);
    return;
  }
  Place p = place_of(v, r->stmt, r->value->type.rank, &r->map, r->guard != NULL);
  p.access.axes = p.axes;
  TsTileRegion *here = v->b.at;
  if (r->guard && v->at.edge) {
    TsTileStmt *s = ts_tile_emit(&v->b, TS_TILE_if, 1, &r->guard, NULL, 0, NULL);
    if (!s) return;
    v->b.at = s->region[0];
  }
  if (p.vec >= 0 && v->at.live < v->at.lanes && !ends_together(r->stmt, p.vec, &r->value->type))
    store_pieces(v, r->stmt, &p, x);
  else
    ts_tile_store(&v->b, p.memory, p.at, x, &p.access);
  v->b.at = here;
}

/* ---- visits */
static void visit(TsVec *v, TsTileVal x, const VecMap *map, VecVisit *fn, void *arg) {
  TsTileVal is;
  VecMap in;
  if (ts_tile_memory(&x->type) || (x->type.rank == 0 && ts_tile_vec_of(v, x)->now)) return;
  if (find_memo(v, x, map, &is)) return;
  ts_tile_vec_seen(v, x, map, NULL);
  if (in_home(v, x) || !x->stmt || x->stmt->nregion) return;
  TsTileStmt *s = x->stmt;
  fn(v, s, map, arg);
  if (s->op == TS_TILE_load || ts_tile_vec_reduces(s->op)) return;
  if (s->op == TS_TILE_reshape) {
    if (reshape_map(s, map, &in, (VecAt){VEC_ROW, 0})) visit(v, s->in[0], &in, fn, arg);
    return;
  }
  if (!ts_tile_vec_through(s, map, &in)) in = *map;
  for (int i = 0; i < s->nin; i++) visit(v, s->in[i], &in, fn, arg);
}

void ts_tile_vec_visit(TsVec *v, TsTileVal x, const VecMap *map, VecVisit *fn, void *arg) {
  visit(v, x, map, fn, arg);
}
