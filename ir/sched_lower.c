/* A group's kernel in block form.
 *
 * Needs a group of kind map or rows. Gives a kernel with one parallel loop: a round is a row, or a
 * piece of the innermost axis. Operands keep the axes along which they move; neighbouring axes
 * along which all operands move evenly are one. The outermost axis is a symbolic size, so that
 * batches of any size share a kernel.
 *
 * One long row, as of a mean over everything, would be one round of one thread. Where its results
 * are sums alone it has two loops: a round of the first is a leaf of the canonical sum, and the
 * second, of one round, does what is left of a leaf, adds up the leaves and goes on from there. */
#include <stdio.h>
#include <string.h>

#include "ir/sched.h"
#include "ir/sched_attention.h"
#include "ir/sched_product.h"
#include "ir/sched_rows.h"
#include "ir/sched_space.h"

enum {
  PIECE = 4096,        /* elements of a round of a long axis without reductions */
  WHOLE = 16384,       /* an axis up to this is one round */
  STREAM = 12 << 20,   /* bytes of a result that goes past the caches */
  MOST_PARAMS = TS_SCHED_PARAMS,
  LEAF = 4096,         /* of the canonical sum (vm/kernels/reduce_tree.h) */
  LEAVES = 8,          /* so many whole ones are worth two loops */
};

/* A value in memory as one node reads it, or as the group writes it. */
typedef struct Access {
  TsVal v;
  int64_t from[TS_TILE_RANK];  /* strides along the group's axes, in elements */
  int64_t moves[TS_TILE_RANK]; /* along the merged axes */
  bool written;
  TsTileVal param;
  TsTileVal tile; /* once loaded */
} Access;

typedef struct Lower {
  const TsSched *s;
  const TsGroup *g;
  TsLayoutFn *layout;
  void *arg;
  TsError *err;
  Access access[MOST_PARAMS];
  int naccess;
  TsSpaceAxes space; /* after merging: at most one row axis */
  bool row;          /* the last axis is whole in a round */
  int64_t n;         /* elements of a round along the last axis */
  TsTileVal *made;   /* by node of the group and output: [TS_MAX_OUT] each */
  TsTile *k;
  TsTileBuild b;
  TsTileVal at[TS_TILE_RANK]; /* the round's position along each axis */
} Lower;

static int refuse(Lower *l, const char *why) {
  return ts_error_set(l->err, TS_ERR_value, "%s", why);
}

static bool weak(TsVal v) { return v->node->op == TS_NODE_number; }

static bool inside(const Lower *l, TsVal v) {
  return l->s->of[ts_sched_root(v)->node->id] == l->g->index;
}

static const TsMeta *shape_of(const TsNode *n) {
  return ts_sched_row(n) ? &n->in[0]->meta : &n->out[0].meta;
}

/* ---- operands */
static int moves_of(Lower *l, const TsMeta *at, TsVal v, int64_t *moves) {
  TsSpaceAxes a = {.naxis = l->g->naxis, .nrow = l->g->nrow};
  int64_t stride[TS_MAX_RANK];
  memcpy(a.axis, l->g->axis, sizeof a.axis);
  bool known = l->layout && l->layout(l->arg, v, stride);
  if (ts_space_strides(&a, at, &v->meta, known ? stride : NULL, moves)) return 0;
  return refuse(l, "the axes of an operand do not divide those of the group");
}

static Access *find_access(Lower *l, TsVal v, const int64_t *moves) {
  for (int i = 0; i < l->naccess; i++)
    if (!l->access[i].written && l->access[i].v == v &&
        !memcmp(l->access[i].from, moves, sizeof *moves * (size_t)l->g->naxis))
      return &l->access[i];
  return NULL;
}

static int add_access(Lower *l, TsVal v, const int64_t *moves, bool written) {
  if (!written && find_access(l, v, moves)) return 0;
  if (l->naccess == MOST_PARAMS) return refuse(l, "more operands than a kernel takes");
  Access *a = &l->access[l->naccess++];
  *a = (Access){.v = v, .written = written};
  memcpy(a->from, moves, sizeof *moves * (size_t)l->g->naxis);
  return 0;
}

