/* A group with one matmul as a kernel in block form: a round is a block of rows by a block of
 * columns of one matrix of the batch, along all of k. Pointwise nodes of the group that make an
 * operand (ir/sched/prologue.h) stand before the product, on tiles of all of k; what follows it,
 * the words of its epilogue attribute and the other nodes, behind it on the block. The space's
 * last two axes are the rows and columns. A batch of A over one B is one tall matrix where the
 * strides allow it. */
#include "ir/sched/product_state.h"

#include <stdio.h>
#include <string.h>

#include "ir/sched/space.h"
#include "ir/tile/product/product.h"

enum {
  GPU_BLOCK = 512, /* elements of a block of threads */
  GPU_MOST = 64    /* rows of it, columns */
};

static TsDtype sum_type(const TsNode *n) {
  return n->out[0].meta.dtype == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
}

/* A vector is a row of A, a column of B, whose axis the result has not. */
static int64_t rows_of(const TsNode *n) {
  const TsMeta *a = &n->in[0]->meta;
  return a->ndim > 1 ? a->dim[a->ndim - 2] : 1;
}

static int64_t cols_of(const TsNode *n) {
  const TsMeta *b = &n->in[1]->meta;
  return b->ndim > 1 ? b->dim[b->ndim - 1] : 1;
}

static int batch_of(const TsMeta *operand) { return operand->ndim > 1 ? operand->ndim - 2 : 0; }

/* ---- operands */
typedef TsProductAccess Access;
typedef TsProductLower Lower;

enum { MOST = TS_SCHED_PARAMS };

static int refuse(Lower *l, const char *why) {
  return ts_error_set(l->err, TS_ERR_value, "%s", why);
}

static bool weak(TsVal v) { return v->node->op == TS_NODE_number; }
static bool inside(const Lower *l, TsVal v) {
  return l->s->of[ts_sched_root(v)->node->id] == l->g->index;
}

static void strides_of(Lower *l, TsVal v, int64_t *stride) {
  ts_sched_strides(l->layout, l->arg, v, stride);
}

/* An operand of the product, or of what makes it: how it moves along the batch, whose axes are
 * those of the result that are not 1. */
static Access *along_batch(Lower *l, TsSide side, TsVal v, const int64_t *stride) {
  const TsNode *n = l->product;
  const TsMeta *y = &n->out[0].meta, *m = &v->meta;
  int batch = y->ndim - (n->in[0]->meta.ndim > 1) - (n->in[1]->meta.ndim > 1);
  Access *a = &l->access[l->naccess++];
  *a = (Access){.v = v, .side = side};
  for (int i = 0, axis = 0; i < batch; i++) {
    int own = i - (batch - batch_of(m));
    if (y->dim[i] == 1) continue;
    a->moves[axis++] = own >= 0 && m->dim[own] > 1 ? stride[own] : 0;
  }
  return a;
}

static void matrix(Lower *l, TsSide side) {
  TsVal v = l->product->in[side];
  const TsMeta *m = &v->meta;
  int64_t stride[TS_MAX_RANK];
  strides_of(l, v, stride);
  Access *a = along_batch(l, side, v, stride);
  a->has[0] = a->has[1] = true;
  if (m->ndim > 1)
    a->step[0] = stride[m->ndim - 2], a->step[1] = stride[m->ndim - 1];
  else
    a->step[side == TS_SIDE_a] = stride[0];
}

static int moves_of(Lower *l, const TsMeta *at, TsVal v, int64_t *moves) {
  TsSpaceAxes a = {.naxis = l->g->naxis};
  int64_t stride[TS_MAX_RANK];
  memcpy(a.axis, l->g->axis, sizeof a.axis);
  strides_of(l, v, stride);
  if (ts_space_strides(&a, at, &v->meta, stride, moves)) return 0;
  return refuse(l, "the axes of an operand do not divide those of the group");
}

static Access *find_part(Lower *l, TsSide side, TsVal v) {
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].side == side && l->access[i].v == v) return &l->access[i];
  return NULL;
}

/* What a prologue reads: all of its operand's elements, or it is broadcast to them. */
static int add_part(Lower *l, TsSide side, TsVal v) {
  const TsMeta *m = &v->meta;
  int64_t stride[TS_MAX_RANK];
  if (find_part(l, side, v)) return 0;
  if (l->naccess == MOST) return refuse(l, "more operands than a kernel takes");
  strides_of(l, v, stride);
  Access *a = along_batch(l, side, v, stride);
  for (int i = 0; i < 2; i++) {
    int own = m->ndim - 2 + i;
    a->has[i] = own >= 0 && m->dim[own] > 1;
    a->step[i] = a->has[i] ? stride[own] : 0;
  }
  return 0;
}

