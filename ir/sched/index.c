/* Rows read and added at indices, as kernels for a GPU: embedding, index_select, take and
 * route_rows read, index_add adds.
 *
 * Reading: a round is a piece of a slice, whose index is a number of the round; slices shorter
 * than a few vectors are read element by element.
 *
 * Adding: every slice of the result is one chain, which begins with x and takes the slices of
 * src in the order of their index's place (vm/exec/index_add.c). A round owns some slices of
 * the result and looks through the whole index, a chunk at a time, for those that meant one of
 * them: counts them, then finds one after the other, the least place behind the last one. So
 * nothing is sorted, nothing is atomic, and no round waits for another. The index is read once
 * a round, from the second cache; where all of it means one slice, its chain is as long as the
 * index.
 *
 * Indices are looked at by whoever runs the kernel (TsSchedKernel.guard). One that is out of
 * range reads slice 0 here, and is added nowhere. */
#include "ir/sched/index.h"

enum {
  SHORT = 64,    /* elements of a slice that is read as a tile */
  MOST = 4096,   /* elements of a tile of a slice */
  PIECE = 1024,  /* elements of a round where slices are short */
  CHUNK = 4096,  /* indices that are looked at together */
  ROUNDS = 1536, /* that share the slices of a result, about */
};

/* A node over [outer, size, inner], whose middle axis has `count` indices. */
typedef struct Index {
  const TsNode *n;
  TsTile *k;
  TsTileBuild b;
  bool adds;
  TsDtype d;
  int64_t outer, size, inner, count, times; /* times: indices for each slice; 0: just one */
  bool part; /* x has the slices from `first` on alone, and others have the rest */
  int64_t first;
  TsTileVal x, index, src, y;
} Index;

/* ---- which */
static bool whole(TsDtype d) { return ts_dtype_is(d, TS_KIND_I) || d == TS_DT_u8; }

/* Types that add in their own width. */
static bool sums(TsDtype d) {
  return d == TS_DT_f32 || d == TS_DT_f64 || d == TS_DT_i32 || d == TS_DT_i64;
}

static int axis_of(const TsNode *n) {
  int nd = n->in[0]->meta.ndim;
  if (n->op == TS_OP_embedding || n->op == TS_OP_take) return 0;
  if (n->op == TS_OP_route_rows) return nd - 2; /* all before the last are one */
  return (int)(n->attr[0].i < 0 ? n->attr[0].i + nd : n->attr[0].i);
}

static bool read_node(const TsNode *n, Index *x) {
  const TsMeta *m = &n->in[0]->meta;
  *x = (Index){.n = n, .adds = n->op == TS_OP_index_add, .outer = 1, .inner = 1};
  x->d = (TsDtype)n->out[0].meta.dtype;
  x->count = ts_meta_numel(&n->in[1]->meta);
  x->size = n->op == TS_OP_take ? ts_meta_numel(m) : 1;
  int axis = axis_of(n);
  if (n->op == TS_OP_route_rows) {
    x->times = n->attr[0].i;
    for (int i = 0; i < axis; i++) x->size *= m->dim[i];
  }
  for (int i = x->times ? axis : 0; i < m->ndim && n->op != TS_OP_take; i++)
    *(i < axis ? &x->outer : i == axis ? &x->size : &x->inner) *= m->dim[i];
  if (!ts_meta_numel(&n->out[0].meta) || !x->count || !x->size || axis < 0) return false;
  if (x->times) x->first = n->attr[1].i, x->part = n->attr[2].type == TS_ATTR_int;
  return (TsDtype)m->dtype == x->d && whole((TsDtype)n->in[1]->meta.dtype);
}

bool ts_sched_is_index(const TsTarget *t, const TsNode *n) {
  Index x;
  if (!ts_target_gpu(t)) return false;
  switch (n->op) {
  case TS_OP_embedding:
  case TS_OP_index_select:
  case TS_OP_route_rows:
  case TS_OP_take: return read_node(n, &x) && ts_sched_handles(x.d);
  case TS_OP_index_add: return read_node(n, &x) && sums(x.d);
  default: return false;
  }
}

/* ---- short forms */
static TsTileVal num(Index *x, int64_t i) { return ts_tile_index(&x->b, i); }

