/* The NaN trap. */
#include "vm/core/trap.h"

#include <stdio.h>

#include "lib/text.h"

static bool looks(const TsTensor *t) {
  return t && ts_dtype_is(ts_tensor_dtype(t), TS_KIND_F | TS_KIND_C) &&
         !ts_dtype_in_blocks(t->meta.dtype);
}

typedef enum Bad { FINE, INFINITE, NOT_A_NUMBER } Bad;

static Bad worse(Bad a, Bad b) { return a > b ? a : b; }
static Bad of_number(double v) { return v != v ? NOT_A_NUMBER : v - v != 0 ? INFINITE : FINE; }

static Bad at_index(TsTensor *t, int64_t k) {
  double part[2] = {0, 0};
  if (ts_dtype_is(ts_tensor_dtype(t), TS_KIND_C))
    ts_tensor_get_complex(t, k, part);
  else
    part[0] = ts_tensor_get(t, k);
  return worse(of_number(part[0]), of_number(part[1]));
}

/* Float types in a row, without a call for each element. */
static int64_t first_in_row(TsTensor *t, int64_t n) {
  const void *at = ts_tensor_read(t);
  int64_t k = 0;
  if (t->meta.dtype == TS_DT_f32)
    while (k < n && ((const float *)at)[k] - ((const float *)at)[k] == 0) k++;
  else
    while (k < n && ((const double *)at)[k] - ((const double *)at)[k] == 0) k++;
  return k < n ? k : -1;
}

static int64_t first_bad(TsTensor *t) {
  int64_t n = ts_tensor_numel(t);
  if (t->contiguous && (t->meta.dtype == TS_DT_f32 || t->meta.dtype == TS_DT_f64))
    return first_in_row(t, n);
  for (int64_t k = 0; k < n; k++)
    if (at_index(t, k)) return k;
  return -1;
}

static Bad worst_of(TsTensor *t) {
  Bad w = FINE;
  int64_t k = first_bad(t);
  for (int64_t n = ts_tensor_numel(t); k >= 0 && k < n && w != NOT_A_NUMBER; k++)
    w = worse(w, at_index(t, k));
  return w;
}

static void index_text(const TsMeta *m, int64_t at, char *text, size_t room) {
  int64_t index[TS_MAX_RANK];
  size_t n = 0;
  for (int i = m->ndim; i-- > 0; at /= m->dim[i]) index[i] = at % m->dim[i];
  n += (size_t)snprintf(text, room, "[");
  for (int i = 0; i < m->ndim && n < room; i++)
    n += (size_t)snprintf(text + n, room - n, "%s%lld", i ? "," : "", (long long)index[i]);
  if (n < room) snprintf(text + n, room - n, "]");
}

/* The input's bytes are the result's: what it was before is gone. */
static bool overwritten(const TsTensor *in, const TsTensor *out) {
  if (in->storage != out->storage) return false;
  if (!in->contiguous || !out->contiguous) return true;
  return in->offset < out->offset + ts_meta_nbytes(&out->meta) &&
         out->offset < in->offset + ts_meta_nbytes(&in->meta);
}

/* A NaN comes from a NaN, an infinity from an infinity or a NaN: where an input has one
 * that explains the result's, it did not begin here. */
static bool explained(int nin, TsTensor *const *in, const TsTensor *out, Bad bad) {
  for (int i = 0; i < nin; i++)
    if (looks(in[i]) && !overwritten(in[i], out) && worst_of(in[i]) >= bad) return true;
  return false;
}

/* Asked for: a mask filled with -inf. */
static bool wanted(const TsCall *call, const TsOpInfo *o, Bad bad) {
  for (int i = 0; call->attr && i < o->nattr; i++) {
    const TsAttr *a = &call->attr[i];
    if (a->type == TS_ATTR_f && of_number(a->f) >= bad) return true;
    for (int k = 0; a->type == TS_ATTR_floats && k < a->n; k++)
      if (of_number(a->floats[k]) >= bad) return true;
  }
  return false;
}

static int complain(TsContext *c, const char *name, TsTensor *t, int64_t at, Bad bad,
                    bool backward) {
  char index[200], type[TS_META_TEXT];
  while (at_index(t, at) != bad) at++;
  index_text(&t->meta, at, index, sizeof index);
  return ts_error_set(&c->err, TS_ERR_value,
                      "%s gives %s at %s of its result %s in the %s pass", name,
                      bad == INFINITE ? "infinity" : "NaN", index, ts_meta_text(&t->meta, type),
                      backward ? "backward" : "forward");
}

/* The first result that has one; where is its first element. */
static TsTensor *first_of(int nout, TsTensor *const *out, int64_t *at) {
  for (int i = 0; i < nout; i++)
    if (looks(out[i]) && (*at = first_bad(out[i])) >= 0) return out[i];
  return NULL;
}

int ts_trap_results(TsContext *c, const char *name, int nin, TsTensor *const *in, int nout,
                    TsTensor *const *out, bool backward) {
  int64_t at = -1;
  TsTensor *t = first_of(nout, out, &at);
  Bad bad = t ? worst_of(t) : FINE;
  if (!t || explained(nin, in, t, bad)) return 0;
  return complain(c, name, t, at, bad, backward);
}

int ts_trap_check(const TsCall *call, bool backward) {
  const TsOpInfo *o = ts_op_info(call->op);
  int64_t at = -1;
  if (o->cls == TS_CLASS_VIEW || call->nin == 0 || call->op == TS_OP_empty_like) return 0;
  TsTensor *t = first_of(call->nout, call->out, &at);
  Bad bad = t ? worst_of(t) : FINE;
  if (!t || wanted(call, o, bad) || explained(call->nin, call->in, t, bad)) return 0;
  return complain(call->ctx, o->name, t, at, bad, backward);
}