static Access *find(Lower *l, TsVal v, const int64_t *moves) {
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].side == TS_SIDE_result && !l->access[i].written && l->access[i].v == v &&
        !memcmp(l->access[i].from, moves, sizeof *moves * (size_t)l->g->naxis))
      return &l->access[i];
  return NULL;
}

static int add(Lower *l, const TsMeta *at, TsVal v, bool written) {
  int64_t moves[TS_TILE_RANK] = {0};
  if (moves_of(l, at, v, moves)) return -1;
  if (!written && find(l, v, moves)) return 0;
  if (l->naccess == MOST) return refuse(l, "more operands than a kernel takes");
  Access *a = &l->access[l->naccess++];
  *a = (Access){.v = v, .side = TS_SIDE_result, .written = written};
  memcpy(a->from, moves, sizeof moves);
  memcpy(a->moves, moves, sizeof moves);
  return 0;
}

static int find_factor(Lower *l, TsSide side) {
  int first = l->naccess;
  if (!inside(l, l->product->in[side])) return matrix(l, side), 0;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    for (int i = 0; l->side[k] == side && i < n->nin; i++) {
      TsVal v = n->in[i];
      if (v && !weak(v) && !inside(l, v) && add_part(l, side, v)) return -1;
    }
  }
  for (int i = first; i < l->naccess; i++)
    if (l->access[i].has[0] && l->access[i].has[1]) return 0;
  return refuse(l, "an operand is made of parts only");
}

static int find_operands(Lower *l) {
  if (find_factor(l, TS_SIDE_a) || find_factor(l, TS_SIDE_b)) return -1;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    if (l->side[k] != TS_SIDE_result) continue;
    for (int i = n == l->product ? 2 : 0; i < n->nin; i++) {
      TsVal v = n->in[i];
      if (v && !weak(v) && !inside(l, v) && add(l, &n->out[0].meta, v, false)) return -1;
    }
  }
  for (int i = 0; i < l->g->nout; i++)
    if (add(l, &l->g->out[i]->meta, l->g->out[i], true)) return -1;
  return 0;
}

/* ---- axes */
static bool joins(const Lower *l, int i) { /* batch axis i and the one behind it */
  bool rows = i == l->naxis - 3;
  for (int k = 0; k < l->naccess; k++) {
    const Access *a = &l->access[k];
    int64_t behind = !rows || a->side == TS_SIDE_result ? a->moves[i + 1]
                     : a->side == TS_SIDE_a             ? a->step[0]
                                                        : 0;
    if (a->moves[i] != behind * l->axis[i + 1]) return false;
  }
  return true;
}

static void join_axis(Lower *l, int i) {
  l->axis[i] *= l->axis[i + 1];
  for (int k = i + 1; k + 1 < l->naxis; k++) l->axis[k] = l->axis[k + 1];
  for (int x = 0; x < l->naccess; x++) {
    Access *a = &l->access[x];
    /* A's rows are in step[], not in moves[]. */
    bool rows = a->side != TS_SIDE_result && i == l->naxis - 3;
    for (int k = i; !rows && k + 1 < l->naxis; k++) a->moves[k] = a->moves[k + 1];
    if (rows) a->moves[i] = 0;
  }
  l->naxis--;
}

/* An axis of one element, which no group has: the results move along it. */
static void insert_axis(Lower *l, int at, int64_t stride) {
  for (int k = l->naxis; k > at; k--) l->axis[k] = l->axis[k - 1];
  l->axis[at] = 1;
  for (int x = 0; x < l->naccess; x++) {
    int64_t *moves = l->access[x].moves;
    if (l->access[x].side != TS_SIDE_result) continue;
    for (int k = l->naxis; k > at; k--) moves[k] = moves[k - 1];
    moves[at] = l->access[x].written ? stride : 0;
  }
  l->naxis++;
}

static void find_axes(Lower *l) {
  int64_t rows = rows_of(l->product), cols = cols_of(l->product);
  l->naxis = l->g->naxis;
  memcpy(l->axis, l->g->axis, sizeof l->axis);
  if (cols == 1) insert_axis(l, l->naxis, 1);
  if (rows == 1) insert_axis(l, l->naxis - 1, cols);
  for (int i = l->naxis - 3; i >= 0; i--)
    if (joins(l, i)) join_axis(l, i);
}