static TsTileVal op2(Index *x, int op, TsTileVal p, TsTileVal q) {
  return ts_tile_op2(&x->b, op, p, q);
}

/* i64 of p's shape. */
static TsTileVal like(Index *x, TsTileVal p, int64_t i) {
  TsTileType t = p->type;
  t.dtype = TS_DT_i64;
  return ts_tile_bits(&x->b, (uint64_t)i, &t);
}

/* Counted from the end where it is negative. */
static TsTileVal positive(Index *x, TsTileVal i) {
  if (!(i = ts_tile_cast(&x->b, i, TS_DT_i64))) return NULL;
  TsTileVal below = op2(x, TS_OP_lt, i, like(x, i, 0));
  return ts_tile_op3(&x->b, TS_OP_where, below, op2(x, TS_OP_add, i, like(x, i, x->size)), i);
}

/* The slice of route_rows that an index means, counted from the first that x has. */
static TsTileVal row_of(Index *x, TsTileVal i) {
  i = ts_tile_cast(&x->b, i, TS_DT_i64);
  if (i && x->times > 1) i = op2(x, TS_OP_floordiv, i, like(x, i, x->times));
  return i && x->first ? op2(x, TS_OP_sub, i, like(x, i, x->first)) : i;
}

/* And 0 where there is no such slice. */
static TsTileVal safe(Index *x, TsTileVal i) {
  if (!(i = x->times ? row_of(x, i) : positive(x, i))) return NULL;
  TsTileVal in = op2(x, TS_TILE_ult, i, like(x, i, x->size));
  return ts_tile_op3(&x->b, TS_OP_where, in, i, like(x, i, 0));
}

/* v, or where `is`, of one slice or of each element, the number with these bits. */
static TsTileVal unless(Index *x, TsTileVal is, uint64_t bits, TsTileVal v) {
  TsTileType t = v ? v->type : (TsTileType){0};
  t.dtype = TS_DT_bool;
  if (!is || !v) return NULL;
  if (!is->type.rank && v->type.rank) is = ts_tile_broadcast(&x->b, is, &t, NULL);
  return ts_tile_op3(&x->b, TS_OP_where, is, ts_tile_bits(&x->b, bits, &v->type), v);
}

/* v, or zeros where the index says that nothing comes there, and -0 where another has what
 * comes. */
static TsTileVal unless_absent(Index *x, TsTileVal index, TsTileVal v) {
  if (!x->times || !index || !v || !(index = ts_tile_cast(&x->b, index, TS_DT_i64))) return v;
  TsDtype d = (TsDtype)v->type.dtype;
  int nbytes = ts_dtypes[d].nbytes;
  bool real = ts_dtype_is(d, TS_KIND_F), narrow = real && nbytes < 4; /* which are only moved */
  if (narrow) v = ts_tile_bitcast(&x->b, v, nbytes == 2 ? TS_DT_i16 : TS_DT_u8);
  if (x->part) {
    TsTileVal row = row_of(x, index);
    TsTileVal there = row ? op2(x, TS_TILE_ult, row, like(x, row, x->size)) : NULL;
    TsTileVal elsewhere = there ? ts_tile_op1(&x->b, TS_OP_logical_not, there) : NULL;
    v = unless(x, elsewhere, real ? UINT64_C(1) << (8 * nbytes - 1) : 0, v);
  }
  v = unless(x, op2(x, TS_OP_lt, index, like(x, index, 0)), 0, v);
  return narrow && v ? ts_tile_bitcast(&x->b, v, d) : v;
}

static TsTileVal index_at(Index *x, TsTileVal i) {
  TsTileType t = ts_tile_scalar((TsDtype)x->index->type.dtype);
  return ts_tile_load(&x->b, x->index, &i, &t, NULL);
}

static TsTileVal param3(Index *x, const char *name, TsDtype d, int64_t rows, bool written) {
  TsTileType t = ts_tile_type(d, 3, (int64_t[]){x->outer, rows, x->inner});
  return ts_tile_param(x->k, name, &t, written);
}

static TsTileVal param1(Index *x, const char *name, TsDtype d, int64_t n, bool written) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_param(x->k, name, &t, written);
}

