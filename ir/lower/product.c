/* Matrix products on matrix units. See ir/lower/row.h. */
#include "ir/lower/row.h"

#include <string.h>

#include "ir/graph/graph.h"
#include "ir/sched/product/product.h"
#include "ir/tile/gpu/product.h"
#include "ir/lower/transpose.h"

enum {
  LEAST_STAGES = 2,
  ALIGN = 16,   /* bytes that rows and addresses are multiples of */
  FEW = 16,     /* rows beside which B is all that moves */
  SOME = 64,    /* of a tile of a role */
  EPILOGUE = 2, /* the attribute of matmul */
};

typedef struct Problem {
  const TsNode *n;
  TsLayoutFn *layout;
  void *arg;
  int64_t rows, cols, k;
  bool transposed[2], batch;
  TsGpuOperandLayout operand[2]; /* all zero: one row behind the other */
  int64_t many[2];               /* of matrices */
  bool transposes[2];            /* a copy that lies along k comes first */
  int bytes; /* rows of A and B are multiples of these: 16, 8, 4, or fewer */
  bool bias, residual;
  int activation;
} Problem;

/* ---- how operands lie */
static void strides_of(const Problem *p, TsVal v, int64_t *stride) {
  ts_sched_strides(p->layout, p->arg, v, stride);
}

static bool row_major(const Problem *p, TsVal v) {
  return ts_sched_row_major(p->layout, p->arg, v);
}

/* ---- operands: rows that are apart, matrices that are apart in up to two ways */
static bool wide_rows(int64_t n, TsDtype d) {
  return n > 0 && n * ts_dtypes[d].nbytes % ALIGN == 0;
}

/* The last two axes: elements of a row are neighbours, or those of a column. */
static bool find_rows(Problem *p, int i, const int64_t *stride) {
  const TsMeta *m = &p->n->in[i]->meta;
  int64_t rows = m->dim[m->ndim - 2], cols = m->dim[m->ndim - 1];
  int64_t down = stride[m->ndim - 2], across = stride[m->ndim - 1];
  TsGpuOperandLayout *to = &p->operand[i];
  if (across == 1 || cols == 1) {
    p->transposed[i] = false;
    to->row = rows == 1 && down < cols ? cols : down;
    if (to->row >= cols && wide_rows(to->row, (TsDtype)m->dtype)) return true;
  }
  p->transposed[i] = true;
  to->row = cols == 1 && across < rows ? rows : across;
  return (down == 1 || rows == 1) && to->row >= rows && wide_rows(to->row, (TsDtype)m->dtype);
}

typedef struct Axes {
  int n;
  int64_t dim[TS_MAX_RANK], step[2][TS_MAX_RANK];
} Axes;

/* Axes of the result in front of its rows, as few as possible; an operand that has none of one
 * does not move. */
static Axes batch_axes(const Problem *p, int64_t stride[2][TS_MAX_RANK]) {
  const TsMeta *y = &p->n->out[0].meta;
  Axes a = {.n = 0};
  for (int i = 0; i + 2 < y->ndim; i++) {
    int64_t step[2] = {0, 0};
    if (y->dim[i] == 1) continue;
    for (int k = 0; k < 2; k++) {
      const TsMeta *m = &p->n->in[k]->meta;
      int own = i - (y->ndim - m->ndim);
      if (own >= 0 && m->dim[own] > 1) step[k] = stride[k][own];
    }
    int before = a.n - 1;
    bool joins = before >= 0 && a.step[0][before] == step[0] * y->dim[i] &&
                 a.step[1][before] == step[1] * y->dim[i];
    int at = joins ? before : a.n++;
    a.dim[at] = joins ? a.dim[at] * y->dim[i] : y->dim[i];
    a.step[0][at] = step[0], a.step[1][at] = step[1];
  }
  return a;
}