/* ---- parameters */
static void add_axis(TsTileType *t, int64_t size, int64_t stride) {
  t->dim[t->rank] = size;
  t->stride[t->rank++] = stride;
}

static void settle(TsTileType *t) {
  t->strided = !ts_shape_row_major(t->rank, t->dim, t->stride);
  if (!t->strided) memset(t->stride, 0, sizeof t->stride);
}

static TsTileType type_of(const Lower *l, const Access *a) {
  TsTileType t = {.dtype = a->v->meta.dtype};
  int batch = l->naxis - 2;
  bool result = a->side == TS_SIDE_result;
  int64_t size[2] = {l->axis[batch], l->axis[batch + 1]};
  if (!result) size[a->side == TS_SIDE_a] = l->k;
  for (int i = 0; i < (result ? l->naxis : batch); i++)
    if (a->moves[i]) add_axis(&t, l->axis[i], a->moves[i]);
  for (int i = 0; i < 2; i++)
    if (a->has[i]) add_axis(&t, size[i], a->step[i]);
  settle(&t);
  return t;
}

static void put_params(Lower *l) {
  for (int pass = 0, count = 0; pass < 2; pass++)
    for (int i = 0; i < l->naccess; i++) {
      Access *a = &l->access[i];
      if (a->written != (pass == 1)) continue;
      char name[16];
      snprintf(name, sizeof name, pass ? "y%d" : "x%d", pass ? count++ : i);
      TsTileType t = type_of(l, a);
      a->param = ts_tile_param(l->tile, a->v->name ? a->v->name : name, &t, a->written);
    }
}

/* ---- tiles */
static void put_shape(Lower *l, TsSide side) {
  l->now = side;
  l->shape[0] = side == TS_SIDE_b ? l->k : l->block[0];
  l->shape[1] = side == TS_SIDE_a ? l->k : l->block[1];
}

static TsTileType block_type(const Lower *l, TsDtype d) { return ts_tile_type(d, 2, l->shape); }

static TsTileVal spread(Lower *l, TsTileVal x, const int64_t *axes) {
  if (!x || x->type.rank == 2) return x;
  TsTileType t = block_type(l, (TsDtype)x->type.dtype);
  return ts_tile_broadcast(&l->b, x, &t, axes);
}

/* Where a tile begins along axis i of its two. */
static TsTileVal position(Lower *l, int i) {
  bool whole = l->now == (i ? TS_SIDE_a : TS_SIDE_b); /* along k */
  return whole ? ts_tile_index(&l->b, 0) : l->at[l->naxis - 2 + i];
}

/* What an operand has in this block: for each element, or one number. */
static TsTileVal load(Lower *l, Access *a) {
  TsTileVal at[TS_TILE_RANK];
  TsTileType t = {.dtype = a->v->meta.dtype};
  int batch = l->naxis - 2, n = 0;
  int64_t axes[2];
  if (a->tile) return a->tile;
  for (int i = 0; i < batch; i++)
    if (a->moves[i]) at[n++] = l->at[i];
  for (int i = 0; i < 2; i++) {
    if (!(l->now == TS_SIDE_result ? a->moves[batch + i] != 0 : a->has[i])) continue;
    at[n++] = position(l, i);
    axes[t.rank] = i;
    t.dim[t.rank++] = l->shape[i];
  }
  TsTileAccess how = {.edge = t.rank > 0};
  TsTileVal x = ts_tile_load(&l->b, a->param, at, &t, &how);
  return a->tile = t.rank ? spread(l, x, axes) : x;
}

static TsTileVal *made(Lower *l, TsVal v) {
  const TsNode *n = ts_sched_root(v)->node;
  for (int i = 0; i < l->g->nnode; i++)
    if (l->g->node[i] == n) return &l->made[i];
  return NULL;
}

static TsTileVal operand(Lower *l, const TsNode *n, TsVal v, TsDtype d) {
  int64_t moves[TS_TILE_RANK] = {0};
  if (weak(v)) {
    TsTileType t = ts_tile_scalar(d);
    return ts_tile_const(&l->b, v->node->number, &t);
  }
  if (inside(l, v)) return ts_tile_cast(&l->b, *made(l, v), d);
  if (l->now != TS_SIDE_result) return ts_tile_cast(&l->b, load(l, find_part(l, l->now, v)), d);
  if (moves_of(l, &n->out[0].meta, v, moves)) return NULL;
  return ts_tile_cast(&l->b, load(l, find(l, v, moves)), d);
}