static int find_reads(Lower *l) {
  int64_t moves[TS_TILE_RANK];
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    for (int i = 0; i < n->nin; i++) {
      TsVal v = n->in[i];
      if (!v || weak(v) || inside(l, v)) continue;
      if (moves_of(l, shape_of(n), v, moves) || add_access(l, v, moves, false)) return -1;
    }
  }
  return 0;
}

static int find_writes(Lower *l) {
  int64_t moves[TS_TILE_RANK];
  TsSpaceAxes a = {.naxis = l->g->naxis, .nrow = l->g->nrow};
  memcpy(a.axis, l->g->axis, sizeof a.axis);
  for (int i = 0; i < l->g->nout; i++) {
    TsVal v = l->g->out[i];
    ts_space_own(&a, ts_sched_role(l->g, &v->meta) == TS_ROLE_full, moves);
    if (add_access(l, v, moves, true)) return -1;
  }
  return 0;
}

/* ---- axes */
static bool merges(const Lower *l, int i) {
  for (int k = 0; k < l->naccess; k++)
    if (l->access[k].from[i] != l->access[k].from[i + 1] * l->g->axis[i + 1]) return false;
  return true;
}

static int merge_axes(Lower *l) {
  const TsGroup *g = l->g;
  int n = 0, boundary = g->naxis - g->nrow;
  int64_t moves[MOST_PARAMS][TS_TILE_RANK];
  for (int i = 0; i < g->naxis; i++) {
    bool joins = n > 0 && i != boundary && merges(l, i - 1);
    if (joins) n--;
    l->space.axis[n] = joins ? l->space.axis[n] * g->axis[i] : g->axis[i];
    for (int k = 0; k < l->naccess; k++) moves[k][n] = l->access[k].from[i];
    n++;
  }
  if (n == 0) { /* one number */
    l->space.axis[n++] = 1;
    for (int k = 0; k < l->naccess; k++) moves[k][0] = 0;
  }
  for (int k = 0; k < l->naccess; k++)
    memcpy(l->access[k].moves, moves[k], sizeof moves[k]);
  l->space.naxis = n;
  l->row = g->nrow > 0;
  int nrow = 0;
  int64_t row = 1, product = 1;
  for (int i = boundary; i < g->naxis; i++) row *= g->axis[i];
  for (int i = n; i-- > 0 && product < row;) product *= l->space.axis[i], nrow++;
  l->space.nrow = nrow;
  return nrow > 1 ? refuse(l, "the axes of a row are not one after the other in memory") : 0;
}

/* ---- parameters */
static bool moves_along(const Access *a, int axis) { return a->moves[axis] != 0; }

/* A group of rows without an axis before has one row. */
static bool symbolic(const Lower *l, int axis) {
  return axis == 0 && !(l->row && l->space.naxis == 1);
}

static TsTileType param_type(const Lower *l, const Access *a, int64_t size) {
  TsTileType t = {.dtype = a->v->meta.dtype};
  int64_t step = 1;
  for (int i = 0; i < l->space.naxis; i++) {
    if (!moves_along(a, i)) continue;
    t.dim[t.rank] = symbolic(l, i) ? size : l->space.axis[i];
    t.stride[t.rank++] = a->moves[i];
  }
  for (int i = t.rank, axis = l->space.naxis; i-- > 0;) {
    if (t.stride[i] != step) t.strided = true;
    while (!moves_along(a, --axis)) {
    }
    step *= l->space.axis[axis];
  }
  if (!t.strided) memset(t.stride, 0, sizeof t.stride);
  return t;
}

static void put_params(Lower *l) {
  bool any = symbolic(l, 0);
  int64_t size = any ? ts_tile_size(l->k, l->space.naxis == 1 ? "N" : "M") : 0;
  for (int pass = 0, count = 0; pass < 2; pass++)
    for (int i = 0; i < l->naccess; i++) {
      Access *a = &l->access[i];
      if (a->written != (pass == 1)) continue;
      char name[16];
      snprintf(name, sizeof name, pass ? "y%d" : "x%d", pass ? count++ : i);
      TsTileType t = param_type(l, a, size);
      a->param = ts_tile_param(l->k, a->v->name ? a->v->name : name, &t, a->written);
    }
}

/* ---- a round */
static TsTileType tile_type(const Lower *l, TsDtype d, bool whole) {
  return whole ? ts_tile_vector(d, l->n) : ts_tile_scalar(d);
}

