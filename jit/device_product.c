/* See jit/device_product.h. */
#include "jit/device_product.h"

#include <string.h>

#include "devices/cuda_api.h"
#include "ir/graph.h"
#include "ir/sched_product.h"
#include "ir/tile_gpu_product.h"

enum {
  UNIT = 16,         /* bytes that rows and addresses are multiples of */
  EPILOGUE = 2,      /* the attribute of matmul */
  SIM_BLOCKS = 2,    /* of a simulated device: that run at a time */
  SIM_WORK = 1 << 22 /* multiply-adds that the interpreter does in a wink */
};

typedef struct Problem {
  const TsNode *n;
  TsLayoutFn *layout;
  void *arg;
  int64_t rows, cols, k;
  bool turned[2];
  bool bias, residual;
  int activation;
} Problem;

/* ---- how operands lie */
static void strides_of(const Problem *p, TsVal v, int64_t *stride) {
  int64_t step = 1;
  if (p->layout && p->layout(p->arg, v, stride)) return;
  for (int i = v->meta.ndim; i-- > 0; step *= v->meta.dim[i]) stride[i] = step;
}

bool ts_device_row_major(TsLayoutFn *layout, void *arg, TsVal v) {
  Problem p = {.layout = layout, .arg = arg};
  int64_t stride[TS_MAX_RANK], step = 1;
  strides_of(&p, v, stride);
  for (int i = v->meta.ndim; i-- > 0; step *= v->meta.dim[i])
    if (v->meta.dim[i] > 1 && stride[i] != step) return false;
  return true;
}

static bool row_major(const Problem *p, TsVal v) {
  return ts_device_row_major(p->layout, p->arg, v);
}

/* Of a batch of A each row follows the one before, also across matrices; B is one matrix. */
static bool is_turned(const Problem *p, TsVal v) {
  const TsMeta *m = &v->meta;
  int64_t stride[TS_MAX_RANK], rows = m->dim[m->ndim - 2], cols = m->dim[m->ndim - 1];
  strides_of(p, v, stride);
  return ts_meta_numel(m) == rows * cols && stride[m->ndim - 2] == 1 &&
         (stride[m->ndim - 1] == rows || cols == 1);
}

static bool wide_rows(int64_t n, TsDtype d) {
  return n > 0 && n * ts_dtypes[d].nbytes % UNIT == 0;
}

static bool lies_well(Problem *p, int i) {
  TsVal v = p->n->in[i];
  const TsMeta *m = &v->meta;
  p->turned[i] = !row_major(p, v);
  if (p->turned[i] && !is_turned(p, v)) return false;
  return wide_rows(m->dim[m->ndim - (p->turned[i] ? 2 : 1)], (TsDtype)m->dtype);
}

/* ---- what it does */
static bool is_eight(TsDtype d) { return d == TS_DT_fp8_e4m3 || d == TS_DT_fp8_e5m2; }

static bool good_types(const TsNode *n) {
  TsDtype a = (TsDtype)n->in[0]->meta.dtype, y = (TsDtype)n->out[0].meta.dtype;
  if (n->in[1]->meta.dtype != a) return false;
  if (a == TS_DT_f32 || a == TS_DT_f64) return y == a;
  if (is_eight(a)) return y == TS_DT_f32 || y == TS_DT_bf16 || y == TS_DT_f16;
  return (a == TS_DT_bf16 || a == TS_DT_f16) && (y == a || y == TS_DT_f32);
}

static bool find_sizes(Problem *p) {
  const TsMeta *a = &p->n->in[0]->meta, *b = &p->n->in[1]->meta;
  if (a->ndim < 2 || b->ndim < 2) return false;
  p->k = a->dim[a->ndim - 1];
  p->cols = b->dim[b->ndim - 1];
  if (p->k < 1 || ts_meta_numel(b) != p->k * p->cols) return false;
  p->rows = ts_meta_numel(a) / p->k;
  return p->rows > 0 && ts_meta_numel(&p->n->out[0].meta) == p->rows * p->cols;
}

static bool is_word(const char *w, size_t n, const char *what) {
  return n == strlen(what) && !memcmp(w, what, n);
}

/* The kernel does bias, activation, residual in this order; words in another are not for it. */
static bool put_word(Problem *p, const char *w, size_t n) {
  bool late = p->activation || p->residual;
  if (is_word(w, n, "bias") && !late && !p->bias) return (p->bias = true);
  if (is_word(w, n, "relu") && !late) return (p->activation = TS_OP_relu) != 0;
  if (is_word(w, n, "silu") && !late) return (p->activation = TS_OP_silu) != 0;
  if (is_word(w, n, "residual") && !p->residual) return (p->residual = true);
  return is_word(w, n, "none");
}

