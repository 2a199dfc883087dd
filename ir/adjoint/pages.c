/* Attention over pages is differentiated by its definition: pages are brought together, then it
 * is attention with a mask. */
#include "ir/adjoint/adjoint.h"

#include <math.h>

enum { Q, K, V, TABLE, START, SINK, K_SCALE, V_SCALE, INPUTS };
enum { WINDOW, SCALE };

typedef struct Texts {
  TsBuild *b;
  TsVal table;
  TsVal keys, first, low, end; /* positions: keys [T]; of texts [B,1]: query 0, of keys .. */
  int64_t batch, queries, count;
} Texts;

static TsVal column(TsBuild *b, TsVal x, int64_t n) {
  return ts_build_reshape(b, x, (int64_t[]){n, 1}, 2);
}

static TsVal upto(TsBuild *b, int64_t n) {
  return ts_build(b, TS_OP_arange, 0, NULL, TS_ATTRS({"start", ts_b_f((double)n)}), NULL);
}

/* Pages of texts in order, [B,Hk,T,D] in the type of q; zeros where no query looks. */
static TsVal together(const Texts *t, TsVal x, TsVal scale, TsDtype d) {
  TsBuild *b = t->b;
  TsMeta m = *b->meta(b, x);
  int64_t all = t->count * m.dim[2];
  TsVal y = ts_build(b, TS_OP_index_select, TS_IN(x, t->table), TS_ATTRS({"axis", ts_b_int(1)}),
                     NULL);
  if (scale) {
    TsVal s = ts_build(b, TS_OP_index_select, TS_IN(scale, t->table),
                       TS_ATTRS({"axis", ts_b_int(1)}), NULL);
    s = ts_build(b, TS_OP_unsqueeze, TS_IN(s), TS_ATTRS({"axis", ts_b_int(4)}), NULL);
    y = ts_build_mul(b, ts_build_cast(b, y, TS_DT_f32), s);
  }
  y = ts_build_cast(b, y, d);
  y = ts_build_reshape(b, y, (int64_t[]){m.dim[0], t->batch, all, m.dim[3]}, 4);
  y = ts_build_permute(b, y, (int64_t[]){1, 0, 2, 3}, 4);
  TsVal read = ts_build2(b, TS_OP_lt, t->keys, t->end);
  if (t->low)
    read = ts_build2(b, TS_OP_logical_and, read, ts_build2(b, TS_OP_gt, t->keys, t->low));
  read = ts_build_reshape(b, read, (int64_t[]){t->batch, 1, all, 1}, 4);
  return ts_build_where(b, read, y, ts_build_zeros_like(b, y));
}

/* Which keys queries see, bool [B,1,S,T]. */
static TsVal seen(const Texts *t, int64_t window) {
  TsBuild *b = t->b;
  TsVal rows = ts_build_add(b, t->first, upto(b, t->queries));
  rows = ts_build_reshape(b, rows, (int64_t[]){t->batch, 1, t->queries, 1}, 4);
  TsVal see = ts_build2(b, TS_OP_le, t->keys, rows);
  if (!window) return see;
  TsVal low = ts_build_sub(b, rows, b->number(b, (double)window));
  return ts_build2(b, TS_OP_logical_and, see, ts_build2(b, TS_OP_gt, t->keys, low));
}

static int definition(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal given[INPUTS] = {NULL};
  TsMeta meta[INPUTS];
  for (int i = 0; i < k->nin; i++)
    if ((given[i] = k->in[i])) meta[i] = *b->meta(b, given[i]);
  if (b->failed) return -1;
  const int64_t *q = meta[Q].dim;
  TsDtype d = (TsDtype)meta[Q].dtype;
  int64_t window = k->attr[WINDOW].type == TS_ATTR_int ? k->attr[WINDOW].i : 0;
  Texts t = {.b = b, .table = given[TABLE], .batch = q[0], .queries = q[2]};
  t.count = meta[TABLE].dim[1];
  t.keys = upto(b, t.count * meta[K].dim[2]);
  t.first = column(b, ts_build_cast(b, given[START], TS_DT_i64), q[0]);
  t.end = ts_build_add(b, t.first, b->number(b, (double)q[2]));
  if (window) t.low = ts_build_sub(b, t.first, b->number(b, (double)window));
  TsVal operand[5] = {given[Q], together(&t, given[K], given[K_SCALE], d),
                      together(&t, given[V], given[V_SCALE], d), seen(&t, window), given[SINK]};
  TsAttr scale = k->attr[SCALE];
  if (scale.type != TS_ATTR_f) scale = ts_b_f(1 / sqrt((double)(q[3] ? q[3] : 1)));
  TsVal y = ts_build(b, TS_OP_attention, given[SINK] ? 5 : 4, operand,
                     TS_ATTRS({"scale", scale}), NULL);
  return ts_compose_finish(k, y);
}

int ts_adjoint_paged_attention(TsAdjoint *a) { return ts_adjoint_by_definition(a, definition); }