/* One B for all: matrices of A whose rows go on where those before end are one. */
static void join_rows(Problem *p, Axes *a) {
  int last = a->n - 1;
  if (last < 0 || p->transposed[0] || a->step[1][last]) return;
  if (p->rows > 1 && a->step[0][last] != p->operand[0].row * p->rows) return;
  if (p->rows == 1) p->operand[0].row = a->step[0][last];
  p->rows *= a->dim[last];
  a->n--;
}

static bool find_batch(Problem *p, const Axes *a) {
  p->batch = a->n > 0;
  p->many[0] = p->many[1] = 1;
  for (int i = 0; i < a->n && a->n < 3; i++) {
    int to = 2 - a->n + i;
    p->many[to] = a->dim[i];
    for (int k = 0; k < 2; k++) {
      int64_t step = p->operand[k].step[to] = a->step[k][i];
      if (step < 0 || step * ts_dtypes[p->n->in[k]->meta.dtype].nbytes % ALIGN) return false;
    }
  }
  return a->n < 3;
}

/* Rows one behind the other need no numbers in the kernel, which then serves all sizes. */
static void forget_rows(Problem *p) {
  int64_t cols[2] = {p->transposed[0] ? p->rows : p->k, p->transposed[1] ? p->k : p->cols};
  for (int i = 0; i < 2 && !p->batch; i++)
    if (p->operand[i].row == cols[i]) p->operand[i].row = 0;
}

static bool has_good_layout(Problem *p) {
  int64_t stride[2][TS_MAX_RANK];
  for (int i = 0; i < 2; i++) {
    strides_of(p, p->n->in[i], stride[i]);
    if (!find_rows(p, i, stride[i])) return false;
  }
  Axes a = batch_axes(p, stride);
  join_rows(p, &a);
  if (!wide_rows(p->operand[0].row, (TsDtype)p->n->in[0]->meta.dtype)) return false;
  if (!find_batch(p, &a)) return false;
  forget_rows(p);
  return true;
}

static bool is_transposed(const Problem *p, TsVal v) {
  int64_t stride[TS_MAX_RANK];
  strides_of(p, v, stride);
  return v->meta.ndim == 2 && stride[0] == 1 && stride[1] == v->meta.dim[0];
}

/* One matrix each, rows one behind the other, of any number of bytes. */
static bool is_plain(Problem *p, int i) {
  TsVal v = p->n->in[i];
  const TsMeta *m = &v->meta;
  p->transposed[i] = !row_major(p, v);
  if (p->transposed[i] && !is_transposed(p, v)) return false;
  int64_t n = m->dim[m->ndim - (p->transposed[i] ? 2 : 1)] * ts_dtypes[m->dtype].nbytes;
  while (p->bytes > 1 && n % p->bytes) p->bytes /= 2;
  return n > 0;
}

/* B is one matrix, and the rows of all matrices of A are one. */
static bool all_plain(Problem *p) {
  const TsMeta *a = &p->n->in[0]->meta, *b = &p->n->in[1]->meta;
  if (ts_meta_numel(b) != p->k * p->cols) return false;
  p->rows = ts_meta_numel(a) / p->k;
  return ts_meta_numel(&p->n->out[0].meta) == p->rows * p->cols && is_plain(p, 0) &&
         is_plain(p, 1);
}

/* ---- what it does */
static bool is_eight(TsDtype d) { return d == TS_DT_fp8_e4m3 || d == TS_DT_fp8_e5m2; }

static bool good_types(const TsNode *n) {
  TsDtype a = (TsDtype)n->in[0]->meta.dtype, y = (TsDtype)n->out[0].meta.dtype;
  if (n->in[1]->meta.dtype != a) return false;
  if (a == TS_DT_f32 || a == TS_DT_f64) return y == a;
  if (a == TS_DT_i8) return y == TS_DT_i32;
  if (is_eight(a)) return y == TS_DT_f32 || y == TS_DT_bf16 || y == TS_DT_f16;
  return (a == TS_DT_bf16 || a == TS_DT_f16) && (y == a || y == TS_DT_f32);
}