static TsTileLoop rounds(Index *x, int64_t n, int64_t step) {
  return ts_tile_for(&x->b, num(x, 0), num(x, n), step, true, 0, NULL);
}

/* r mod n, and r becomes what is left. */
static TsTileVal digit(Index *x, TsTileVal *r, int64_t n) {
  TsTileVal low = n > 1 ? op2(x, TS_OP_mod, *r, num(x, n)) : num(x, 0);
  if (n > 1) *r = op2(x, TS_OP_floordiv, *r, num(x, n));
  return low;
}

static int64_t piece_of(const Index *x) { return x->inner < MOST ? x->inner : MOST; }

static TsTileType piece_type(const Index *x) { return ts_tile_vector(x->d, piece_of(x)); }

static TsTileAccess edge_of(const Index *x) {
  return (TsTileAccess){.edge = x->inner % piece_of(x) != 0};
}

/* ---- reading */
static void read_slices(Index *x) {
  int64_t n = piece_of(x), pieces = (x->inner + n - 1) / n;
  TsTileAccess how = edge_of(x);
  TsTileType t = piece_type(x);
  TsTileLoop loop = rounds(x, x->outer * x->count * pieces, 1);
  TsTileVal r = loop.i;
  TsTileVal col = op2(x, TS_OP_mul, digit(x, &r, pieces), num(x, n));
  TsTileVal i = digit(x, &r, x->count);
  TsTileVal index = index_at(x, i), from[3] = {r, safe(x, index), col}, to[3] = {r, i, col};
  TsTileVal v = unless_absent(x, index, ts_tile_load(&x->b, x->x, from, &t, &how));
  ts_tile_store(&x->b, x->y, to, v, &how);
  ts_tile_for_end(&x->b, &loop, NULL, NULL);
}

static TsTileVal gathered(Index *x, TsTileVal memory, TsTileVal at) {
  TsTileVal in[2] = {memory, at};
  TsTileType t = at->type;
  t.dtype = memory->type.dtype;
  return ts_tile_emit1(&x->b, TS_TILE_gather, 2, in, NULL, &t);
}

static TsTileVal times(Index *x, TsTileVal p, int64_t n) {
  return n == 1 ? p : op2(x, TS_OP_mul, p, like(x, p, n));
}

/* Memory in one axis; the elements behind the last one are the last one again. */
static void read_elements(Index *x) {
  int64_t total = x->outer * x->count * x->inner, n = total < PIECE ? total : PIECE;
  TsTileType t = ts_tile_vector(TS_DT_i64, n);
  TsTileLoop loop = rounds(x, total, n);
  TsTileVal i = ts_tile_emit1(&x->b, TS_TILE_iota, 0, NULL, NULL, &t);
  TsTileVal e = op2(x, TS_OP_add, i, ts_tile_broadcast(&x->b, loop.i, &t, NULL));
  if (!e) return;
  e = op2(x, TS_OP_minimum, e, like(x, e, total - 1));
  TsTileVal row = x->inner == 1 ? e : op2(x, TS_OP_floordiv, e, like(x, e, x->inner));
  TsTileVal at = x->outer == 1 ? row : op2(x, TS_OP_mod, row, like(x, e, x->count));
  TsTileVal index = gathered(x, x->index, at), from = safe(x, index);
  if (x->outer > 1) {
    TsTileVal o = op2(x, TS_OP_floordiv, row, like(x, e, x->count));
    from = op2(x, TS_OP_add, from, times(x, o, x->size));
  }
  from = times(x, from, x->inner);
  if (x->inner > 1) from = op2(x, TS_OP_add, from, op2(x, TS_OP_mod, e, like(x, e, x->inner)));
  TsTileAccess how = {.edge = total % n != 0};
  ts_tile_store(&x->b, x->y, &loop.i, unless_absent(x, index, gathered(x, x->x, from)), &how);
  ts_tile_for_end(&x->b, &loop, NULL, NULL);
}

