/* Attention over pages out of its parts: pages are brought together, then it is attention with
 * a mask. The function of calls that run at once reads them where they lie:
 * vm/exec/paged_attention.c. */
#include <math.h>

#include "ir/compose/compose.h"

enum { Q, K, V, TABLE, START, SINK, K_SCALE, V_SCALE, INPUTS };
enum { WINDOW, SCALE };

static int refuse(const TsMeta *const in[8], TsError *err, int a, int b, const char *what) {
  char first[TS_META_TEXT], second[TS_META_TEXT];
  return ts_error_set(err, TS_ERR_shape, "paged_attention: %s: %s and %s", what,
                      ts_meta_text(in[a], first), ts_meta_text(in[b], second));
}

static int check_types(const TsMeta *const in[8], TsError *err) {
  static const char *const name[] = {"q",     "k",    "v",       "table",
                                     "start", "sink", "k_scale", "v_scale"};
  for (int i = 0; i < INPUTS; i++) {
    if (!in[i]) continue;
    bool index = i == TABLE || i == START, wide = i == K_SCALE || i == V_SCALE;
    bool fine = index  ? ts_dtype_is((TsDtype)in[i]->dtype, TS_KIND_I | TS_KIND_U)
                : wide ? in[i]->dtype == TS_DT_f32
                       : ts_dtype_is((TsDtype)in[i]->dtype, TS_KIND_F);
    char text[TS_META_TEXT];
    if (!fine)
      return ts_error_set(err, TS_ERR_dtype, "paged_attention: %s is %s, and has to be %s",
                          name[i], ts_meta_text(in[i], text),
                          index  ? "whole numbers"
                          : wide ? "f32"
                                 : "of floats");
  }
  return 0;
}

static int check_pages(const TsMeta *const in[8], TsError *err) {
  const TsMeta *q = in[Q], *k = in[K], *v = in[V];
  if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
    return refuse(in, err, Q, K, "q [B,H,S,D], k and v [Hk,pages,P,D] have four axes");
  for (int i = 0; i < 3; i++)
    if (k->dim[i] != v->dim[i]) return refuse(in, err, K, V, "pages of k and v differ");
  if (q->dim[3] != k->dim[3]) return refuse(in, err, Q, K, "sizes of heads differ");
  if (k->dim[0] < 1 || q->dim[1] % k->dim[0]) return refuse(in, err, Q, K, "heads do not fit");
  if (k->dim[1] < 1 || k->dim[2] < 1) return refuse(in, err, K, V, "there is no page");
  for (int i = K_SCALE; i <= V_SCALE; i++) {
    bool fits = !in[i] || in[i]->ndim == 3;
    for (int a = 0; a < 3 && fits && in[i]; a++) fits = in[i]->dim[a] == k->dim[a];
    if (!fits) return refuse(in, err, i, i == K_SCALE ? K : V, "a scale for each row");
  }
  return 0;
}

int ts_paged_check(const TsMeta *const in[8], const TsAttr *attr, TsError *err) {
  if (check_types(in, err) || check_pages(in, err)) return -1;
  const TsMeta *q = in[Q], *table = in[TABLE], *start = in[START];
  if (table->ndim != 2 || table->dim[0] != q->dim[0])
    return refuse(in, err, TABLE, Q, "table has a row for each text");
  if (start->ndim != 1 || start->dim[0] != q->dim[0])
    return refuse(in, err, START, Q, "start has a number for each text");
  if (in[SINK] && (in[SINK]->ndim != 1 || in[SINK]->dim[0] != q->dim[1]))
    return refuse(in, err, SINK, Q, "sink has a number for each head");
  if (attr[WINDOW].type == TS_ATTR_int && attr[WINDOW].i < 1)
    return ts_error_set(err, TS_ERR_value, "paged_attention: window = %lld",
                        (long long)attr[WINDOW].i);
  return 0;
}

typedef struct Texts {
  TsBuild *b;
  TsVal table, keys, first, low,
      end; /* positions: keys [T]; of texts [B,1]: query 0, of keys .. */
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

int ts_compose_paged_attention(TsCompose *k) {
  TsBuild *b = k->b;
  const TsMeta *in[INPUTS] = {NULL};
  TsVal given[INPUTS] = {NULL};
  TsMeta meta[INPUTS];
  for (int i = 0; i < k->nin; i++)
    if ((given[i] = k->given[i])) meta[i] = *b->meta(b, given[i]), in[i] = &meta[i];
  if (b->failed || ts_paged_check(in, k->attr, b->err)) return b->failed = true, -1;
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
