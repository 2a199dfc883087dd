/* The loop of a group of columns of few rows for a GPU: a round is a piece of the columns,
 * whose rows are loaded one by one.
 *
 * The canonical sum of fewer rows than a leaf has lanes is a tree of halves: row l and row l +
 * h for h = w/2, w/4, .., 1. Here it is walked in depth, so that a branch of it is loaded
 * together and few sums wait for their other half: all in registers of the thread that has the
 * columns. */
#include "ir/sched/lower.h"
#include "ir/sched/norm_grad.h"
#include "ir/sched/rows.h"

enum {
  MOST = 64,         /* rows */
  MOST_SUMS = 4,     /* that are added up at a time */
  MOST_NODES = 8,    /* each of which is put for each row */
  MOST_STEPS = 1024, /* of all rows, for an element of the result: code grows with them */
  TOGETHER = 16,     /* rows that are loaded together, a power of two */
  BYTES = 2048,      /* of a row in a round: a vector of 16 bytes for each thread of a block */
};

typedef struct Few {
  TsLower *l;
  int node[MOST_SUMS], nsum; /* of the group */
  int64_t rows, width;
} Few;

static bool find(Few *p) {
  TsLower *l = p->l;
  if (l->space.naxis != 2 || l->g->nnode > MOST_NODES) return false;
  p->rows = l->space.axis[0], p->width = l->space.axis[1];
  if (p->rows > MOST || l->g->flops > MOST_STEPS * (double)p->width) return false;
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool column = ts_sched_column(n) != 0;
    if (ts_sched_norm_grad(n) || ts_access_again(l, n)) return false;
    if (column && n->op != TS_OP_sum && n->op != TS_OP_mean) return false;
    if (column && p->nsum == MOST_SUMS) return false;
    if (column) p->node[p->nsum++] = k;
  }
  return p->nsum > 0;
}

static TsTileVal num(Few *p, int64_t i) { return ts_tile_index(&p->l->b, i); }

static int64_t piece_of(const Few *p) {
  const TsLower *l = p->l;
  int64_t size = 4, n;
  for (int i = 0; i < l->naccess; i++)
    if (ts_dtypes[l->access[i].v->meta.dtype].nbytes < size)
      size = ts_dtypes[l->access[i].v->meta.dtype].nbytes;
  n = BYTES / (size < 2 ? 2 : size);
  return p->width < n ? p->width : n;
}

/* ---- rows */
static void load(Few *p, int64_t row, TsTileVal *tile) {
  TsLower *l = p->l;
  l->at[0] = num(p, row);
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  for (int i = 0; i < l->naccess; i++)
    if (!l->access[i].written) ts_access_load(l, &l->access[i]);
  for (int i = 0; i < l->naccess; i++) tile[i] = l->access[i].tile;
}

/* The nodes of one row, and what of it is added up. */
static int put_row(Few *p, int64_t row, TsTileVal const *tile, TsTileVal *sum) {
  TsLower *l = p->l;
  l->at[0] = num(p, row);
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = tile[i];
  for (int k = 0; k < l->g->nnode; k++) {
    const TsNode *n = l->g->node[k];
    bool column = ts_sched_column(n) != 0;
    if (!column && ts_access_full(l, ts_sched_at(n)) && ts_nodes_put(l, n)) return -1;
    if (!column) continue;
    l->b.line = ts_tile_place(l->k, ts_graph_where(n));
    TsDtype d = ts_nodes_compute((TsDtype)n->in[0]->meta.dtype);
    TsTileVal x = ts_nodes_operand(l, n, n->in[0], d);
    if (!x) return -1;
    *sum++ = ts_nodes_spread(l, x, 1);
  }
  ts_nodes_store(l, true);
  return 0;
}

/* Row `lane`, and those that are multiples of `step` behind it, w in all. */
static int put_branch(Few *p, int64_t lane, int64_t step, int64_t w,
                      TsTileVal (*tile)[TS_SCHED_PARAMS], TsTileVal *sum) {
  TsTileVal other[MOST_SUMS], rows[TOGETHER][TS_SCHED_PARAMS];
  if (w == TOGETHER || (!tile && w < TOGETHER)) {
    for (int64_t i = 0; i < w; i++)
      if (lane + step * i < p->rows) load(p, lane + step * i, rows[i]);
    tile = rows;
  }
  if (w == 1) return put_row(p, lane, tile[0], sum);
  TsTileVal part[TOGETHER / 2][TS_SCHED_PARAMS];
  for (int half = 0; half < 2; half++) {
    int64_t first = lane + half * step;
    if (first >= p->rows) break;
    for (int64_t i = 0; tile && i < w / 2; i++)
      for (int k = 0; k < TS_SCHED_PARAMS; k++) part[i][k] = tile[2 * i + half][k];
    if (put_branch(p, first, 2 * step, w / 2, tile ? part : NULL, half ? other : sum))
      return -1;
    for (int i = 0; half && i < p->nsum; i++)
      sum[i] = ts_tile_op2(&p->l->b, TS_OP_add, sum[i], other[i]);
  }
  return 0;
}

/* ---- the loop */
/* What follows from the sums, and storing it. */
static int put_ends(Few *p, TsTileVal const *sum) {
  TsLower *l = p->l;
  for (int i = 0; i < p->nsum; i++) {
    const TsNode *n = l->g->node[p->node[i]];
    TsTileVal x = sum[i];
    if (x && n->op == TS_OP_mean)
      x = ts_tile_op2(&l->b, TS_OP_div, x, ts_tile_const(&l->b, (double)p->rows, &x->type));
    l->made[p->node[i] * TS_MAX_OUT] = ts_tile_cast(&l->b, x, (TsDtype)n->out[0].meta.dtype);
  }
  l->at[0] = num(p, 0);
  for (int i = 0; i < l->naccess; i++) l->access[i].tile = NULL;
  return ts_nodes_put_ends(l);
}

bool ts_few_fit(TsLower *l) {
  Few p = {.l = l};
  return ts_target_gpu(l->s->target) && find(&p);
}

int ts_few_put(TsLower *l) {
  Few p = {.l = l};
  TsTileVal sum[MOST_SUMS];
  int64_t w = 1;
  if (!find(&p)) return ts_lower_refuse(l, "columns of many rows");
  while (w < p.rows) w *= 2;
  l->columns = l->row = false; /* tiles of a round have one axis */
  l->across = -1;
  l->n = piece_of(&p);
  l->k->ntile = 1;
  l->k->tile[0] = l->n;
  l->b = ts_tile_build(l->k);
  TsTileLoop loop = ts_tile_for(&l->b, num(&p, 0), num(&p, p.width), l->n, true, 0, NULL);
  l->at[1] = loop.i;
  if (put_branch(&p, 0, 1, w, NULL, sum) || put_ends(&p, sum)) return -1;
  ts_tile_for_end(&l->b, &loop, NULL, NULL);
  return 0;
}