/* ---- the product */
static TsTileVal factor(Lower *l, TsSide side) {
  TsVal v = l->product->in[side];
  if (inside(l, v)) return ts_tile_cast(&l->b, *made(l, v), l->factor);
  put_shape(l, side);
  TsTileVal x = load(l, find_part(l, side, v));
  put_shape(l, TS_SIDE_result);
  return ts_tile_cast(&l->b, x, l->factor);
}

static int put_word(Lower *l, const char *word, size_t n, TsTileVal *sum) {
  const TsNode *p = l->product;
  TsVal side = NULL;
  int op = 0;
  if (n == 4 && !memcmp(word, "bias", n))
    side = p->nin > 2 ? p->in[2] : NULL;
  else if (n == 8 && !memcmp(word, "residual", n))
    side = p->nin > 3 ? p->in[3] : NULL;
  else if (n == 4 && !memcmp(word, "relu", n))
    op = TS_OP_relu;
  else if (n == 4 && !memcmp(word, "silu", n))
    op = TS_OP_silu;
  else if (n == 4 && !memcmp(word, "gelu", n))
    op = TS_OP_gelu_erf;
  else if (n == 4 && !memcmp(word, "none", n))
    return 0;
  else
    return refuse(l, "an epilogue that is not known");
  if (op) {
    *sum = ts_tile_op1(&l->b, op, *sum);
    return 0;
  }
  TsTileVal x = side ? operand(l, p, side, l->d) : NULL;
  if (!x) return refuse(l, "an epilogue without its operand");
  *sum = ts_tile_op2(&l->b, TS_OP_add, *sum, spread(l, x, NULL));
  return 0;
}

/* Along all of k at once. */
static TsTileVal sums(Lower *l) {
  TsTileType t = block_type(l, l->d);
  TsTileVal zero = ts_tile_const(&l->b, 0, &t);
  TsTileVal a = factor(l, TS_SIDE_a), b = factor(l, TS_SIDE_b);
  TsAttr unit = {.type = l->unit ? TS_ATTR_str : TS_ATTR_none, .str = l->unit};
  return ts_tile_emit1(&l->b, TS_TILE_mma, 3, (TsTileVal[]){a, b, zero}, &unit, &t);
}

static int put_product(Lower *l, TsTileVal *out) {
  const TsNode *p = l->product;
  const TsAttr *words = &p->attr[2];
  TsTileVal sum = l->square ? ts_sched_square_sums(l) : sums(l);
  bool given = words->type == TS_ATTR_str;
  const char *w = given ? words->str : "";
  for (size_t n; *w; w += n + (w[n] == '_'))
    if (put_word(l, w, n = strcspn(w, "_"), &sum)) return -1;
  if (!given && p->nin > 2 && p->in[2] && put_word(l, "bias", 4, &sum)) return -1;
  if (!given && p->nin > 3 && p->in[3] && put_word(l, "residual", 8, &sum)) return -1;
  *out = ts_tile_cast(&l->b, sum, (TsDtype)p->out[0].meta.dtype);
  return 0;
}

/* ---- what follows */
static TsDtype compute_of(TsDtype d) { return (TsDtype)ts_dtypes[d].compute; }

static int infer_compute(Lower *l, const TsNode *n, TsDtype *out) {
  const TsMeta *m[TS_MAX_IN];
  for (int i = 0; i < n->nin; i++) m[i] = n->in[i] ? &n->in[i]->meta : NULL;
  TsInfer inf = {.op = (TsOp)n->op, .nin = n->nin, .in = m, .attr = n->attr, .err = l->err};
  if (ts_op_infer(&inf)) return -1;
  *out = compute_of(inf.compute);
  return 0;
}

