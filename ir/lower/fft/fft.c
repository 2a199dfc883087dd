/* fft .. ifftn, rfft, irfft on a device: a kernel for each form of a transform along one axis
 * (ir/lower/fft/tile.h), whose tables stay there. Several axes are several steps, the later ones in
 * place. */
#include "ir/lower/fft/fft.h"

#include <stdlib.h>

/* Batches of one kernel: what they choose does not change bits, only how many rows a block
 * takes. */
static int64_t about(int64_t batch) {
  int64_t n = 1;
  while (n < 32 && 2 * n <= batch) n *= 2;
  return n;
}

static void part(TsSteps *x, const TsFftForm *f, int64_t outer, int in, int out) {
  TsFftTile t = {.tile = NULL};
  int arg[TS_FFT_TABLES + 2] = {in}, table = 0;
  if (!x->failed && !ts_fft_tile(f, &t, x->err) && t.ntable)
    table = ts_steps_table(x, t.table, (int64_t)t.nbytes);
  for (int i = 0; i < t.ntable; i++) arg[1 + i] = ts_steps_from(x, table, (int64_t)t.offset[i]);
  arg[1 + t.ntable] = out;
  int64_t each = outer * f->inner;
  ts_steps_add(x, t.tile, arg, (int64_t[]){outer, each * t.in, each * t.to});
  free(t.table);
}

void ts_fft_step(TsSteps *x, TsFftForm f, TsStepsAxis a, int in, int out) {
  int64_t n = 0, size = f.type == TS_FFT_f64 ? 16 : 8;
  int parts[3], from = in, count;
  f.shared = x->s->target->shared_bytes;
  f.in_n = a.n, f.inner = a.inner, f.batch = about(a.outer);
  count = x->failed ? 0 : ts_fft_parts(&f, parts, &n, x->err);
  if (count <= 0) return part(x, &f, a.outer, in, out);
  for (int i = 0; i < count; i++) {
    int to = out;
    f.part = parts[i];
    /* Between parts lie the elements of Bluestein's, or the packed spectrum. */
    if (i + 1 < count)
      to = ts_steps_temp(x, a.outer * a.inner * size * (f.part == TS_FFT_there ? n : f.n / 2));
    part(x, &f, a.outer, from, to);
    from = to;
  }
}

/* ---- the operators */
typedef struct Job {
  TsSteps x;
  const TsNode *n;
  const TsMeta *in, *y;
  TsDtype real; /* in which it is done */
  bool reals;   /* the operand has no imaginary parts */
} Job;

static void along(Job *j, int kind, bool inverse, int norm, int64_t n, TsStepsAxis a, int in,
                  int out) {
  TsFftForm f = {.kind = kind, .inverse = inverse, .n = n};
  f.type = j->real == TS_DT_f64 ? TS_FFT_f64 : TS_FFT_f32;
  f.real = kind == TS_FFT_c2c && j->reals;
  f.scale = ts_fft_scale(kind, inverse, n, norm).scale;
  ts_fft_step(&j->x, f, a, in, out);
  j->reals = false;
}

static int operand(Job *j) {
  return ts_steps_in_as(&j->x, 0, NULL, j->reals ? j->real : (TsDtype)j->in->dtype);
}

/* The operand as n elements along the axis, zeros behind those that are there, in type d. */
static int padded(Job *j, TsStepsAxis *a, int64_t n, TsDtype d) {
  int64_t count = a->outer * n * a->inner, dim[3] = {a->outer, a->n < n ? a->n : n, a->inner};
  int parts = ts_dtype_is(d, TS_KIND_C) ? 2 : 1, each = j->reals ? parts : 1;
  TsDtype moves = j->reals ? j->real : d;
  TsStepsView from = {operand(j), moves, {a->n * a->inner, a->inner, 1}};
  TsStepsView to = {.dtype = moves, .stride = {n * a->inner * each, a->inner * each, each}};
  to.arg = ts_steps_temp(&j->x, count * ts_dtypes[d].nbytes);
  if (a->n < n || each > 1) ts_steps_fill(&j->x, to.arg, j->real, count * parts, 0);
  ts_steps_copy(&j->x, 3, dim, &to, &from);
  a->n = n;
  return to.arg;
}

static void one(Job *j, int kind, bool inverse) {
  const TsAttr *attr = j->n->attr;
  TsStepsAxis a = ts_steps_axis(j->in, attr[1].i);
  int64_t n = j->y->dim[a.at], half = n / 2 + 1;
  if (kind == TS_FFT_r2c) n = attr[0].type == TS_ATTR_int ? attr[0].i : a.n;
  bool spectrum = kind == TS_FFT_c2r && (j->reals || a.n != half);
  bool odd = kind == TS_FFT_r2c && n % 2 == 0 && a.n % 2;
  int in = spectrum ? padded(j, &a, half, ts_dtype_complex(j->real))
           : odd    ? padded(j, &a, n, j->real)
                    : operand(j);
  along(j, kind, inverse, ts_fft_norm(attr[2].i), n, a, in, ts_steps_out(&j->x, 0, NULL));
}

/* The last one first, as vm/exec/fft.c has them. */
static void several(Job *j, bool inverse) {
  const TsAttr *axes = &j->n->attr[0];
  bool all = axes->type == TS_ATTR_none;
  int in = operand(j), out = ts_steps_out(&j->x, 0, NULL);
  for (int i = all ? j->in->ndim : axes->n; i-- > 0; in = out) {
    TsStepsAxis a = ts_steps_axis(j->in, all ? i : axes->ints[i]);
    along(j, TS_FFT_c2c, inverse, ts_fft_norm(j->n->attr[1].i), a.n, a, in, out);
  }
}

static bool takes(const Job *j) {
  const TsAttr *axes = &j->n->attr[0];
  TsDtype d = (TsDtype)j->in->dtype;
  if (!j->y->ndim || !ts_meta_numel(j->y) || !ts_meta_numel(j->in)) return false;
  if (axes->type == TS_ATTR_ints && !axes->n) return false;
  if (j->reals) return !ts_dtype_in_blocks(d);
  return d == ts_dtype_complex(j->real);
}

int ts_lower_fft(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                 TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  Job j = {.n = n, .in = &n->in[0]->meta, .y = &n->out[0].meta};
  j.real = ts_dtype_real((TsDtype)j.y->dtype);
  j.reals = !ts_dtype_is((TsDtype)j.in->dtype, TS_KIND_C);
  if (!takes(&j)) return 0;
  ts_steps_begin(&j.x, sched, layout, arg, n, err);
  switch (n->op) {
  case TS_OP_fft:
  case TS_OP_ifft: one(&j, TS_FFT_c2c, n->op == TS_OP_ifft); break;
  case TS_OP_rfft: one(&j, TS_FFT_r2c, false); break;
  case TS_OP_irfft: one(&j, TS_FFT_c2r, true); break;
  default: several(&j, n->op == TS_OP_ifft2 || n->op == TS_OP_ifftn);
  }
  return ts_steps_end(&j.x, out);
}
