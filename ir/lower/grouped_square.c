/* See ir/lower/grouped_square.h.
 *
 * A block is some rows of one group by some columns, or some of each of a group's matrix, in
 * stages of 64 bytes of k; what the next stage needs is loaded before a stage is multiplied. Rows
 * behind a group are the next one's: they are multiplied and dropped, or, along k, become -0 times
 * +0, which leaves any sum as it is. So sums are those of a product of the group's rows alone. */
#include "ir/lower/grouped_square.h"

#include "ir/lower/short.h"
#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/ragged.h"
#include "ir/tile/square.h"

typedef TsTileVal V;

enum {
  DEEP = 64, /* bytes of k of a stage */
  MOST = 64, /* rows, columns of a block, at most */
  THREADS = 256
};

typedef struct Make {
  const TsGroupedSquare *x;
  TsTileBuild b;
  V a, w, places, y;
  V group, row, col, from, end; /* of the block: in its operands, where its group ends */
  V last;                       /* behind k */
  int64_t step;
} Make;

int ts_grouped_square_rows(int64_t rows) {
  int n = TS_SQUARE;
  while (n < rows && n < MOST) n *= 2;
  return n;
}

static V plus(Make *m, V x, V y) { return ts_tile_op2(&m->b, TS_OP_add, x, y); }
static V splat(Make *m, const TsTileType *like, V x) { return ts_short_splat(&m->b, like, x); }

/* ---- parameters */
static void parameters(Make *m, TsTile *k) {
  const TsGroupedSquare *x = m->x;
  int64_t rows = ts_tile_size(k, "T"), places = ts_tile_size(k, "I");
  TsTileType ta = ts_tile_type(x->in, 2, (int64_t[]){rows, x->depth ? x->m : x->k});
  int64_t wide = x->transposed ? x->k : x->n, high = x->transposed ? x->n : x->k;
  TsTileType tw = x->depth ? ts_tile_type(x->in, 2, (int64_t[]){rows, x->n})
                           : ts_tile_type(x->in, 3, (int64_t[]){x->groups, high, wide});
  TsTileType tp = ts_tile_vector(TS_DT_i64, places);
  TsTileType ty = x->depth ? ts_tile_type(x->out, 3, (int64_t[]){x->groups, x->m, x->n})
                           : ts_tile_type(x->out, 2, (int64_t[]){rows, x->n});
  m->a = ts_tile_param(k, "x", &ta, false), m->w = ts_tile_param(k, "w", &tw, false);
  m->places = ts_tile_param(k, "places", &tp, false);
  m->y = ts_tile_param(k, "y", &ty, true);
}

/* ---- a stage */
typedef struct Stage {
  V a, w;
} Stage;

static V load(Make *m, V memory, const V *at, int64_t rows, int64_t cols, double fill) {
  TsTileType t = ts_tile_type(m->x->in, 2, (int64_t[]){rows, cols});
  TsTileAccess edge = {.edge = true, .fill = fill};
  return ts_tile_load(&m->b, memory, at, &t, &edge);
}

static Stage fetch(Make *m, V k) {
  const TsGroupedSquare *x = m->x;
  int64_t s = m->step;
  if (x->depth)
    return (Stage){load(m, m->a, (V[]){k, m->row}, s, x->rows, 0),
                   load(m, m->w, (V[]){k, m->col}, s, MOST, 0)};
  V a = load(m, m->a, (V[]){m->from, k}, x->rows, s, -0.0);
  if (x->transposed) return (Stage){a, load(m, m->w, (V[]){m->group, m->col, k}, MOST, s, 0)};
  return (Stage){a, load(m, m->w, (V[]){m->group, k, m->col}, s, MOST, 0)};
}

/* Of rows of k those that are the group's. */
static V own(Make *m, V v, V k, double behind) {
  TsTileBuild *b = &m->b;
  if (!v) return NULL;
  TsDtype d = m->x->factor, f = (TsDtype)ts_dtypes[d].compute;
  V i = plus(m, ts_short_iota(b, &v->type, 0), splat(m, &v->type, k));
  V in = ts_tile_op2(b, TS_OP_lt, i, splat(m, &v->type, m->last));
  TsTileType t = v->type;
  t.dtype = (uint8_t)f;
  V none = ts_short_number(b, &t, f, behind);
  v = ts_tile_op3(b, TS_OP_where, in, ts_tile_cast(b, v, f), none);
  return ts_tile_cast(b, v, d);
}

