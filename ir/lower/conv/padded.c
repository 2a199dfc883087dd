/* Values with padding around them. See ir/lower/conv/conv.h. */
#include "ir/lower/conv/conv.h"

TsConvPadded ts_conv_padded(const TsMeta *m, int axis) {
  TsConvPadded r = {.order = ts_steps_last(m, axis), .ndim = m->ndim};
  for (int i = 0; i < m->ndim; i++) r.size[i] = r.part[i] = m->dim[r.order.at[i]];
  return r;
}

int64_t ts_conv_padded_numel(const TsConvPadded *r) {
  int64_t n = 1;
  for (int i = 0; i < r->ndim; i++) n *= r->size[i];
  return n;
}

static bool is_filled(const TsConvPadded *r) {
  for (int i = 0; i < r->ndim; i++)
    if (r->part[i] != r->size[i]) return false;
  return true;
}

/* Nothing but the value, all of it. */
static bool is_value(const TsConvPadded *r, const TsMeta *m) {
  for (int i = 0; i < r->ndim; i++)
    if (r->first[i] || r->size[i] != m->dim[r->order.at[i]]) return false;
  return is_filled(r);
}

/* The elements of the value, in the padded one and where it lies itself. */
static void copy(TsSteps *x, int arg, const TsConvPadded *r, const TsStepsView *value,
                 bool back) {
  TsStepsView padded = {.dtype = value->dtype}, own = *value;
  int64_t at = 0, step = 1;
  for (int i = r->ndim; i-- > 0; step *= r->size[i]) {
    own.stride[i] = value->stride[r->order.at[i]], padded.stride[i] = step;
    at += r->first[i] * step;
  }
  padded.arg = ts_steps_from(x, arg, at * ts_dtypes[padded.dtype].nbytes);
  ts_steps_copy(x, r->ndim, r->part, back ? &own : &padded, back ? &padded : &own);
}

int ts_conv_padded_in(TsSteps *x, int i, const TsConvPadded *r) {
  if (is_value(r, &x->n->in[i]->meta)) return ts_steps_in(x, i, &r->order);
  TsStepsView own = ts_steps_in_view(x, i);
  int64_t n = ts_conv_padded_numel(r);
  int arg = ts_steps_temp(x, n * ts_dtypes[own.dtype].nbytes);
  if (!is_filled(r)) ts_steps_fill(x, arg, own.dtype, n, 0);
  copy(x, arg, r, &own, false);
  return arg;
}

int ts_conv_padded_out(TsSteps *x, const TsConvPadded *r) {
  const TsMeta *m = &x->n->out[0].meta;
  if (is_value(r, m)) return ts_steps_out(x, 0, &r->order);
  return ts_steps_temp(x, ts_conv_padded_numel(r) * ts_dtypes[m->dtype].nbytes);
}

void ts_conv_padded_back(TsSteps *x, int arg, const TsConvPadded *r) {
  if (is_value(r, &x->n->out[0].meta)) return; /* brought there by the end */
  TsStepsView own = ts_steps_out_view(x, 0);
  copy(x, arg, r, &own, true);
}
