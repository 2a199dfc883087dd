/* Images around the kernels of a matrix unit: with room for the window around them, their
 * channels last, positions of a stride side by side. See jit/eager/family/conv_unit.h. */
#include "jit/eager/family/conv_unit.h"

enum { ALIGN = 16 };

void ts_conv_axis(TsConvView *v, int64_t dim, int64_t stride) {
  v->m.dim[v->m.ndim] = dim;
  v->stride[v->m.ndim++] = stride;
}

TsConvView ts_conv_view(const TsTensor *t) {
  TsConvView v = {.m = t->meta, .offset = t->offset};
  v.m.ndim = 0, v.m.weak = 0;
  return v;
}

static TsTensor *view(TsTensor *t, const TsConvView *v) {
  return ts_tensor_view(t, &v->m, v->stride, v->offset);
}

/* to takes from; both NULL after a failure. */
int ts_conv_move(const TsConvJob *j, TsTensor *to, const TsConvView *vt, TsTensor *from,
                 const TsConvView *vf) {
  TsTensor *y = view(to, vt), *x = y ? view(from, vf) : NULL;
  int failed = !x || ts_vm_assign(j->call->ctx, y, x) ? -1 : 0;
  ts_tensor_unref(x), ts_tensor_unref(y);
  return failed;
}

/* [batch, space.., channels] of an image tensor with either layout; size: of the space. */
TsConvView ts_conv_image_of(const TsConvJob *j, TsTensor *t, const int64_t size[3],
                            int64_t channels) {
  const TsConv *c = &j->u->c;
  TsConvView v = ts_conv_view(t);
  int first = j->u->last ? 1 : 2;
  ts_conv_axis(&v, c->batch, t->stride[0]);
  for (int a = 3 - c->nd; a < 3; a++)
    ts_conv_axis(&v, size[a], t->stride[first + a - (3 - c->nd)]);
  ts_conv_axis(&v, channels, t->stride[j->u->last ? 1 + c->nd : 1]);
  return v;
}

TsTensor *ts_conv_room(const TsConvJob *j, TsDtype d, int64_t n) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = 1, .device = (uint8_t)j->device, .dim = {n}};
  return ts_tensor_new(j->call->ctx, &m);
}

int ts_conv_zero(const TsConvJob *j, TsTensor *t) {
  TsTensor *none = ts_tensor_number(j->call->ctx, 0);
  int failed = !none || ts_vm_assign(j->call->ctx, t, none) ? -1 : 0;
  ts_tensor_unref(none);
  return failed;
}

/* ---- the image */
/* Strides of [batch, positions.., channels], row-major. */
TsConvView ts_conv_padded(const TsConvJob *j, TsTensor *t, const int64_t size[3],
                          int64_t channels) {
  const TsConv *c = &j->u->c;
  TsConvView v = ts_conv_view(t);
  int64_t all = channels, stride[3];
  for (int a = 3; a-- > 0; all *= size[a]) stride[a] = all;
  ts_conv_axis(&v, c->batch, all);
  for (int a = 3 - c->nd; a < 3; a++) ts_conv_axis(&v, size[a], stride[a]);
  ts_conv_axis(&v, channels, 1);
  return v;
}

bool ts_conv_lies_well(const TsTensor *t) { return t->contiguous && t->offset % ALIGN == 0; }

/* Whether the image is what the kernel reads. */
static bool is_ready(const TsConvJob *j) {
  const TsConv *c = &j->u->c;
  bool same = j->u->last && ts_conv_lies_well(j->u->x);
  for (int a = 0; a < 3; a++)
    same = same && c->stride[a] == 1 && !j->before[a] && c->in[a] == j->q[a];
  return same;
}

static int put_image(const TsConvJob *j, TsTensor *to) {
  const TsConv *c = &j->u->c;
  int64_t size[3], part[3], at = 0, step = j->channels;
  bool covered = true;
  for (int a = 3; a-- > 0;) {
    size[a] = j->q[a] * c->stride[a];
    part[a] = size[a] - j->before[a] < c->in[a] ? size[a] - j->before[a] : c->in[a];
    covered = covered && part[a] == size[a];
    at += j->before[a] * step;
    step *= size[a];
  }
  if (!covered && ts_conv_zero(j, to)) return -1;
  TsConvView vt = ts_conv_padded(j, to, size, j->channels),
             vf = ts_conv_image_of(j, j->u->x, part, j->channels);
  for (int i = 0; i < vt.m.ndim; i++) vt.m.dim[i] = vf.m.dim[i];
  vt.offset += at * ts_dtypes[to->meta.dtype].nbytes;
  return ts_conv_move(j, to, &vt, j->u->x, &vf);
}

/* Positions of a stride side by side. */
static TsTensor *phases(const TsConvJob *j, TsTensor *from) {
  const TsConv *c = &j->u->c;
  int64_t step = j->channels, in = j->channels, of[3], own[3], row;
  for (int a = 3; a-- > 0; step *= j->q[a] * c->stride[a]) of[a] = step;
  for (int a = 3; a-- > 0; in *= c->stride[a]) own[a] = in;
  TsTensor *to = ts_conv_room(j, (TsDtype)from->meta.dtype, ts_tensor_numel(from));
  if (!to) return NULL;
  TsConvView vt = ts_conv_view(to), vf = ts_conv_view(from);
  row = in;
  int64_t at[3];
  for (int a = 3; a-- > 0; row *= j->q[a]) at[a] = row;
  ts_conv_axis(&vt, c->batch, row), ts_conv_axis(&vf, c->batch, step);
  for (int a = 3 - c->nd; a < 3; a++) {
    ts_conv_axis(&vt, j->q[a], at[a]), ts_conv_axis(&vf, j->q[a], of[a] * c->stride[a]);
    if (c->stride[a] > 1)
      ts_conv_axis(&vt, c->stride[a], own[a]), ts_conv_axis(&vf, c->stride[a], of[a]);
  }
  ts_conv_axis(&vt, j->channels, 1), ts_conv_axis(&vf, j->channels, 1);
  if (!ts_conv_move(j, to, &vt, from, &vf)) return to;
  ts_tensor_unref(to);
  return NULL;
}

int ts_conv_make_image(TsConvJob *j) {
  const TsConv *c = &j->u->c;
  int64_t n = c->batch * j->channels;
  bool strided = false;
  if (is_ready(j)) return (j->a = ts_tensor_ref(j->u->x)) ? 0 : -1;
  for (int a = 0; a < 3; a++) n *= j->q[a] * c->stride[a], strided |= c->stride[a] > 1;
  if (!(j->a = ts_conv_room(j, ts_tensor_dtype(j->u->x), n)) || put_image(j, j->a)) return -1;
  if (!strided) return 0;
  TsTensor *t = phases(j, j->a);
  ts_tensor_unref(j->a);
  return (j->a = t) ? 0 : -1;
}
