/* The loops of a group of columns for a GPU, whose blocks take whole rows.
 *
 * The canonical sum of a column goes by leaves of 4096 rows, of which row i belongs to lane i
 * mod 256: a lane is a chain of 16 rows. A round of the first loop is one lane of one leaf and
 * all columns, or a piece of 1024: it walks the rows of its lane with the chains in registers
 * and leaves them in scratch. Where there are registers for it, it has two or four lanes, of
 * those that are added to one another first, so that less goes to scratch. Of few columns, as
 * of the channels of an image, it has several lanes side by side, whose rows lie one behind the
 * other: else a block would be a warp with a line on its way. So rows are read once, in whole
 * lines, whatever else is computed of them on the way; gradients of norms need the whole row
 * for that. The second loop brings lanes together, a leaf and a few columns a round, the third
 * one leaves.
 *
 * Rejected: a leaf of 64 columns a round, as on CPUs. It makes a tenth of the blocks, and rows
 * would be read once for their statistics and once more for their sums. */
#include "ir/sched/lower.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/rows.h"

enum {
  LEAF = TS_LOWER_LEAF,
  WIDE = 1024, /* columns of a round */
  NARROW = 32, /* where lanes are brought together */
  LONG = 2048, /* rows from which on this is better than tiles of all rows */
  LEAVES = 64, /* of one column that are added up one by one */
  MOST_LEAVES = 1024,
  SIDE = 1024, /* elements of a round with lanes side by side */
  FEW_LEAVES = 2,
  MOST_SUMS = 16,
  MOST_FOLD = 4,
  VECTOR = 8, /* bytes of f32: blocks with more of the rows, 2 to 4% faster than wider ones */
};

/* A sum down the columns: output `out` of node `node` of the group. */
typedef struct Sum {
  int node, out;
  TsDtype d;
} Sum;

typedef struct Lanes {
  TsLower *l;
  Sum sum[MOST_SUMS];
  int nsum;
  int64_t rows, width, leaves, count; /* count: lanes of a leaf */
  int64_t fold;                       /* of which a round has so many */
  int64_t side;                       /* and so many side by side */
  TsTileVal lane, leaf;               /* scratch: rows of lanes and leaves, sum after sum */
} Lanes;

/* ---- which */
static bool adds(const TsNode *n) { return n->op == TS_OP_sum || n->op == TS_OP_mean; }

static bool has_norms(const TsLower *l) {
  for (int k = 0; k < l->g->nnode; k++)
    if (ts_sched_norm_grad(l->g->node[k])) return true;
  return false;
}

static bool collect(Lanes *p) {
  TsLower *l = p->l;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool norm = ts_sched_norm_grad(n) != 0, column = !norm && ts_sched_column(n);
    if (ts_access_again(l, n) || (column && !adds(n))) return false;
    for (int i = norm; (norm || column) && i < n->nout; i++) {
      if (p->nsum == MOST_SUMS) return false;
      TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
      p->sum[p->nsum++] = (Sum){.node = k, .out = i, .d = d};
      if (d != p->sum[0].d) return false;
    }
  }
  return true;
}

/* Lanes that are walked together: what they want is loaded at once. Norms wait for sums of
 * their own meanwhile, and loads and sums alone leave the most registers. */
static int64_t fold_of(const Lanes *p) {
  const TsLower *l = p->l;
  int64_t fold = MOST_FOLD;
  if (p->rows % LEAF || has_norms(l)) return 1;
  if (p->nsum > 1) return p->nsum <= MOST_FOLD && p->width * MOST_FOLD <= SIDE ? fold : 1;
  for (int k = 0; k < l->g->nnode; k++)
    if (!ts_sched_column(l->g->node[k]) && l->g->node[k]->op != TS_OP_cast) fold = 2;
  return fold;
}

/* Lanes that end with the same row. */
static int64_t side_of(const Lanes *p) {
  int64_t side = 1, lanes = p->count / p->fold;
  int64_t most = p->nsum > 1 ? SIDE / p->fold : SIDE; /* registers of all sums */
  if (has_norms(p->l)) return 1;
  while (2 * side * p->width <= most && lanes % (2 * side) == 0 && p->rows % (2 * side) == 0)
    side *= 2;
  return side;
}