static int put_pointwise(Lower *l, const TsNode *n, TsTileVal *out) {
  const TsOpInfo *o = ts_op_info((TsOp)n->op);
  TsTileVal in[TS_MAX_IN + TS_MAX_ATTR];
  TsDtype d;
  int count = 0;
  if (infer_compute(l, n, &d)) return -1;
  for (int i = 0; i < n->nin; i++) {
    bool condition = n->op == TS_OP_where && i == 0;
    if (!(in[count++] = operand(l, n, n->in[i], condition ? TS_DT_bool : d))) return -1;
  }
  for (int i = 0; i < o->npar; i++) {
    TsTileType t = ts_tile_scalar(d);
    const TsAttr *a = &n->attr[i];
    double v = a->type == TS_ATTR_f ? a->f : (double)a->i;
    in[count++] = ts_tile_const(&l->b, ts_nodes_in_range(v, d), &t);
  }
  for (int i = 0; i < count; i++) in[i] = spread(l, in[i], NULL);
  TsTileType t = block_type(l, compute_of((TsDtype)n->out[0].meta.dtype));
  TsTileVal y = ts_tile_emit1(&l->b, n->op, count, in, NULL, &t);
  *out = ts_tile_cast(&l->b, y, (TsDtype)n->out[0].meta.dtype);
  return 0;
}

static int put_node(Lower *l, int i) {
  const TsNode *n = l->g->node[i];
  l->b.line = ts_tile_place(l->tile, ts_graph_where(n));
  put_shape(l, (TsSide)l->side[i]);
  if (n == l->product) return put_product(l, &l->made[i]);
  if (n->op != TS_OP_cast) return put_pointwise(l, n, &l->made[i]);
  TsTileVal x = operand(l, n, n->in[0], (TsDtype)n->in[0]->meta.dtype);
  l->made[i] = ts_tile_cast(&l->b, spread(l, x, NULL), (TsDtype)n->out[0].meta.dtype);
  return x ? 0 : -1;
}

static void store(Lower *l, const Access *a) {
  TsTileVal at[TS_TILE_RANK];
  int n = 0;
  for (int i = 0; i < l->naxis; i++)
    if (a->moves[i]) at[n++] = l->at[i];
  TsTileAccess how = {.edge = true};
  ts_tile_store(&l->b, a->param, at, spread(l, *made(l, a->v), NULL), &how);
}

/* The innermost digit of r, which counts to n; the others stay. */
static TsTileVal next_of(TsTileBuild *b, TsTileVal *r, int64_t n) {
  if (n == 1) return ts_tile_index(b, 0);
  TsTileVal by = ts_tile_index(b, n), digit = ts_tile_op2(b, TS_OP_mod, *r, by);
  *r = ts_tile_op2(b, TS_OP_floordiv, *r, by);
  return digit;
}

/* ---- the rounds: blocks of columns outside, of rows within, so that a thread's next round
 * reads the same columns; matrices of the batch outermost */
static void put_position(Lower *l, TsTileVal r) {
  TsTileBuild *b = &l->b;
  int batch = l->naxis - 2;
  int64_t rows = (l->axis[batch] + l->block[0] - 1) / l->block[0];
  int64_t cols = (l->axis[batch + 1] + l->block[1] - 1) / l->block[1];
  TsTileVal m = next_of(b, &r, rows), n = next_of(b, &r, cols);
  for (int i = batch; i-- > 0;) {
    TsTileVal by = ts_tile_index(b, l->axis[i]);
    l->at[i] = i ? ts_tile_op2(b, TS_OP_mod, r, by) : r;
    if (i) r = ts_tile_op2(b, TS_OP_floordiv, r, by);
  }
  l->at[batch] = rows > 1 ? ts_tile_op2(b, TS_OP_mul, m, ts_tile_index(b, l->block[0])) : m;
  l->at[batch + 1] = cols > 1 ? ts_tile_op2(b, TS_OP_mul, n, ts_tile_index(b, l->block[1])) : n;
}

/* As many columns as there are, in a power of two. */
static void gpu_block(int64_t cols, int64_t block[2]) {
  block[1] = 1;
  while (block[1] < cols && block[1] < GPU_MOST) block[1] *= 2;
  block[0] = GPU_BLOCK / block[1] < GPU_MOST ? GPU_BLOCK / block[1] : GPU_MOST;
}

/* A, or the first that has all its elements. */
static const Access *first_whole(const Lower *l) {
  const Access *a = &l->access[0];
  while (!a->has[0] || !a->has[1]) a++;
  return a;
}

static TsProductSize size_of(const Lower *l) {
  int batch = l->naxis - 2;
  const Access *a = first_whole(l);
  TsProductSize size = {.m = l->axis[batch],
                        .n = l->axis[batch + 1],
                        .k = l->k,
                        .batch = 1,
                        .threads = l->s->threads,
                        .transposed = a->step[0] == 1 && a->step[1] != 1,
                        .pairs = ts_tile_pairs_named(l->unit)};
  for (int i = 0; i < batch; i++) size.batch *= l->axis[i];
  size.high = l->g->choice.high, size.steps = l->g->choice.depth;
  return size;
}