static void put_reading(Index *x) {
  const TsMeta *ix = &x->n->in[1]->meta;
  bool slices = x->inner >= SHORT;
  x->x = slices ? param3(x, "x", x->d, x->size, false)
                : param1(x, "x", x->d, x->outer * x->size * x->inner, false);
  x->index = param1(x, "index", (TsDtype)ix->dtype, x->count, false);
  x->y = slices ? param3(x, "y", x->d, x->count, true)
                : param1(x, "y", x->d, x->outer * x->count * x->inner, true);
  x->b = ts_tile_build(x->k);
  x->b.line = ts_tile_place(x->k, ts_graph_where(x->n));
  if (slices)
    read_slices(x);
  else
    read_elements(x);
}

/* ---- adding */
/* A round's slices [first, first + n) of the result; those behind the last one are no
 * slices. */
typedef struct Range {
  TsTileVal outer, first, col;
  int64_t n;
} Range;

static TsTileVal load_slice(Index *x, TsTileVal m, const Range *r, TsTileVal row) {
  TsTileVal at[3] = {r->outer, row, r->col};
  TsTileAccess how = edge_of(x);
  TsTileType t = piece_type(x);
  t.dtype = m->type.dtype;
  return ts_tile_cast(&x->b, ts_tile_load(&x->b, m, at, &t, &how), x->d);
}

static void store_slice(Index *x, const Range *r, TsTileVal row, TsTileVal v) {
  TsTileVal at[3] = {r->outer, row, r->col};
  TsTileAccess how = edge_of(x);
  ts_tile_store(&x->b, x->y, at, v, &how);
}

static void begin_slices(Index *x, const Range *r) {
  TsTileType t = piece_type(x);
  TsTileVal end = op2(x, TS_OP_add, r->first, num(x, r->n));
  end = op2(x, TS_OP_minimum, end, num(x, x->size));
  TsTileLoop rows = ts_tile_for(&x->b, r->first, end, 1, false, 0, NULL);
  TsTileVal v = x->x ? load_slice(x, x->x, r, rows.i) : ts_tile_const(&x->b, 0, &t);
  store_slice(x, r, rows.i, v);
  ts_tile_for_end(&x->b, &rows, NULL, NULL);
}

static TsTileVal reduced(Index *x, int op, TsTileVal v) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType t = ts_tile_scalar(op == TS_TILE_sum ? TS_DT_i64 : TS_DT_i32);
  return v ? ts_tile_emit1(&x->b, op, 1, &v, &axis, &t) : NULL;
}

/* Slice p of src onto the one that it is meant for. */
static void add_slice(Index *x, const Range *r, TsTileVal p) {
  TsTileVal row = safe(x, index_at(x, p));
  TsTileVal sum = load_slice(x, x->y, r, row), v = load_slice(x, x->src, r, p);
  store_slice(x, r, row, op2(x, TS_OP_add, sum, v));
}

/* The indices of [start, start + n) that mean slices of r, by their places. */
static void add_chunk(Index *x, const Range *r, TsTileVal start, int64_t n) {
  TsTileBuild *b = &x->b;
  TsTileType wide = ts_tile_vector(TS_DT_i64, n), t = ts_tile_vector(TS_DT_i32, n);
  TsTileType own = ts_tile_vector((TsDtype)x->index->type.dtype, n);
  TsTileAccess how = {.edge = x->count % n != 0};
  TsTileVal v = positive(x, ts_tile_load(b, x->index, &start, &own, &how));
  if (!v) return;
  TsTileVal off = op2(x, TS_OP_sub, v, ts_tile_broadcast(b, r->first, &wide, NULL));
  TsTileVal in = op2(x, TS_TILE_ult, off, like(x, off, r->n));
  TsTileVal i = ts_tile_emit1(b, TS_TILE_iota, 0, NULL, NULL, &t);
  if (how.edge) { /* behind the end */
    TsTileVal left = op2(x, TS_OP_sub, num(x, x->count), start);
    left = ts_tile_broadcast(b, ts_tile_cast(b, left, TS_DT_i32), &t, NULL);
    in = op2(x, TS_OP_logical_and, in, op2(x, TS_OP_lt, i, left));
  }
  TsTileVal none = ts_tile_bits(b, INT32_MAX, &t);
  TsTileVal place = ts_tile_op3(b, TS_OP_where, in, i, none);
  TsTileType scalar = ts_tile_scalar(TS_DT_i32);
  TsTileVal last = ts_tile_bits(b, UINT32_MAX, &scalar);
  TsTileVal count = reduced(x, TS_TILE_sum, ts_tile_cast(b, in, TS_DT_i32));
  TsTileLoop l = ts_tile_for(b, num(x, 0), count, 1, false, 1, &last);
  if (!l.stmt) return;
  TsTileVal behind = op2(x, TS_OP_gt, place, ts_tile_broadcast(b, l.carry[0], &t, NULL));
  last = reduced(x, TS_TILE_min, ts_tile_op3(b, TS_OP_where, behind, place, none));
  add_slice(x, r, op2(x, TS_OP_add, start, ts_tile_cast(b, last, TS_DT_i64)));
  ts_tile_for_end(b, &l, &last, NULL);
}