static int position(const Lower *l, const Access *a, TsTileVal *at) {
  int n = 0;
  for (int i = 0; i < l->space.naxis; i++)
    if (moves_along(a, i)) at[n++] = l->at[i];
  return n;
}

static bool streams(const Lower *l, const TsMeta *m) {
  int chosen = l->g->choice.stream;
  return chosen ? chosen == 2 : ts_meta_nbytes(m) >= STREAM;
}

static TsTileAccess access_of(const Lower *l, const Access *a, bool whole) {
  int last = l->space.naxis - 1;
  bool ends = symbolic(l, last) || l->space.axis[last] % l->n;
  return (TsTileAccess){.edge = whole && !l->row && ends,
                        .stream = a->written && streams(l, &a->v->meta)};
}

static TsTileVal load(Lower *l, Access *a) {
  TsTileVal at[TS_TILE_RANK];
  if (a->tile) return a->tile;
  bool whole = moves_along(a, l->space.naxis - 1);
  TsTileType t = tile_type(l, (TsDtype)a->v->meta.dtype, whole);
  TsTileAccess how = access_of(l, a, whole);
  position(l, a, at);
  return a->tile = ts_tile_load(&l->b, a->param, at, &t, &how);
}

static void store(Lower *l, Access *a, TsTileVal x) {
  TsTileVal at[TS_TILE_RANK];
  bool whole = moves_along(a, l->space.naxis - 1);
  TsTileAccess how = access_of(l, a, whole);
  position(l, a, at);
  if (x && whole && !x->type.rank) {
    TsTileType t = tile_type(l, (TsDtype)x->type.dtype, true);
    x = ts_tile_broadcast(&l->b, x, &t, NULL);
  }
  ts_tile_store(&l->b, a->param, at, x, &how);
}

static int node_index(const Lower *l, const TsNode *n) {
  for (int i = 0; i < l->g->nnode; i++)
    if (l->g->node[i] == n) return i;
  return -1;
}

static TsTileVal *made(Lower *l, TsVal v) {
  TsVal root = ts_sched_root(v);
  return &l->made[node_index(l, root->node) * TS_MAX_OUT + root->index];
}

/* Operand v of n as tiles of type d; bare numbers become constants. */
static TsTileVal operand(Lower *l, const TsNode *n, TsVal v, TsDtype d) {
  int64_t moves[TS_TILE_RANK];
  if (weak(v)) {
    TsTileType t = ts_tile_scalar(d);
    return ts_tile_const(&l->b, v->node->number, &t);
  }
  if (inside(l, v)) return ts_tile_cast(&l->b, *made(l, v), d);
  if (moves_of(l, shape_of(n), v, moves)) return NULL;
  return ts_tile_cast(&l->b, load(l, find_access(l, v, moves)), d);
}

static TsTileVal spread(Lower *l, TsTileVal x, bool whole) {
  if (!x || x->type.rank || !whole) return x;
  TsTileType t = tile_type(l, (TsDtype)x->type.dtype, true);
  return ts_tile_broadcast(&l->b, x, &t, NULL);
}

static TsDtype compute_of(TsDtype d) { return (TsDtype)ts_dtypes[d].compute; }

static int infer_compute(Lower *l, const TsNode *n, TsDtype *out) {
  const TsMeta *m[TS_MAX_IN];
  for (int i = 0; i < n->nin; i++) m[i] = n->in[i] ? &n->in[i]->meta : NULL;
  TsInfer inf = {.op = (TsOp)n->op, .nin = n->nin, .in = m, .attr = n->attr, .err = l->err};
  if (ts_op_infer(&inf)) return -1;
  *out = compute_of(inf.compute);
  return 0;
}

