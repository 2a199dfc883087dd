/* csr_rows on a device: each entry looks, by halves, for the last row that begins at or before it. That
 * offsets go up from 0 to all entries is looked at before (vm/drive/guard.c); of others a row
 * is some row. */
#include "ir/lower/index/index.h"

typedef TsTileVal V;

enum { PIECE = 256 };

typedef struct Make {
  TsTileBuild b;
  TsTileType t; /* i64, of the round's entries */
  int64_t rows;
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V pick(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }
static V whole(Make *m, int64_t i) { return ts_short_int(&m->b, &m->t, i); }

/* How many rows behind the first begin at or before each entry. */
static V row_of(Make *m, V offsets, V entry) {
  V carry[2] = {whole(m, 0), whole(m, m->rows - 1)}, out[2] = {NULL, NULL};
  int64_t steps = 0;
  while (m->rows >> steps) steps++;
  TsTileLoop l = ts_tile_for(&m->b, ts_tile_index(&m->b, 0), ts_tile_index(&m->b, steps), 1,
                             false, 2, carry);
  if (!l.stmt || !entry) return NULL;
  V lo = l.carry[0], hi = l.carry[1];
  V half[2] = {op2(m, TS_OP_add, lo, hi), whole(m, 1)};
  V mid = ts_tile_emit1(&m->b, TS_TILE_shr, 2, half, NULL, &m->t);
  V next = ts_short_by(&m->b, TS_OP_add, mid, 1);
  V from = ts_tile_cast(&m->b, ts_short_gather(&m->b, offsets, next, true), TS_DT_i64);
  V before = op2(m, TS_OP_logical_and, op2(m, TS_OP_le, from, entry), op2(m, TS_OP_lt, lo, hi));
  carry[0] = pick(m, before, next, lo);
  carry[1] = pick(m, before, hi, mid);
  ts_tile_for_end(&m->b, &l, carry, out);
  return out[0];
}

/* Sizes: offsets, entries. */
static TsTile *build(TsDtype d, int64_t rows) {
  TsTile *k = ts_tile_new("csr_rows");
  if (!k) return NULL;
  int64_t ends = ts_tile_size(k, "ends"), n = ts_tile_size(k, "N");
  TsTileType to = ts_tile_vector(d, ends), ty = ts_tile_vector(TS_DT_i64, n);
  V offsets = ts_tile_param(k, "offsets", &to, false), y = ts_tile_param(k, "row", &ty, true);
  Make m = {.b = ts_tile_build(k), .t = ts_tile_vector(TS_DT_i64, PIECE), .rows = rows};
  k->threads = PIECE, k->vector = 4;
  V count = ts_short_dim(&m.b, 1);
  TsTileLoop l = ts_tile_for(&m.b, ts_tile_index(&m.b, 0), count, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V entry = ts_short_positions(&m.b, &m.t, l.i);
  ts_tile_store(&m.b, y, &l.i, row_of(&m, offsets, entry), &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

int ts_lower_csr_rows(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *offsets = &n->in[0]->meta;
  int64_t entries = n->attr[0].i, rows = offsets->dim[0] - 1;
  if (n->in[0]->node->op == TS_NODE_number || !ts_index_takes(offsets)) return 0;
  if (!entries || rows < 1 || rows >= INT32_MAX) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  ts_steps_guard(&x, 0);
  int list[2] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build((TsDtype)offsets->dtype, rows), list, (int64_t[]){rows + 1, entries});
  return ts_steps_end(&x, out);
}