/* A tensor of zeros, however it came to its shape. */
static bool is_zero(TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return v->node->op == TS_OP_zeros;
}

static void put_adding(Index *x) {
  const TsMeta *ix = &x->n->in[1]->meta, *src = &x->n->in[2]->meta;
  if (!is_zero(x->n->in[0])) x->x = param3(x, "x", x->d, x->size, false);
  x->index = param1(x, "index", (TsDtype)ix->dtype, x->count, false);
  x->src = param3(x, "src", (TsDtype)src->dtype, x->count, false);
  x->y = param3(x, "y", x->d, x->size, true);
  x->b = ts_tile_build(x->k);
  x->b.line = ts_tile_place(x->k, ts_graph_where(x->n));
  int64_t piece = piece_of(x), pieces = (x->inner + piece - 1) / piece;
  int64_t n = (x->size * x->outer * pieces + ROUNDS - 1) / ROUNDS;
  int64_t ranges = (x->size + n - 1) / n, chunk = x->count < CHUNK ? x->count : CHUNK;
  TsTileLoop loop = rounds(x, x->outer * ranges * pieces, 1);
  TsTileVal rest = loop.i;
  Range r = {.n = n, .col = op2(x, TS_OP_mul, digit(x, &rest, pieces), num(x, piece))};
  r.first = op2(x, TS_OP_mul, digit(x, &rest, ranges), num(x, n));
  r.outer = rest;
  begin_slices(x, &r);
  TsTileLoop c = ts_tile_for(&x->b, num(x, 0), num(x, x->count), chunk, false, 0, NULL);
  add_chunk(x, &r, c.i, chunk);
  ts_tile_for_end(&x->b, &c, NULL, NULL);
  ts_tile_for_end(&x->b, &loop, NULL, NULL);
}

/* ---- the kernel */
static bool plain(TsLayoutFn *layout, void *arg, TsVal v) {
  int64_t stride[TS_MAX_RANK];
  return !layout || !layout(arg, v, stride);
}

int ts_sched_lower_index(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                         TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  Index x;
  if (!read_node(n, &x)) return ts_error_set(err, TS_ERR_value, "indices of another kind");
  int nin = x.times ? 2 : n->nin; /* the way back is the gradient's */
  for (int i = 0; i < nin; i++)
    if ((i || !x.adds || !is_zero(n->in[0])) && !plain(layout, arg, n->in[i]))
      return ts_error_set(err, TS_ERR_value, "%s of a view", ts_node_name(n));
  if (!plain(layout, arg, (TsVal)(uintptr_t)&n->out[0]))
    return ts_error_set(err, TS_ERR_value, "%s into a view", ts_node_name(n));
  if (!(x.k = ts_tile_new(ts_op_info((TsOp)n->op)->name))) return ts_error_memory(err);
  if (s->target) x.k->target = s->target->name;
  x.k->ntile = 1, x.k->tile[0] = piece_of(&x);
  if (x.adds)
    put_adding(&x);
  else
    put_reading(&x);
  if (x.k->failed) {
    ts_tile_free(x.k);
    return ts_error_memory(err);
  }
  *out = (TsSchedKernel){.tile = x.k, .function = s->g->name};
  int count = 0;
  for (int i = 0; i < nin; i++)
    if (i || !x.adds || x.x) out->value[count++] = n->in[i];
  out->value[count] = (TsVal)(uintptr_t)&n->out[0];
  out->guard[out->nguard++] = (TsSchedGuard){x.adds && !x.x ? 0 : 1, n, 1};
  return 0;
}