/* Blocks of GPUs are their own. Of a CPU's matrix unit the registers are. */
static void say(Lower *l, const TsProductSize *size) {
  const TsTarget *t = l->s->target;
  int mr = -1, nv;
  l->told = true;
  if (ts_target_gpu(t)) {
    for (int i = 0; i < TS_CHOICE_FIELDS; i++) *ts_choice_at(&l->took, i) = -1;
    return;
  }
  if (size->pairs != TS_PAIRS_amx_bf16)
    ts_tile_product_registers(t, t->vector_bytes / ts_dtypes[l->d].nbytes, size->m, size->n,
                              size->high, &mr, &nv);
  l->took = (TsSchedChoice){
      .rows = (int)l->block[0], .columns = (int)l->block[1], .high = size->high ? mr : 0};
}

static int put_rounds(Lower *l) {
  TsProductSize size = size_of(l);
  const TsSchedChoice *c = &l->g->choice;
  ts_sched_choice_head(c, l->tile);
  if (l->square)
    ts_sched_square_block(l, &size);
  else if (ts_target_gpu(l->s->target))
    gpu_block(size.n, l->block);
  else
    ts_tile_product_near(l->s->target, l->d, &size, c->rows, c->columns, l->block);
  say(l, &size);
  int64_t rounds = size.batch * ((size.m + l->block[0] - 1) / l->block[0]) *
                   ((size.n + l->block[1] - 1) / l->block[1]);
  l->tile->ntile = 2;
  memcpy(l->tile->tile, l->block, sizeof l->block);
  l->b = ts_tile_build(l->tile);
  TsTileLoop loop = ts_tile_for(&l->b, ts_tile_index(&l->b, 0), ts_tile_index(&l->b, rounds), 1,
                                true, 0, NULL);
  put_position(l, loop.i);
  /* What makes the operands stands before all else. */
  for (int prologue = 1; prologue >= 0; prologue--)
    for (int i = 0; i < l->g->nnode; i++)
      if ((l->side[i] != TS_SIDE_result) == prologue && put_node(l, i)) return -1;
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].written) store(l, &l->access[i]);
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return l->tile->failed ? ts_error_memory(l->err) : 0;
}

static int open_product(Lower *l) {
  l->product = ts_sched_product_of(l->g);
  if (!l->product || !l->s->target || !ts_sched_sides(l->g, l->side))
    return refuse(l, "no product");
  const TsMeta *a = &l->product->in[0]->meta;
  int more = (rows_of(l->product) == 1) + (cols_of(l->product) == 1);
  if (l->g->naxis + more < 2 || l->g->naxis + more > TS_TILE_RANK)
    return refuse(l, "no product");
  l->k = a->dim[a->ndim - 1];
  l->d = l->factor = sum_type(l->product);
  if (ts_sched_by_pairs(l->s, l->product)) l->unit = l->s->target->pairs;
  if (l->unit) l->factor = TS_DT_bf16;
  if (find_operands(l)) return -1;
  if (!l->unit) l->square = (l->unit = ts_sched_square_unit(l)) != NULL;
  find_axes(l);
  return 0;
}

bool ts_sched_product_size(const TsSched *s, const TsGroup *group, TsProductSize *size,
                           TsDtype *d) {
  TsError ignored = {0};
  Lower l = {.s = s, .g = group, .err = &ignored};
  if (open_product(&l)) return false;
  *size = size_of(&l);
  *d = l.d;
  return true;
}

static int lower(Lower *l) {
  if (open_product(l)) return -1;
  if (!(l->tile = ts_tile_new(l->s->g->name))) return ts_error_memory(l->err);
  l->tile->target = l->s->target->name;
  put_params(l);
  return put_rounds(l);
}

int ts_sched_lower_product(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                           void *arg, TsSchedKernel *out, TsError *err) {
  Lower l = {.s = s, .g = group, .layout = layout, .arg = arg, .err = err};
  if (lower(&l)) {
    ts_tile_free(l.tile);
    return -1;
  }
  *out = (TsSchedKernel){.tile = l.tile, .took = l.took, .told = l.told};
  for (int pass = 0, n = 0; pass < 2; pass++)
    for (int i = 0; i < l.naccess; i++)
      if (l.access[i].written == (pass == 1)) out->value[n++] = l.access[i].v;
  return 0;
}