static int put_pointwise(Lower *l, const TsNode *n) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
  TsDtype d, result = compute_of((TsDtype)n->out[0].meta.dtype);
  bool whole = false;
  int count = 0;
  if (infer_compute(l, n, &d)) return -1;
  for (int i = 0; i < n->nin; i++) {
    bool condition = n->op == TS_OP_where && i == 0;
    if (!(in[count] = operand(l, n, n->in[i], condition ? TS_DT_bool : d))) return -1;
    whole |= in[count++]->type.rank > 0;
  }
  for (int i = 0; i < o->npar; i++) {
    TsTileType t = ts_tile_scalar(d);
    const TsAttr *a = &n->attr[i];
    in[count++] = ts_tile_const(&l->b, a->type == TS_ATTR_f ? a->f : (double)a->i, &t);
  }
  for (int i = 0; i < count; i++) in[i] = spread(l, in[i], whole);
  TsTileType t = tile_type(l, result, whole);
  TsTileVal y = ts_tile_emit1(&l->b, n->op, count, in, NULL, &t);
  l->made[node_index(l, n) * TS_MAX_OUT] =
      ts_tile_cast(&l->b, y, (TsDtype)n->out[0].meta.dtype);
  return 0;
}

static int put_cast(Lower *l, const TsNode *n) {
  TsTileVal x = operand(l, n, n->in[0], (TsDtype)n->in[0]->meta.dtype);
  l->made[node_index(l, n) * TS_MAX_OUT] =
      ts_tile_cast(&l->b, x, (TsDtype)n->out[0].meta.dtype);
  return x ? 0 : -1;
}

static int put_row(Lower *l, const TsNode *n) {
  TsRowCall c = {.b = &l->b, .node = n, .n = l->n};
  TsDtype d = compute_of((TsDtype)n->in[0]->meta.dtype);
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i]) continue;
    if (!(c.in[i] = operand(l, n, n->in[i], d))) return -1;
    c.in[i] = spread(l, c.in[i], true);
  }
  ts_sched_row(n)(&c);
  for (int i = 0; i < n->nout; i++)
    l->made[node_index(l, n) * TS_MAX_OUT + i] =
        ts_tile_cast(&l->b, c.out[i], (TsDtype)n->out[i].meta.dtype);
  return 0;
}

static int put_node(Lower *l, const TsNode *n) {
  l->b.line = ts_tile_place(l->k, ts_graph_where(n));
  if (ts_sched_row(n)) return put_row(l, n);
  return n->op == TS_OP_cast ? put_cast(l, n) : put_pointwise(l, n);
}

/* ---- the loop */
/* The position of round r: its piece of the last axis, then the axes before. */
static void put_position(Lower *l, TsTileVal r, int64_t pieces) {
  TsTileBuild *b = &l->b;
  int last = l->space.naxis - 1;
  l->at[last] = ts_tile_index(b, 0);
  if (pieces > 1) {
    TsTileVal p = ts_tile_index(b, pieces);
    TsTileVal piece = ts_tile_op2(b, TS_OP_mod, r, p);
    l->at[last] = ts_tile_op2(b, TS_OP_mul, piece, ts_tile_index(b, l->n));
    r = ts_tile_op2(b, TS_OP_floordiv, r, p);
  }
  for (int i = last; i-- > 0;) {
    TsTileVal size = i ? ts_tile_index(b, l->space.axis[i]) : NULL;
    l->at[i] = i ? ts_tile_op2(b, TS_OP_mod, r, size) : r;
    if (i) r = ts_tile_op2(b, TS_OP_floordiv, r, size);
  }
}

/* Opens the loop over rounds and sets the position in it. */
static TsTileLoop open_rounds(Lower *l) {
  TsTileBuild *b = &l->b;
  int last = l->space.naxis - 1;
  TsTileVal zero = ts_tile_index(b, 0), size = NULL;
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr first = {.type = TS_ATTR_int, .i = 0};
  if (symbolic(l, 0)) size = ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &first, &index);
  if (last == 0) { /* one axis: pieces of it, or one row */
    TsTileLoop loop = ts_tile_for(b, zero, l->row ? ts_tile_index(b, 1) : size,
                                  l->row ? 1 : l->n, true, 0, NULL);
    l->at[0] = l->row ? ts_tile_index(b, 0) : loop.i;
    return loop;
  }
  int64_t pieces = (l->space.axis[last] + l->n - 1) / l->n, inner = pieces;
  for (int i = 1; i < last; i++) inner *= l->space.axis[i];
  if (inner > 1) size = ts_tile_op2(b, TS_OP_mul, size, ts_tile_index(b, inner));
  TsTileLoop loop = ts_tile_for(b, zero, size, 1, true, 0, NULL);
  put_position(l, loop.i, pieces);
  return loop;
}