static bool find(Lanes *p) {
  TsLower *l = p->l;
  if (l->space.naxis != 2 || !collect(p)) return false;
  int64_t most = p->nsum && p->sum[0].d == TS_DT_f64 ? 128 : 256;
  p->rows = l->space.axis[0], p->width = l->space.axis[1];
  p->leaves = (p->rows + LEAF - 1) / LEAF;
  p->count = p->rows < most ? p->rows : most;
  p->fold = fold_of(p);
  p->side = side_of(p);
  return p->leaves <= MOST_LEAVES;
}

bool ts_lanes_fit(TsLower *l, bool *must) {
  bool gpu = ts_target_gpu(l->s->target);
  Lanes p = {.l = l};
  *must = has_norms(l);
  return gpu && (*must || l->space.axis[0] >= LONG) && find(&p);
}

/* ---- the first loop */
static TsTileVal num(Lanes *p, int64_t i) { return ts_tile_index(&p->l->b, i); }

static TsTileVal op2(Lanes *p, int op, TsTileVal x, TsTileVal y) {
  return ts_tile_op2(&p->l->b, op, x, y);
}

static int64_t piece_of(const Lanes *p) {
  if (p->width <= WIDE || has_norms(p->l)) return p->width;
  for (int64_t n = WIDE; n >= WIDE / 4; n -= 128)
    if (p->width % n == 0) return n;
  return WIDE;
}

static TsTileVal scratch(Lanes *p, TsDtype d, int64_t rows) {
  TsTileType t = ts_tile_type(d, 2, (int64_t[]){rows, p->width});
  return ts_tile_alloc(&p->l->b, TS_SPACE_scratch, &t);
}

/* Rows of a lane of a leaf. */
static TsTileVal steps_of(Lanes *p, TsTileVal leaf, TsTileVal lane) {
  int64_t most = LEAF / p->count;
  if (p->rows % LEAF == 0) return num(p, most);
  TsTileVal left = op2(p, TS_OP_sub, num(p, p->rows + p->count - 1), lane);
  left = op2(p, TS_OP_sub, left, op2(p, TS_OP_mul, leaf, num(p, LEAF)));
  left = op2(p, TS_OP_floordiv, left, num(p, p->count));
  left = op2(p, TS_OP_maximum, left, num(p, 0));
  return op2(p, TS_OP_minimum, left, num(p, most));
}

static void forget(TsLower *l) {
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
}

static int put_norm(Lanes *p, const TsNode *n, TsTileVal *acc) {
  TsLower *l = p->l;
  TsRowCall c = {.b = &l->b, .node = n, .n = l->n};
  TsDtype own = (TsDtype)n->out[0].meta.dtype, d = ts_nodes_compute(own);
  for (int i = 0; i < n->nin; i++) {
    if (!n->in[i]) continue;
    TsTileVal x = ts_nodes_operand(l, n, n->in[i], i == 1 ? d : own);
    if (!x) return -1;
    c.in[i] = ts_nodes_spread(l, ts_tile_cast(&l->b, x, d), 1);
  }
  ts_norm_grad_row(&c, acc);
  l->made[ts_nodes_index(l, n) * TS_MAX_OUT] = ts_tile_cast(&l->b, c.out[0], own);
  return 0;
}

static int put_column(Lanes *p, const TsNode *n, TsTileVal *acc) {
  TsLower *l = p->l;
  TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
  TsTileVal x = ts_nodes_operand(l, n, n->in[0], d);
  if (!x) return -1;
  *acc = op2(p, TS_OP_add, *acc, ts_nodes_spread(l, x, p->side > 1 ? 2 : 1));
  return 0;
}

/* The nodes of one row; acc: by sum. */
static int put_row(Lanes *p, TsTileVal *acc) {
  TsLower *l = p->l;
  int s = 0;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool norm = ts_sched_norm_grad(n) != 0, column = !norm && ts_sched_column(n);
    if (!norm && !ts_access_full(l, ts_sched_at(n))) continue;
    l->b.line = ts_tile_place(l->k, ts_graph_where(n));
    int failed = norm     ? put_norm(p, n, acc + s)
                 : column ? put_column(p, n, acc + s)
                          : ts_nodes_put(l, n);
    if (failed) return -1;
    s += norm ? n->nout - 1 : column;
  }
  ts_nodes_store(l, true);
  return 0;
}

