/* Transforms on tensors: axes, conventions and dtypes around vm/fft/fft.h. */
#include "vm/core/exec.h"
#include "vm/fft/fft.h"
#include "vm/core/scratch.h"

static bool is_double(TsDtype d) { return ts_dtype_real(d) == TS_DT_f64; }

static int failure(TsCall *call, int code) {
  if (code == TS_FFT_no_memory) return ts_scratch_failed(call);
  TS_BUG("%s: wrong arguments of the transform", ts_op_info(call->op)->name);
}

/* One transform along `axis` of x into y, both in the types of the kind. */
static int transform(TsCall *call, int kind, bool inverse, int norm, int axis, int64_t n,
                     TsTensor *x, TsTensor *y) {
  int64_t dim[TS_MAX_RANK], xs[TS_MAX_RANK], ys[TS_MAX_RANK];
  TsFft f = {.kind = kind, .inverse = inverse, .n = n, .in_n = x->meta.dim[axis]};
  f.type = is_double(ts_tensor_dtype(x)) ? TS_FFT_f64 : TS_FFT_f32;
  for (int i = 0; i < x->meta.ndim; i++) {
    if (i == axis) continue;
    dim[f.nouter] = x->meta.dim[i];
    xs[f.nouter] = x->stride[i];
    ys[f.nouter++] = y->stride[i];
  }
  f.outer_dim = dim, f.in_outer_stride = xs, f.out_outer_stride = ys;
  f.in_stride = x->stride[axis], f.out_stride = y->stride[axis];
  if (!(f.in = ts_tensor_read(x)) || !(f.out = ts_tensor_write(y))) return -1;
  ts_fft_normalise(&f, norm);
  int code = ts_fft(&f, &call->ctx->k->fft);
  return code == TS_FFT_ok ? 0 : failure(call, code);
}

/* The type in which the input goes in: f32 or f64, complex where asked. */
static TsTensor *ready(TsCall *call, bool complex) {
  bool wide = is_double(ts_dtype_complex(call->compute));
  TsDtype d = wide ? TS_DT_f64 : TS_DT_f32;
  if (complex) d = ts_dtype_complex(d);
  TsTensor *x = call->in[0];
  return ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_tensor_cast(call->ctx, x, d);
}

/* Along one axis; a result of another dtype (16-bit cosine transforms) is made in
 * f32 and rounded once. */
static int along_axis(TsCall *call, int kind, bool inverse, bool complex_in) {
  TsTensor *x = ready(call, complex_in), *y = call->out[0], *wide = NULL;
  int nd = call->in[0]->meta.ndim,
      axis = (int)(call->attr[1].i < 0 ? call->attr[1].i + nd : call->attr[1].i);
  int64_t n = y->meta.dim[axis];
  if (!x) return -1;
  if (kind == TS_FFT_r2c)
    n = call->attr[0].type == TS_ATTR_int ? call->attr[0].i : x->meta.dim[axis];
  if (ts_tensor_numel(y) == 0) {
    ts_tensor_unref(x);
    return 0;
  }
  TsMeta m = y->meta;
  m.dtype = x->meta.dtype;
  bool narrow =
      ts_dtype_is(ts_tensor_dtype(y), TS_KIND_F) && ts_dtypes[y->meta.dtype].nbytes < 4;
  int failed = narrow && !(wide = ts_tensor_new(call->ctx, &m));
  if (!failed)
    failed = transform(call, kind, inverse, ts_fft_norm(call->attr[2].i), axis, n, x,
                       wide ? wide : y);
  if (!failed && wide) failed = ts_vm_assign(call->ctx, y, wide);
  ts_tensor_unref(x);
  ts_tensor_unref(wide);
  return failed ? -1 : 0;
}

int ts_exec_fft(TsCall *call) { return along_axis(call, TS_FFT_c2c, false, true); }
int ts_exec_ifft(TsCall *call) { return along_axis(call, TS_FFT_c2c, true, true); }
int ts_exec_rfft(TsCall *call) { return along_axis(call, TS_FFT_r2c, false, false); }
int ts_exec_irfft(TsCall *call) { return along_axis(call, TS_FFT_c2r, true, true); }
int ts_exec_dct(TsCall *call) { return along_axis(call, TS_FFT_dct2, false, false); }
int ts_exec_idct(TsCall *call) { return along_axis(call, TS_FFT_dct3, true, false); }

/* Several axes, the last one first; all but the first step work in place. */
static int along_axes(TsCall *call, bool inverse) {
  TsTensor *x = ready(call, true), *y = call->out[0];
  const TsAttr *axes = &call->attr[0];
  int nd = y->meta.ndim, norm = ts_fft_norm(call->attr[1].i);
  int count = axes->type == TS_ATTR_none ? nd : axes->n, failed = !x;
  bool done = false;
  for (int i = count; !failed && ts_tensor_numel(y) > 0 && i-- > 0;) {
    int axis = axes->type == TS_ATTR_none
                   ? i
                   : (int)(axes->ints[i] < 0 ? axes->ints[i] + nd : axes->ints[i]);
    failed =
        transform(call, TS_FFT_c2c, inverse, norm, axis, y->meta.dim[axis], done ? y : x, y);
    done = true;
  }
  if (!failed && !done && ts_tensor_numel(y) > 0) failed = ts_vm_assign(call->ctx, y, x);
  ts_tensor_unref(x);
  return failed ? -1 : 0;
}

int ts_exec_fft2(TsCall *call) { return along_axes(call, false); }
int ts_exec_ifft2(TsCall *call) { return along_axes(call, true); }
int ts_exec_fftn(TsCall *call) { return along_axes(call, false); }
int ts_exec_ifftn(TsCall *call) { return along_axes(call, true); }