static int put_rounds(Lower *l) {
  int64_t size = l->space.axis[l->space.naxis - 1];
  bool whole = l->row || (l->space.naxis > 1 && size <= WHOLE);
  l->n = whole ? size : PIECE;
  int64_t piece = l->g->choice.piece;
  if (piece && !l->row) l->n = l->space.naxis > 1 && piece > size ? size : piece;
  l->k->ntile = 1;
  l->k->tile[0] = l->n;
  l->b = ts_tile_build(l->k);
  TsTileLoop loop = open_rounds(l);
  for (int i = 0; i < l->g->nnode; i++)
    if (put_node(l, l->g->node[i])) return -1;
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].written) store(l, &l->access[i], *made(l, l->access[i].v));
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}

/* ---- one long row in two loops */
static bool whole_space(const Lower *l, const TsMeta *m) {
  return ts_sched_role(l->g, m) == TS_ROLE_full;
}

static bool is_sum(const TsNode *n) { return n->op == TS_OP_sum || n->op == TS_OP_mean; }

static bool in_leaves(const Lower *l) {
  if (!l->row || l->space.naxis != 1 || l->space.axis[0] < LEAVES * LEAF) return false;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool full = whole_space(l, shape_of(n));
    if (ts_sched_row(n) && !is_sum(n)) return false;
    for (int i = 0; full && i < n->nin; i++) /* nothing waits for a sum and goes over it again */
      if (n->in[i] && inside(l, n->in[i]) && !whole_space(l, &n->in[i]->meta)) return false;
  }
  return true;
}

static void store_results(Lower *l, bool full) {
  for (int i = 0; i < l->naccess; i++) {
    Access *a = &l->access[i];
    if (a->written && whole_space(l, &a->v->meta) == full) store(l, a, *made(l, a->v));
  }
}

/* The n elements from the position on, whose sums become element `at` of each scratch. */
static int put_leaf(Lower *l, int64_t n, TsTileVal *sums, TsTileVal at) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  l->n = n;
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *node = l->g->node[k];
    if (!whole_space(l, shape_of(node))) continue;
    if (!ts_sched_row(node)) {
      if (put_node(l, node)) return -1;
      continue;
    }
    l->b.line = ts_tile_place(l->k, ts_graph_where(node));
    TsDtype d = compute_of((TsDtype)node->in[0]->meta.dtype);
    TsTileVal x = spread(l, operand(l, node, node->in[0], d), true);
    if (!x) return -1;
    TsTileType t = ts_tile_scalar(d);
    x = ts_tile_emit1(&l->b, TS_TILE_sum, 1, &x, &axis, &t);
    ts_tile_store(&l->b, sums[k], &at, x, NULL);
  }
  store_results(l, true);
  return 0;
}

/* From the sums of leaves to the group's numbers. */
static int put_numbers(Lower *l, TsTileVal const *sums, int64_t count) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *node = l->g->node[k];
    if (!ts_sched_row(node)) {
      if (!whole_space(l, shape_of(node)) && put_node(l, node)) return -1;
      continue;
    }
    l->b.line = ts_tile_place(l->k, ts_graph_where(node));
    TsDtype d = compute_of((TsDtype)node->in[0]->meta.dtype);
    TsTileType list = ts_tile_vector(d, count), t = ts_tile_scalar(d);
    TsTileVal zero = ts_tile_index(&l->b, 0), x;
    x = ts_tile_load(&l->b, sums[k], &zero, &list, NULL);
    x = ts_tile_emit1(&l->b, TS_TILE_pairs, 1, &x, &axis, &t);
    if (node->op == TS_OP_mean)
      x = ts_tile_op2(&l->b, TS_OP_div, x, ts_tile_const(&l->b, (double)l->space.axis[0], &t));
    l->made[k * TS_MAX_OUT] = ts_tile_cast(&l->b, x, (TsDtype)node->out[0].meta.dtype);
  }
  store_results(l, false);
  return 0;
}

