/* Random rows out of uniform numbers. */
#include <math.h>

#include "ir/compose/compose.h"

/* -log(1 - u), of which u = 0 gives 0. */
static TsVal unit_exponential(TsBuild *b, const TsAttr *shape, TsDtype d, const TsAttr *seed) {
  TsVal u = ts_build(b, TS_OP_uniform, 0, NULL,
                     TS_ATTRS({"shape", *shape}, {"dtype", ts_b_dtype(d)}, {"seed", seed[0]},
                              {"stream", seed[1]}),
                     NULL);
  return ts_build1(b, TS_OP_neg, ts_build1(b, TS_OP_log1p, ts_build1(b, TS_OP_neg, u)));
}

int ts_compose_exponential(TsCompose *k) {
  TsBuild *b = k->b;
  double rate = k->attr[1].f;
  TsDtype d = (TsDtype)k->attr[2].i;
  if (!(rate > 0)) return ts_build_fail(b, TS_ERR_value, "exponential: rate = %g", rate);
  if (!ts_dtype_is(d, TS_KIND_F))
    return ts_build_fail(b, TS_ERR_dtype, "exponential: makes floats, not %s",
                         ts_dtype_name(d));
  TsVal v = unit_exponential(b, &k->attr[0], (TsDtype)ts_dtypes[d].compute, &k->attr[3]);
  if (rate != 1) v = ts_build2(b, TS_OP_div, v, b->number(b, rate));
  k->out[0] = ts_build_cast(b, v, d);
  return b->failed ? -1 : 0;
}

/* Without replacement: the first to come of exponential waiting times with the weights as rates. */
int ts_compose_multinomial(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal w = k->in[0], out[2] = {NULL}, zero = b->number(b, 0);
  TsMeta m = *b->meta(b, w);
  int64_t count = k->attr[0].i;
  char text[TS_META_TEXT];
  if (m.ndim < 1 || count < 0 || (!k->attr[1].i && count > m.dim[m.ndim - 1]))
    return ts_build_fail(b, TS_ERR_value, "multinomial: %lld of %s", (long long)count,
                         ts_meta_text(&m, text));
  if (k->attr[1].i) {
    k->out[0] = ts_build(
        b, TS_OP_categorical, TS_IN(ts_build1(b, TS_OP_log, w)),
        TS_ATTRS({"count", ts_b_int(count)}, {"seed", k->attr[2]}, {"stream", k->attr[3]}),
        NULL);
    return b->failed ? -1 : 0;
  }
  TsAttr shape = ts_b_ints(m.dim, m.ndim);
  TsVal wait = unit_exponential(b, &shape, (TsDtype)ts_dtypes[m.dtype].compute, &k->attr[2]);
  TsVal some = ts_build2(b, TS_OP_gt, w, zero);
  w = ts_build(b, TS_OP_where, TS_IN(some, w, b->number(b, 1)), TS_NO_ATTRS, NULL);
  wait = ts_build(b, TS_OP_where,
                  TS_IN(some, ts_build2(b, TS_OP_div, wait, w), b->number(b, INFINITY)),
                  TS_NO_ATTRS, NULL);
  ts_build(b, TS_OP_topk, TS_IN(wait),
           TS_ATTRS({"k", ts_b_int(count)}, {"largest", ts_b_bool(false)}), out);
  k->out[0] = out[1];
  return b->failed ? -1 : 0;
}