/* Loads what the same row of all lanes of a round wants, then does them one after the other. */
static int put_rows(Lanes *p, TsTileVal row, TsTileVal *acc) {
  TsLower *l = p->l;
  TsTileVal tile[MOST_FOLD][TS_SCHED_PARAMS], at[MOST_FOLD];
  for (int64_t u = 0; u < p->fold; u++) {
    at[u] = l->at[0] = u ? op2(p, TS_OP_add, row, num(p, u * p->count / p->fold)) : row;
    forget(l);
    for (int i = 0; i < l->naccess && p->fold > 1; i++)
      if (!l->access[i].written) ts_access_load(l, &l->access[i]);
    for (int i = 0; i < l->naccess; i++) tile[u][i] = l->access[i].tile;
  }
  for (int64_t u = 0; u < p->fold; u++) {
    l->at[0] = at[u];
    for (int i = 0; i < l->naccess; i++) l->access[i].tile = tile[u][i];
    if (put_row(p, acc + u * p->nsum)) return -1;
  }
  return 0;
}

/* What one row wants is on its way while the one before is worked on: norms wait for sums of a
 * row several times. */
static int ask(Lanes *p, TsTileVal row, TsTileVal *tile) {
  TsLower *l = p->l;
  int n = 0;
  l->at[0] = op2(p, TS_OP_minimum, row, num(p, p->rows - 1));
  forget(l);
  for (int i = 0; i < l->naccess; i++) {
    TsAccess *a = &l->access[i];
    if (!a->written && a->moves[0] && a->moves[1]) tile[n++] = ts_access_load(l, a);
  }
  return n;
}

static void have(Lanes *p, TsTileVal const *tile) {
  TsLower *l = p->l;
  forget(l);
  for (int i = 0, n = 0; i < l->naccess; i++) {
    TsAccess *a = &l->access[i];
    if (!a->written && a->moves[0] && a->moves[1]) a->tile = tile[n++];
  }
}

/* The rows of a lane. */
static int put_loop(Lanes *p, TsTileVal first, TsTileVal steps, TsTileVal *acc) {
  TsLower *l = p->l;
  TsTileBuild *b = &l->b;
  TsTileVal carry[MOST_SUMS + TS_SCHED_PARAMS];
  int n = p->nsum * (int)p->fold, nasked = has_norms(l) ? ask(p, first, carry + n) : 0;
  for (int i = 0; i < n; i++) carry[i] = acc[i];
  TsTileLoop rows = ts_tile_for(b, num(p, 0), steps, 1, false, n + nasked, carry);
  if (!rows.stmt) return ts_error_memory(l->err);
  TsTileVal row = op2(p, TS_OP_add, first, op2(p, TS_OP_mul, rows.i, num(p, p->count)));
  for (int i = 0; i < n; i++) carry[i] = rows.carry[i];
  if (nasked) {
    ask(p, op2(p, TS_OP_add, row, num(p, p->count)), carry + n);
    have(p, rows.carry + n);
    l->at[0] = row;
    if (put_row(p, carry)) return -1;
  } else if (put_rows(p, row, carry)) {
    return -1;
  }
  ts_tile_for_end(b, &rows, carry, carry);
  for (int i = 0; i < n; i++) acc[i] = carry[i];
  forget(l);
  return 0;
}

static TsTileVal mul(Lanes *p, TsTileVal x, int64_t n) {
  return n > 1 ? op2(p, TS_OP_mul, x, num(p, n)) : x;
}

/* The first row in scratch of round r, of a sum whose rows begin at `first`. */
static TsTileVal row_of(Lanes *p, TsTileVal r, int64_t first) {
  r = mul(p, r, p->side);
  return first ? op2(p, TS_OP_add, r, num(p, first)) : r;
}