static bool find_sizes(Problem *p) {
  const TsMeta *a = &p->n->in[0]->meta, *b = &p->n->in[1]->meta;
  if (a->ndim < 2 || b->ndim < 2) return false;
  p->rows = a->dim[a->ndim - 2], p->k = a->dim[a->ndim - 1];
  p->cols = b->dim[b->ndim - 1];
  return p->k > 0 && p->rows > 0 && ts_meta_numel(&p->n->out[0].meta) > 0;
}

static bool is_word(const char *w, size_t n, const char *what) {
  return n == strlen(what) && !memcmp(w, what, n);
}

/* The kernel does bias, activation, residual in this order; words in another are not for it, nor
 * is silu of f64: it works on bits of 64, and whole numbers of kernels with roles have 32. */
static bool put_word(Problem *p, const char *w, size_t n) {
  bool late = p->activation || p->residual, wide = p->n->out[0].meta.dtype == TS_DT_f64;
  if (is_word(w, n, "bias") && !late && !p->bias) return (p->bias = true);
  if (is_word(w, n, "relu") && !late) return (p->activation = TS_OP_relu) != 0;
  if (is_word(w, n, "silu") && !late && !wide) return (p->activation = TS_OP_silu) != 0;
  /* Of 16 bits gelu has a short form, which comes with the rows behind a product. */
  bool single = p->n->in[0]->meta.dtype == TS_DT_f32;
  if (is_word(w, n, "gelu") && !late && single) return (p->activation = TS_OP_gelu_erf) != 0;
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

static bool along_k(const Problem *p) { return !p->transposed[0] && p->transposed[1]; }

static bool describe(Problem *p) {
  const TsNode *n = p->n;
  if (n->op != TS_OP_matmul || n->nin < 2 || !n->in[0] || !n->in[1]) return false;
  TsVal y = (TsVal)&n->out[0];
  if (!good_types(n) || !find_sizes(p) || !row_major(p, y)) return false;
  Problem plain = *p;
  p->bytes = plain.bytes = ALIGN;
  if (!has_good_layout(p)) *p = plain;
  if (!p->k || (!p->many[0] && !all_plain(p))) return false;
  return !is_eight((TsDtype)n->in[0]->meta.dtype) || along_k(p);
}

/* Matrices or rows that lie apart. */
static bool is_apart(const Problem *p) {
  return p->batch || p->operand[0].row || p->operand[1].row;
}

/* From here on both operands lie along k. */
static void transpose_first(Problem *p) {
  int64_t row = p->k * ts_dtypes[p->n->in[0]->meta.dtype].nbytes;
  p->transposes[0] = p->transposed[0], p->transposes[1] = !p->transposed[1];
  p->transposed[0] = false, p->transposed[1] = true;
  for (p->bytes = ALIGN; row % p->bytes;) p->bytes /= 2;
}

/* Units of 8 bits read nothing else, and of f32 it is twice as fast on that of sm_90a. */
static bool is_transposed_first(const Problem *p, bool roles, TsProfile profile) {
  TsDtype in = (TsDtype)p->n->in[0]->meta.dtype;
  int64_t row = p->k * ts_dtypes[in].nbytes;
  if (along_k(p) || is_apart(p)) return false;
  if (in == TS_DT_i8) return row % 4 == 0;
  return roles && in == TS_DT_f32 && profile == TS_PROFILE_fast && row % ALIGN == 0 &&
         wide_rows(p->cols, TS_DT_f32);
}

/* As the copy engine takes it. */
static bool in_whole_rows(const Problem *p) {
  return p->bytes == ALIGN && wide_rows(p->cols, (TsDtype)p->n->out[0].meta.dtype);
}

/* One matmul of the group, which others may follow. */
static const TsNode *product_of(const TsGroup *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == TS_OP_matmul) return g->node[i];
  return g->node[0];
}

