/* The shape rule of attention over pages. */
#include "lib/infer.h"

enum { Q, K, V, TABLE, START, SINK, K_SCALE, V_SCALE, INPUTS };
enum { WINDOW, SCALE };

static const TsMeta *input(const TsInfer *inf, int i) {
  return i < inf->nin ? inf->in[i] : NULL;
}

static int refuse(const TsInfer *inf, int a, int b, const char *what) {
  char first[TS_META_TEXT], second[TS_META_TEXT];
  return ts_error_set(inf->err, TS_ERR_shape, "paged_attention: %s: %s and %s", what,
                      ts_meta_text(input(inf, a), first), ts_meta_text(input(inf, b), second));
}

static bool computes(int d) {
  return d == TS_DT_f16 || d == TS_DT_bf16 || d == TS_DT_f32 || d == TS_DT_f64;
}

static int check_types(const TsInfer *inf) {
  static const char *const name[] = {"q",     "k",    "v",       "table",
                                     "start", "sink", "k_scale", "v_scale"};
  for (int i = 0; i < INPUTS; i++) {
    const TsMeta *m = input(inf, i);
    if (!m) continue;
    bool index = i == TABLE || i == START, wide = i == K_SCALE || i == V_SCALE;
    bool fine = index    ? ts_dtype_is((TsDtype)m->dtype, TS_KIND_I | TS_KIND_U)
                : wide   ? m->dtype == TS_DT_f32
                : i == Q ? computes(m->dtype)
                         : ts_dtype_is((TsDtype)m->dtype, TS_KIND_F);
    char text[TS_META_TEXT];
    if (!fine)
      return ts_error_set(inf->err, TS_ERR_dtype, "paged_attention: %s is %s, and has to be %s",
                          name[i], ts_meta_text(m, text),
                          index    ? "whole numbers"
                          : wide   ? "f32"
                          : i == Q ? "f16, bf16, f32 or f64"
                                   : "of floats");
  }
  return 0;
}

static int check_pages(const TsInfer *inf) {
  const TsMeta *q = input(inf, Q), *k = input(inf, K), *v = input(inf, V);
  if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
    return refuse(inf, Q, K, "q [B,H,S,D], k and v [Hk,pages,P,D] have four axes");
  for (int i = 0; i < 3; i++)
    if (k->dim[i] != v->dim[i]) return refuse(inf, K, V, "pages of k and v differ");
  if (q->dim[3] != k->dim[3]) return refuse(inf, Q, K, "sizes of heads differ");
  if (k->dim[0] < 1 || q->dim[1] % k->dim[0]) return refuse(inf, Q, K, "heads do not fit");
  if (k->dim[1] < 1 || k->dim[2] < 1) return refuse(inf, K, V, "there is no page");
  for (int i = K_SCALE; i <= V_SCALE; i++) {
    const TsMeta *s = input(inf, i);
    bool fits = !s || s->ndim == 3;
    for (int a = 0; a < 3 && fits && s; a++) fits = s->dim[a] == k->dim[a];
    if (!fits) return refuse(inf, i, i == K_SCALE ? K : V, "a scale for each row");
  }
  return 0;
}

int ts_shape_rule_paged_attention(TsInfer *inf) {
  if (check_types(inf) || check_pages(inf)) return -1;
  const TsMeta *q = input(inf, Q), *table = input(inf, TABLE), *start = input(inf, START);
  const TsMeta *sink = input(inf, SINK);
  if (table->ndim != 2 || table->dim[0] != q->dim[0])
    return refuse(inf, TABLE, Q, "table has a row for each text");
  if (start->ndim != 1 || start->dim[0] != q->dim[0])
    return refuse(inf, START, Q, "start has a number for each text");
  if (sink && (sink->ndim != 1 || sink->dim[0] != q->dim[1]))
    return refuse(inf, SINK, Q, "sink has a number for each head");
  const TsAttr *window = &inf->attr[WINDOW];
  if (window->type == TS_ATTR_int && window->i < 1)
    return ts_error_set(inf->err, TS_ERR_value,
                        "paged_attention: option 'window' must be >= 1, not %lld",
                        (long long)window->i);
  TsMeta *m = &inf->out[0];
  uint8_t dtype = m->dtype;
  *m = *q;
  m->dtype = dtype, m->weak = 0, m->dim[3] = input(inf, V)->dim[3];
  inf->nout = 1;
  return 0;
}