static int put_lanes(Lanes *p) {
  TsLower *l = p->l;
  TsTileBuild *b = &l->b;
  TsTileVal acc[MOST_SUMS];
  int64_t n = piece_of(p), pieces = (p->width + n - 1) / n, lanes = p->count / p->fold;
  int64_t groups = lanes / p->side;
  TsTileAccess how = {.edge = p->width % n != 0};
  l->n = n;
  l->row = pieces == 1;
  TsTileLoop loop =
      ts_tile_for(b, num(p, 0), num(p, p->leaves * groups * pieces), 1, true, 0, NULL);
  TsTileVal r = loop.i, col = num(p, 0);
  if (pieces > 1) {
    col = op2(p, TS_OP_mul, op2(p, TS_OP_mod, r, num(p, pieces)), num(p, n));
    r = op2(p, TS_OP_floordiv, r, num(p, pieces));
  }
  TsTileVal leaf = op2(p, TS_OP_floordiv, r, num(p, groups));
  TsTileVal lane = mul(p, op2(p, TS_OP_mod, r, num(p, groups)), p->side);
  TsTileVal first = op2(p, TS_OP_add, op2(p, TS_OP_mul, leaf, num(p, LEAF)), lane);
  for (int i = 0; i < p->nsum * p->fold; i++) {
    TsTileType t = ts_nodes_type(l, p->sum[0].d, p->side > 1 ? 2 : 1);
    acc[i] = ts_tile_const(b, -0.0, &t);
  }
  l->at[1] = col;
  if (put_loop(p, first, steps_of(p, leaf, lane), acc)) return -1;
  for (int64_t h = p->fold / 2; h; h /= 2) /* halves of all lanes, then of half of them */
    for (int64_t i = 0; i < h * p->nsum; i++)
      acc[i] = op2(p, TS_OP_add, acc[i], acc[i + h * p->nsum]);
  for (int i = 0; i < p->nsum; i++)
    ts_tile_store(b, p->lane, (TsTileVal[]){row_of(p, r, i * p->leaves * lanes), col}, acc[i],
                  &how);
  ts_tile_for_end(b, &loop, NULL, NULL);
  return 0;
}

/* ---- what is left */
/* Leaves, pairwise; an unpaired one goes up as it is. */
static TsTileVal pairwise(Lanes *p, TsTileVal *x, int64_t n) {
  for (; n > 1; n = (n + 1) / 2) {
    for (int64_t i = 0; i < n / 2; i++) x[i] = op2(p, TS_OP_add, x[2 * i], x[2 * i + 1]);
    if (n % 2) x[n / 2] = x[n - 1];
  }
  return x[0];
}

/* n rows from `first` on, pairwise. */
static TsTileVal sum_rows(Lanes *p, TsTileVal from, TsTileVal first, int64_t n) {
  TsLower *l = p->l;
  TsTileAccess how = {.edge = p->width % l->n != 0};
  TsTileType line = ts_tile_vector(p->sum[0].d, l->n);
  TsTileVal x[LEAVES];
  for (int64_t k = 0; k < n; k++) {
    TsTileVal row = k ? op2(p, TS_OP_add, first, num(p, k)) : first;
    x[k] = ts_tile_load(&l->b, from, (TsTileVal[]){row, l->at[1]}, &line, &how);
  }
  return pairwise(p, x, n);
}

static void define(Lanes *p, const Sum *s, TsTileVal x) {
  TsLower *l = p->l;
  const TsNode *n = l->g->node[s->node];
  if (x && n->op == TS_OP_mean)
    x = op2(p, TS_OP_div, x, ts_tile_const(&l->b, (double)p->rows, &x->type));
  l->made[s->node * TS_MAX_OUT + s->out] =
      ts_tile_cast(&l->b, x, (TsDtype)n->out[s->out].meta.dtype);
}

/* Rounds of a few columns; the position along them, and what is left of the round. */
static TsTileLoop open_columns(Lanes *p, int64_t times, TsTileVal *rest) {
  TsLower *l = p->l;
  int64_t n = p->width < NARROW ? p->width : NARROW, pieces = (p->width + n - 1) / n;
  l->n = n;
  l->row = false;
  l->across = -1;
  forget(l);
  TsTileLoop loop = ts_tile_for(&l->b, num(p, 0), num(p, pieces * times), 1, true, 0, NULL);
  TsTileVal piece = times > 1 ? op2(p, TS_OP_mod, loop.i, num(p, pieces)) : loop.i;
  *rest = times > 1 ? op2(p, TS_OP_floordiv, loop.i, num(p, pieces)) : num(p, 0);
  l->at[0] = num(p, 0);
  l->at[1] = op2(p, TS_OP_mul, piece, num(p, n));
  return loop;
}

/* From lanes of the leaf of this number on, among those of all sums. */
static TsTileVal sum_lanes(Lanes *p, TsTileVal leaf) {
  TsLower *l = p->l;
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileAccess how = {.edge = p->width % l->n != 0};
  int64_t lanes = p->count / p->fold;
  TsTileType t = ts_tile_type(p->sum[0].d, 2, (int64_t[]){lanes, l->n});
  TsTileType line = ts_tile_vector(p->sum[0].d, l->n);
  TsTileVal at[2] = {op2(p, TS_OP_mul, leaf, num(p, lanes)), l->at[1]};
  TsTileVal x = ts_tile_load(&l->b, p->lane, at, &t, &how);
  return x ? ts_tile_emit1(&l->b, TS_TILE_sum, 1, &x, &axis, &line) : NULL;
}