static void put_sizes(const Problem *p, const TsGpuProduct *x, int nsm, TsSchedKernel *out) {
  int n = 3;
  out->dim[0] = p->rows, out->dim[1] = p->cols, out->dim[2] = p->k;
  for (int i = 0; i < 2 && p->batch; i++) out->dim[n++] = p->many[i];
  out->dim[n] = nsm > x->cluster ? nsm / x->cluster : 1;
}

/* One of the two kinds of kernels, with what follows: x of one that has roles, or w. */
typedef struct Chosen {
  TsGpuProduct *x;
  TsGpuWarpProduct *w;
  const TsGpuMachine *gpu;
} Chosen;

static TsTile *kernel_of(const Chosen *c, TsError *err) {
  return c->x ? ts_tile_gpu_product(c->x, err)
              : ts_tile_gpu_warp_product(c->w, c->gpu->target, err);
}

/* The product, and behind it what the block form of the group has. */
static bool with_rows(const Problem *p, const Chosen *c, const TsSched *s, const TsGroup *group,
                      TsSchedKernel *out, TsError *err) {
  TsGpuEpilogue f;
  TsSchedKernel block = {.tile = NULL};
  if (ts_sched_lower_product(s, group, p->layout, p->arg, &block, err)) return false;
  bool found = ts_gpu_epilogue_find(block.tile, &f);
  if (found) {
    if (c->x) ts_gpu_product_epilogue(c->x, &f, p->k);
    if (c->w) c->w->epilogue = &f, c->w->out = (TsDtype)f.to[0]->type.dtype;
    memset(out, 0, sizeof *out);
    out->tile = kernel_of(c, err);
    memcpy(out->value, block.value, sizeof out->value);
  }
  ts_tile_free(block.tile);
  return found && out->tile;
}

/* What was chosen for the group takes the place of what the model of times says: of tiles the
 * nearest that there is. */
static TsGpuProduct chosen(TsGpuProduct x, const TsSchedChoice *c) {
  TsGpuProduct y = x;
  int rows = c->rows ? c->rows : x.rows, cols = c->columns ? c->columns : x.cols;
  if (c->rows || c->columns) {
    ts_sched_gpu_tile(&rows, &cols);
    y = ts_gpu_product(x.in, x.out, x.transposed_a, x.transposed_b, rows, cols);
    y.cluster = rows == x.rows && cols == x.cols ? x.cluster : 1, y.limit = x.limit;
  }
  if (c->cluster) y.cluster = c->cluster;
  if (c->group) y.group = c->group;
  if (c->limit) y.limit = c->limit > 1 ? c->limit : 0;
  if (c->stages) y.most = c->stages < LEAST_STAGES ? LEAST_STAGES : c->stages;
  return y;
}

static void say_roles(const TsGpuProduct *x, TsSchedKernel *out) {
  out->told = true;
  out->took = (TsSchedChoice){.rows = x->rows,
                              .columns = x->cols,
                              .depth = x->depth,
                              .stages = x->stages,
                              .cluster = x->cluster,
                              .group = x->group,
                              .limit = x->limit ? x->limit : 1};
}

static void say_warps(const TsGpuWarpProduct *w, TsSchedKernel *out) {
  out->told = true;
  out->took = (TsSchedChoice){.rows = w->rows,
                              .columns = w->cols,
                              .depth = w->depth,
                              .stages = w->stages,
                              .group = w->group,
                              .cluster = -1,
                              .limit = -1};
}