static V multiply(Make *m, const Stage *s, V k, V sums) {
  const TsGroupedSquare *x = m->x;
  TsAttr unit = {.type = TS_ATTR_str, .str = x->unit};
  V in[3] = {NULL, NULL, sums};
  if (x->depth) {
    in[0] = ts_tile_transposed(&m->b, own(m, s->a, k, -0.0));
    in[1] = own(m, s->w, k, 0);
  } else {
    in[0] = ts_tile_cast(&m->b, s->a, x->factor), in[1] = ts_tile_cast(&m->b, s->w, x->factor);
    if (x->transposed) in[1] = ts_tile_transposed(&m->b, in[1]);
  }
  return sums ? ts_tile_emit1(&m->b, TS_TILE_mma, 3, in, &unit, &sums->type) : NULL;
}

static V sums(Make *m, V first) {
  TsTileBuild *b = &m->b;
  TsDtype acc = m->x->in == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  TsTileType t = ts_tile_type(acc, 2, (int64_t[]){m->x->rows, MOST});
  Stage s = fetch(m, first);
  V out[3];
  TsTileLoop l = ts_tile_for(b, first, m->last, m->step, false, 3,
                             (V[]){ts_tile_const(b, 0, &t), s.a, s.w});
  if (!l.carry) return NULL;
  s = fetch(m, plus(m, l.i, ts_tile_index(b, m->step)));
  V y = multiply(m, &(Stage){l.carry[1], l.carry[2]}, l.i, l.carry[0]);
  ts_tile_for_end(b, &l, (V[]){y, s.a, s.w}, out);
  return ts_tile_cast(b, out[0], m->x->out);
}

static void store(Make *m, V y) {
  TsTileAccess edge = {.edge = true};
  V at[3] = {m->group, m->row, m->col};
  if (m->x->depth)
    ts_tile_store(&m->b, m->y, at, y, &edge);
  else
    ts_gpu_store_below(&m->b, m->y, m->row, m->col, m->end, y);
}

/* ---- blocks. Of rows of items, of which there may be fewer than places: those have no k. */
static void one_item(Make *m, V items, V item) {
  TsTileBuild *b = &m->b;
  m->row = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_row, item);
  m->end = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_end, item);
  m->group = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_group, item);
  m->from = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_from, item);
  V count = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_count, item),
    zero = ts_tile_index(b, 0);
  V is = ts_tile_op2(b, TS_OP_lt, item, count);
  m->last = ts_tile_op3(b, TS_OP_where, is, ts_tile_index(b, m->x->k), zero);
  m->end = ts_tile_op3(b, TS_OP_where, is, m->end, zero);
  store(m, sums(m, zero));
}

static void one_matrix(Make *m, V items, V group) {
  TsTileBuild *b = &m->b;
  V first = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_row, group);
  m->group = group;
  m->last = ts_gpu_place(b, m->places, items, TS_GPU_PLACE_end, group);
  store(m, sums(m, first));
}

TsTile *ts_grouped_square(const TsGroupedSquare *x) {
  TsTile *k = ts_tile_new(x->depth ? "grouped_weight_grad" : "grouped");
  if (!k) return NULL;
  Make m = {.x = x, .step = DEEP / ts_dtypes[x->factor].nbytes};
  int threads = x->rows / TS_SQUARE * (MOST / TS_SQUARE) * x->lanes;
  parameters(&m, k);
  k->threads = threads < THREADS ? threads : THREADS, k->stages = 2;
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  V zero = ts_tile_index(b, 0), items = ts_gpu_items(b, ts_short_dim(b, 1));
  int64_t rows = x->depth ? x->m : 1;
  TsTileLoop i = ts_tile_for(b, zero, items, 1, true, 0, NULL);
  TsTileLoop r = ts_tile_for(b, zero, ts_tile_index(b, rows), x->rows, true, 0, NULL);
  TsTileLoop c = ts_tile_for(b, zero, ts_tile_index(b, x->n), MOST, true, 0, NULL);
  m.row = r.i, m.col = c.i;
  (x->depth ? one_matrix : one_item)(&m, items, i.i);
  ts_tile_for_end(b, &c, NULL, NULL);
  ts_tile_for_end(b, &r, NULL, NULL);
  ts_tile_for_end(b, &i, NULL, NULL);
  return k;
}