static int put_leaves(Lower *l) {
  int64_t total = l->space.axis[0], whole = total / LEAF, rest = total % LEAF;
  TsTileBuild *b = &l->b;
  TsTileVal *sums = ts_arena_alloc(&l->k->arena, sizeof *sums * (size_t)l->g->nnode);
  if (!sums) return refuse(l, "out of memory");
  l->k->ntile = 1;
  l->k->tile[0] = LEAF;
  *b = ts_tile_build(l->k);
  for (int k = 0; k < l->g->nnode; k++) {
    if (!ts_sched_row(l->g->node[k])) continue;
    TsDtype d = compute_of((TsDtype)l->g->node[k]->in[0]->meta.dtype);
    TsTileType t = ts_tile_vector(d, whole + (rest > 0));
    sums[k] = ts_tile_alloc(b, TS_SPACE_scratch, &t);
  }
  TsTileVal zero = ts_tile_index(b, 0), one = ts_tile_index(b, 1), end = ts_tile_index(b, whole);
  TsTileLoop loop = ts_tile_for(b, zero, end, 1, true, 0, NULL);
  l->at[0] = ts_tile_op2(b, TS_OP_mul, loop.i, ts_tile_index(b, LEAF));
  if (put_leaf(l, LEAF, sums, loop.i)) return -1;
  ts_tile_for_end(b, &loop, NULL, NULL);
  loop = ts_tile_for(b, zero, one, 1, true, 0, NULL);
  l->at[0] = ts_tile_index(b, whole * LEAF);
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  if (rest && put_leaf(l, rest, sums, ts_tile_index(b, whole))) return -1;
  if (put_numbers(l, sums, whole + (rest > 0))) return -1;
  ts_tile_for_end(b, &loop, NULL, NULL);
  return 0;
}

static int lower(Lower *l) {
  if (l->g->kind == TS_GROUP_vm) return refuse(l, "the VM runs this");
  if (l->g->kind == TS_GROUP_rows && !l->g->nrow) return refuse(l, "rows of one element");
  if (find_reads(l) || find_writes(l) || merge_axes(l)) return -1;
  if (!(l->k = ts_tile_new(l->s->g->name))) return refuse(l, "out of memory");
  if (l->s->target) l->k->target = l->s->target->name;
  l->made = ts_arena_alloc(&l->k->arena, sizeof *l->made * (size_t)l->g->nnode * TS_MAX_OUT);
  if (!l->made) return refuse(l, "out of memory");
  put_params(l);
  l->k->unroll = l->g->choice.unroll;
  l->k->vector = l->g->choice.vector;
  l->k->grain = l->g->choice.grain;
  if (in_leaves(l) ? put_leaves(l) : put_rounds(l)) return -1;
  return l->k->failed ? refuse(l, "out of memory") : 0;
}

/* Maps read and write an element in one step, so an output may lie over any input that moves as
 * it does. Rows read theirs several times. */
static bool may_lie_over(const Lower *l, const Access *y, const Access *x) {
  if (l->g->kind != TS_GROUP_map || y->v->meta.dtype != x->v->meta.dtype) return false;
  for (int i = 0; i < l->space.naxis; i++)
    if (l->space.axis[i] > 1 && y->moves[i] != x->moves[i]) return false;
  return ts_meta_numel(&y->v->meta) == ts_meta_numel(&x->v->meta);
}

static void find_over(const Lower *l, TsSchedKernel *out) {
  for (int i = 0, k = 0; i < l->naccess; i++) {
    if (!l->access[i].written) continue;
    for (int j = 0, in = 0; j < l->naccess; j++) {
      if (l->access[j].written) continue;
      if (may_lie_over(l, &l->access[i], &l->access[j])) out->over[k] |= 1ull << in;
      in++;
    }
    k++;
  }
}

int ts_sched_lower(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                   TsSchedKernel *out, TsError *err) {
  if (group->kind == TS_GROUP_attention)
    return ts_sched_lower_attention(s, group, layout, arg, out, err);
  if (group->kind == TS_GROUP_matmul)
    return ts_sched_lower_product(s, group, layout, arg, out, err);
  Lower l = {.s = s, .g = group, .layout = layout, .arg = arg, .err = err};
  if (lower(&l)) {
    ts_tile_free(l.k);
    return -1;
  }
  *out = (TsSchedKernel){.tile = l.k, .dim = {symbolic(&l, 0) ? l.space.axis[0] : 0}};
  for (int pass = 0, n = 0; pass < 2; pass++)
    for (int i = 0; i < l.naccess; i++)
      if (l.access[i].written == (pass == 1)) out->value[n++] = l.access[i].v;
  find_over(&l, out);
  return 0;
}