static bool with_words(const Problem *p, const Chosen *c, TsSchedKernel *out, TsError *err) {
  int n = 2;
  if (c->x) c->x->bias = p->bias, c->x->residual = p->residual;
  if (c->x) c->x->activation = p->activation;
  if (c->x) ts_gpu_product_settle(c->x, p->k);
  if (c->w) c->w->bias = p->bias, c->w->residual = p->residual;
  if (c->w) c->w->activation = p->activation;
  memset(out, 0, sizeof *out);
  if (!(out->tile = kernel_of(c, err))) return false;
  out->value[0] = p->n->in[0], out->value[1] = p->n->in[1];
  if (p->bias) out->value[n++] = p->n->in[2];
  if (p->residual) out->value[n++] = p->n->in[3];
  out->value[n] = (TsVal)&p->n->out[0];
  return true;
}

static bool made(Problem *p, const Chosen *c, bool alone, const TsSched *s,
                 const TsGroup *group, TsSchedKernel *out, TsError *err) {
  TsDtype in = (TsDtype)p->n->in[0]->meta.dtype;
  bool half = ts_dtypes[in].nbytes <= 2 && in != TS_DT_i8;
  if (p->batch && (!alone || p->bias || p->residual)) return false;
  if (!alone) return half && with_rows(p, c, s, group, out, err);
  return with_words(p, c, out, err);
}

/* Products that read B and do little else go by warps, whose tiles can be so low and narrow that
 * all processors read: of tokens one by one. The unit adds up as that of roles does. */
static bool is_reading(const Problem *p, bool roles, TsProfile profile, int64_t nsm) {
  bool half = ts_dtypes[p->n->in[0]->meta.dtype].nbytes == 2;
  if (!roles || !half || profile == TS_PROFILE_strict || !along_k(p) || is_apart(p))
    return false;
  return p->rows <= FEW || (p->rows <= SOME && p->cols < 2 * SOME * nsm);
}

static int64_t tiles_of(const TsGpuWarpProduct *w, const Problem *p) {
  return (p->rows + w->rows - 1) / w->rows * ((p->cols + w->cols - 1) / w->cols);
}

/* Two columns are stored at a time by the unit. */
static bool by_warps(Problem *p, bool alone, const TsSched *s, const TsGroup *group,
                     TsGpuWarpUnit unit, bool reads, TsSchedKernel *out, TsError *err) {
  TsDtype in = (TsDtype)p->n->in[0]->meta.dtype, y = (TsDtype)p->n->out[0].meta.dtype;
  TsGpuMachine gpu;
  bool fits = p->bytes >= 4 && (unit == TS_GPU_UNIT_fma || p->cols % 2 == 0);
  if (!fits || !ts_lower_warps(s, (double)(p->rows * p->cols * p->k), &gpu)) return false;
  TsGpuWarpProduct w = ts_gpu_warp_product_for(in, y, unit, p->transposed[0], p->transposed[1],
                                               p->rows, p->cols, &gpu);
  if (reads) ts_gpu_warp_product_few(&w, p->rows, p->cols, &gpu);
  w.bytes = p->bytes;
  while (w.bytes > 4 && p->cols * ts_dtypes[y].nbytes % w.bytes) w.bytes /= 2;
  const TsSchedChoice *c = &group->choice;
  ts_gpu_warp_product_near(&w, c->rows, c->columns, c->stages, &gpu);
  if (c->group) w.group = c->group;
  w.bulk = reads && w.bytes == ALIGN;
  if (!made(p, &(Chosen){.w = &w, .gpu = &gpu}, alone, s, group, out, err)) return false;
  out->dim[0] = p->rows, out->dim[1] = p->cols, out->dim[2] = p->k;
  out->dim[3] = ts_gpu_warp_product_blocks(&w, &gpu);
  if (w.bulk && out->dim[3] > tiles_of(&w, p)) out->dim[3] = tiles_of(&w, p);
  say_warps(&w, out);
  return true;
}