static bool find_epilogue(Problem *p) {
  const TsNode *n = p->n;
  const TsAttr *words = &n->attr[EPILOGUE];
  TsVal bias = n->nin > 2 ? n->in[2] : NULL, more = n->nin > 3 ? n->in[3] : NULL;
  const TsMeta *y = &n->out[0].meta;
  if (words->type == TS_ATTR_str) {
    for (const char *w = words->str; *w; w += *w == '_') {
      size_t len = strcspn(w, "_");
      if (!put_word(p, w, len)) return false;
      w += len;
    }
  } else {
    p->bias = bias, p->residual = more;
  }
  if (p->bias && (!bias || bias->meta.ndim != 1 || bias->meta.dim[0] != p->cols ||
                  bias->meta.dtype != y->dtype || bias->meta.weak || !row_major(p, bias)))
    return false;
  return !p->residual || (more && ts_meta_same_shape(&more->meta, y) &&
                          more->meta.dtype == y->dtype && row_major(p, more));
}

static bool describe(Problem *p) {
  const TsNode *n = p->n;
  if (n->op != TS_OP_matmul || n->nin < 2 || !n->in[0] || !n->in[1]) return false;
  TsVal y = (TsVal)&n->out[0];
  if (!good_types(n) || !find_sizes(p) || !lies_well(p, 0) || !lies_well(p, 1)) return false;
  if (is_eight((TsDtype)n->in[0]->meta.dtype) && (p->turned[0] || !p->turned[1])) return false;
  return wide_rows(p->cols, (TsDtype)y->meta.dtype) && row_major(p, y);
}

/* ---- the device */
int ts_device_processors(TsDevice *d, bool small, TsError *err) {
  if (!strcmp(d->kind, "sim")) return small ? SIM_BLOCKS : 0;
  if (strcmp(d->kind, "cuda") || d->major != 9 || d->minor != 0) return 0;
  return ts_device_use(d, err) ? 0 : ((const TsCuda *)d->state)->sms;
}

/* One matmul of the group, which others may follow. */
static const TsNode *product_of(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == TS_OP_matmul) return g->node[i];
  return g->node[0];
}

static void put_sizes(const Problem *p, const TsGpuProduct *x, int nsm, TsSchedKernel *out) {
  out->dim[0] = p->rows, out->dim[1] = p->cols, out->dim[2] = p->k;
  out->dim[3] = nsm / x->cluster;
}

/* The product, and behind it what the block form of the group has. */
static bool with_rows(const Problem *p, TsGpuProduct *x, const TsSched *s, const TsGroup *group,
                      TsSchedKernel *out, TsError *err) {
  TsGpuFollow f;
  TsSchedKernel block = {.tile = NULL};
  if (ts_sched_lower_product(s, group, p->layout, p->arg, &block, err)) return false;
  bool found = ts_gpu_follow_find(block.tile, &f);
  if (found) {
    ts_gpu_product_follow(x, &f, p->k);
    memset(out, 0, sizeof *out);
    out->tile = ts_tile_gpu_product(x, err);
    memcpy(out->value, block.value, sizeof out->value);
  }
  ts_tile_free(block.tile);
  return found && out->tile;
}

bool ts_device_product(TsDevice *d, const TsSched *s, const TsGroup *group, bool strict,
                       TsLayoutFn *layout, void *arg, TsSchedKernel *out, TsError *err) {
  Problem p = {.n = product_of(group), .layout = layout, .arg = arg};
  if (!describe(&p)) return false;
  TsDtype in = (TsDtype)p.n->in[0]->meta.dtype, y = (TsDtype)p.n->out[0].meta.dtype;
  bool half = ts_dtypes[in].nbytes <= 2;
  if (strict && half) return false;
  int nsm = ts_device_processors(d, p.rows * p.cols * p.k <= SIM_WORK, err), n = 2;
  if (!nsm) return false;
  TsGpuProduct x =
      ts_gpu_product_for(in, y, p.turned[0], p.turned[1], p.rows, p.cols, p.k, nsm);
  if (group->nnode > 1 || !find_epilogue(&p)) {
    if (!half || !with_rows(&p, &x, s, group, out, err)) return false;
    put_sizes(&p, &x, nsm, out);
    return true;
  }
  x.bias = p.bias, x.residual = p.residual, x.activation = p.activation;
  memset(out, 0, sizeof *out);
  if (!(out->tile = ts_tile_gpu_product(&x, err))) return false;
  out->value[0] = p.n->in[0], out->value[1] = p.n->in[1];
  if (p.bias) out->value[n++] = p.n->in[2];
  if (p.residual) out->value[n++] = p.n->in[3];
  out->value[n] = (TsVal)&p.n->out[0];
  put_sizes(&p, &x, nsm, out);
  return true;
}