/* Few leaves take less time one after the other than another launch does. */
static int put_few_leaves(Lanes *p) {
  TsTileVal zero, x[FEW_LEAVES];
  TsTileLoop loop = open_columns(p, 1, &zero);
  for (int i = 0; i < p->nsum; i++) {
    for (int64_t k = 0; k < p->leaves; k++) x[k] = sum_lanes(p, num(p, i * p->leaves + k));
    define(p, &p->sum[i], pairwise(p, x, p->leaves));
  }
  if (ts_nodes_put_ends(p->l)) return -1;
  ts_tile_for_end(&p->l->b, &loop, NULL, NULL);
  return 0;
}

/* Of more leaves than are added up in one piece of code: n at a time, of all sums `times` such
 * lots from leaf `begin` on, which become as many rows of `to` from row `at` on, of `all` a
 * sum. */
static void put_lots(Lanes *p, TsTileVal to, int64_t begin, int64_t n, int64_t times,
                     int64_t at, int64_t all) {
  TsLower *l = p->l;
  TsTileVal lot;
  if (!n || !times) return;
  TsTileLoop loop = open_columns(p, times * p->nsum, &lot);
  TsTileAccess how = {.edge = p->width % l->n != 0};
  TsTileVal sum = op2(p, TS_OP_floordiv, lot, num(p, times));
  lot = op2(p, TS_OP_mod, lot, num(p, times));
  TsTileVal first = op2(p, TS_OP_add, mul(p, sum, p->leaves), mul(p, lot, n));
  first = op2(p, TS_OP_add, first, num(p, begin));
  TsTileVal row = op2(p, TS_OP_add, op2(p, TS_OP_add, mul(p, sum, all), lot), num(p, at));
  ts_tile_store(&l->b, to, (TsTileVal[]){row, l->at[1]}, sum_rows(p, p->leaf, first, n), &how);
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
}

static int put_leaves(Lanes *p) {
  TsLower *l = p->l;
  TsTileVal leaf;
  if (p->leaves <= FEW_LEAVES) return put_few_leaves(p);
  TsTileLoop loop = open_columns(p, p->leaves * p->nsum, &leaf);
  TsTileAccess how = {.edge = p->width % l->n != 0};
  ts_tile_store(&l->b, p->leaf, (TsTileVal[]){leaf, l->at[1]}, sum_lanes(p, leaf), &how);
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  int64_t whole = p->leaves / LEAVES, rest = p->leaves % LEAVES, n = p->leaves;
  TsTileVal from = p->leaf;
  if (n > LEAVES) { /* a power of two at a time is how all are paired */
    n = whole + (rest > 0);
    from = scratch(p, p->sum[0].d, p->nsum * n);
    put_lots(p, from, 0, LEAVES, whole, 0, n);
    put_lots(p, from, whole * LEAVES, rest, rest > 0, whole, n);
  }
  loop = open_columns(p, 1, &leaf);
  for (int i = 0; i < p->nsum; i++) define(p, &p->sum[i], sum_rows(p, from, num(p, i * n), n));
  if (ts_nodes_put_ends(p->l)) return -1;
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}

int ts_lanes_put(TsLower *l) {
  Lanes p = {.l = l};
  if (!find(&p)) return ts_lower_refuse(l, "columns that are walked twice");
  bool several = p.side > 1;
  l->columns = false; /* tiles of a round have one axis, or lanes and columns */
  l->across = several ? 0 : -1;
  l->m = p.side;
  l->k->ntile = 1 + several;
  l->k->tile[0] = several ? p.side : piece_of(&p);
  l->k->tile[1] = piece_of(&p);
  if (!l->k->vector) l->k->vector = VECTOR;
  l->b = ts_tile_build(l->k);
  if (p.nsum) p.lane = scratch(&p, p.sum[0].d, p.nsum * p.leaves * p.count / p.fold);
  if (p.nsum && p.leaves > FEW_LEAVES) p.leaf = scratch(&p, p.sum[0].d, p.nsum * p.leaves);
  return put_lanes(&p) || (p.nsum && put_leaves(&p)) ? -1 : 0;
}