/* What multiplies in this profile; false: in kernels with roles. */
static bool wants_warps(const Problem *p, bool roles, TsProfile profile, TsGpuWarpUnit *unit) {
  TsDtype in = (TsDtype)p->n->in[0]->meta.dtype;
  bool half = ts_dtypes[in].nbytes == 2, exact = half && profile == TS_PROFILE_strict;
  bool tf32 = in == TS_DT_f32 && profile == TS_PROFILE_fast;
  *unit = exact                    ? TS_GPU_UNIT_fma
          : half || in == TS_DT_i8 ? TS_GPU_UNIT_mma
          : tf32                   ? TS_GPU_UNIT_tf32
                                   : TS_GPU_UNIT_fma;
  if (is_eight(in)) return false;
  return !roles || exact || (tf32 && !along_k(p)) || !in_whole_rows(p);
}

/* Whether a node behind the product reads a matrix, which comes while the tile is there. */
static bool reads_matrix(const TsGroup *g, const TsNode *product) {
  const TsMeta *y = &product->out[0].meta;
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; g->node[i] != product && k < g->node[i]->nin; k++) {
      TsVal v = g->node[i]->in[k];
      bool own = false;
      for (int j = 0; v && j < g->nnode; j++) own = own || v->node == g->node[j];
      if (v && !own && ts_meta_same_shape(&v->meta, y)) return true;
    }
  return false;
}

static bool can_be_late(const Problem *p, const TsGroup *g) {
  bool light = !p->activation || p->activation == TS_OP_relu;
  return !p->batch && !p->residual && light && ts_dtypes[p->n->out[0].meta.dtype].nbytes == 2 &&
         !reads_matrix(g, p->n);
}

static bool multiply(Problem *p, const TsSched *s, const TsGroup *group, int nsm,
                     TsSchedKernel *out, TsError *err) {
  TsGpuWarpUnit unit;
  TsDtype in = (TsDtype)p->n->in[0]->meta.dtype, y = (TsDtype)p->n->out[0].meta.dtype;
  int64_t count = p->many[0] ? p->many[0] * p->many[1] : 1;
  bool alone = group->nnode == 1 && find_epilogue(p);
  if (in == TS_DT_i8 && !along_k(p)) return false;
  bool reads = is_reading(p, nsm > 0, s->profile, nsm);
  if (wants_warps(p, nsm > 0, s->profile, &unit) || reads)
    return !is_apart(p) && by_warps(p, alone, s, group, unit, reads, out, err);
  if (!nsm || !in_whole_rows(p) || (is_eight(in) && s->profile == TS_PROFILE_strict))
    return false;
  bool tf32 = unit == TS_GPU_UNIT_tf32;
  if (tf32 && is_apart(p)) return false;
  TsGpuProduct x = tf32 ? ts_gpu_product_tf32(p->rows, p->cols, p->k, nsm)
                        : ts_gpu_product_for(in, y, p->transposed[0], p->transposed[1], p->rows,
                                             p->cols, p->k, count, nsm, can_be_late(p, group));
  if (ts_dtypes[in].nbytes <= 2) x = chosen(x, &group->choice);
  x.batch = p->batch, x.a = p->operand[0], x.b = p->operand[1];
  if (!made(p, &(Chosen){.x = &x}, alone, s, group, out, err)) return false;
  put_sizes(p, &x, nsm, out);
  say_roles(&x, out);
  return true;
}

int ts_lower_product(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                     TsSchedKernel *out, TsError *err) {
  Problem p = {.n = product_of(group), .layout = layout, .arg = arg};
  if (!describe(&p)) return 0;
  int64_t count = p.many[0] ? p.many[0] * p.many[1] : 1;
  int nsm = ts_lower_roles(s, (double)(p.rows * p.cols * p.k * count));
  if (is_transposed_first(&p, nsm > 0, s->profile)) transpose_first(&p);
  if (!multiply(&p, s, group, nsm, out, err)) return ts_lower_refused(err);
  if (!p.transposes[0] && !p.transposes[1]) return 1;
  int64_t size[3] = {p.rows, p.cols, p.k};
  return (out->tile = ts_lower_transpose_first(out->tile, p.transposes, size, out->dim, err))
             ? 1
             : ts_lower_refused(err);
}
