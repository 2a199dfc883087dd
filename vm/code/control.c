/* Control instructions. Functions get their operands as arguments; what a round of a loop
 * made is released when the next one has its values. */
#include "vm/code/control.h"

#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "ir/graph/control.h"
#include "ir/graph/custom.h"
#include "lib/mesh.h"
#include "vm/core/trap.h"

/* Random calls in a round draw from streams of their own, so that a backward round repeats
 * its forward one: from those outside, moved by a distance that the round and the number of
 * loops around it determine. Not a hash of the streams outside: backward() runs functions
 * again that began at another stream, and then all of them have to move alike. */
uint64_t ts_control_distance(int depth, int64_t round) {
  uint64_t z =
      0x9e3779b97f4a7c15u * (uint64_t)(round + 1) + 0xd1b54a32d192ed03u * (uint64_t)depth;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) >> 2 | 1ull << 62;
}

void ts_control_move_streams(TsContext *c, int64_t round) {
  c->stream_base += ts_control_distance(c->stream_depth++, round);
}

static int run_round(TsContext *c, int64_t round, TsFrame *f, TsTensor *const *in,
                     TsTensor **out) {
  uint64_t base = c->stream_base;
  ts_control_move_streams(c, round);
  int failed = ts_frame_run(f, in, out);
  c->stream_depth--;
  c->stream_base = base;
  return failed;
}

static void release(TsTensor **t, int n) {
  for (int i = 0; i < n; i++) ts_tensor_unref(t[i]);
}

/* The values after the last round; after none, copies of the operands, whose bytes are the
 * caller's to use again. */
static int give_carries(TsContext *c, int n, TsTensor **v, TsTensor *const *in, TsTensor **out,
                        int failed) {
  for (int k = 0; k < n; k++) {
    out[k] = failed ? NULL : v[k] != in[k] ? ts_tensor_ref(v[k]) : ts_tensor_copy(c, v[k]);
    if (!failed && !out[k]) failed = -1;
  }
  release(v, n);
  for (int k = 0; failed && k < n; k++) {
    ts_tensor_unref(out[k]);
    out[k] = NULL;
  }
  return failed;
}

/* A plan does not know how often: one round stands for all. */
static int plan_while(TsContext *c, const TsInstr *i, TsFrame *const *sub, TsTensor **v,
                      TsTensor **out) {
  const char *before = c->step_if;
  TsTensor *test = NULL;
  c->step_if = "in each round of a while_loop";
  int failed = run_round(c, 0, sub[i->sub], v, &test);
  ts_tensor_unref(test);
  failed = failed || run_round(c, 0, sub[i->sub + 1], v, out);
  c->step_if = before;
  return failed ? -1 : 0;
}

/* Inputs are the nout values that change, then what both functions also read. */
static int run_while(TsContext *c, const TsInstr *i, const TsCode *code, TsFrame *const *sub,
                     TsTensor *const *in, TsTensor **out) {
  int n = (int)i->nout, all = (int)i->nin;
  TsTensor **v = malloc(sizeof *v * (size_t)(all + n + 1)), *test = NULL;
  int failed = v ? 0 : ts_error_memory(&c->err);
  for (int k = 0; !failed && k < all; k++) v[k] = in[k];
  for (int k = 0; !failed && k < n; k++) ts_tensor_ref(v[k]);
  TsTensor **next = v + all;
  int64_t most = code->attr[i->attr].type == TS_ATTR_int ? code->attr[i->attr].i : INT64_MAX;
  for (int64_t t = 0; !failed && t < most && !(failed = run_round(c, t, sub[i->sub], v, &test));
       t++) {
    if (c->planning && ts_tensor_is_planned(test)) {
      ts_tensor_unref(test);
      failed = plan_while(c, i, sub, v, next);
      if (!failed) release(v, n), memcpy(v, next, sizeof *v * (size_t)n);
      break;
    }
    bool more = ts_tensor_get_int(test, 0) != 0;
    ts_tensor_unref(test);
    if (!more) break;
    if (ts_cpu_interrupted())
      failed = ts_error_set(&c->err, TS_ERR_interrupt, "while_loop: interrupted");
    if (!failed && !(failed = run_round(c, t, sub[i->sub + 1], v, next))) {
      release(v, n);
      memcpy(v, next, sizeof *v * (size_t)n);
    }
  }
  if (v) failed = give_carries(c, n, v, in, out, failed);
  free(v);
  return failed ? -1 : 0;
}

/* ---- scan */
static TsTensor *slice_of(TsContext *c, TsTensor *x, int64_t at) {
  TsMeta m = x->meta;
  TsAttr a[] = {ts_attr_int(0), ts_attr_int(at)};
  if (m.device == TS_DEVICE_MESH) return ts_vm_call1(c, TS_OP_select, 1, &x, a);
  m.ndim--;
  memmove(m.dim, m.dim + 1, sizeof *m.dim * m.ndim);
  return ts_tensor_view(x, &m, x->stride + 1,
                        x->offset + ts_dtype_nbytes(ts_tensor_dtype(x), at * x->stride[0]));
}

typedef struct Scan {
  TsContext *c;
  int ncarry, nslice, nin, nout;
  int64_t length;
  bool plans; /* types alone */
  TsTensor **v, **made, **out;
} Scan;

/* What all rounds give of which one gives this. */
static TsTensor *rows_planned(const Scan *s, TsTensor *row) {
  int64_t dim[TS_MAX_RANK];
  dim[0] = s->length;
  for (int d = 0; d < row->meta.ndim; d++) dim[d + 1] = row->meta.dim[d];
  TsAttr shape = ts_attr_ints(dim, row->meta.ndim + 1);
  return ts_vm_call1(s->c, TS_OP_broadcast_to, 1, &row, &shape);
}

/* One round: slices in, results into row `at` of the stacked outputs. */
static int round_of(Scan *s, TsFrame *body, TsTensor *const *row, int64_t at) {
  int failed = 0;
  for (int k = 0; k < s->nslice; k++) s->v[s->ncarry + k] = NULL;
  for (int k = 0; k < s->nslice && !failed; k++)
    failed = !(s->v[s->ncarry + k] = slice_of(s->c, row[k], at));
  if (!failed) failed = run_round(s->c, at, body, s->v, s->made);
  for (int k = 0; k < s->nslice; k++) ts_tensor_unref(s->v[s->ncarry + k]);
  if (failed) return -1;
  for (int k = 0; k < s->ncarry; k++) {
    ts_tensor_unref(s->v[k]);
    s->v[k] = s->made[k];
  }
  for (int k = s->ncarry; k < s->nout && s->plans; k++) {
    ts_tensor_unref(s->out[k]);
    s->out[k] = rows_planned(s, s->made[k]);
    failed |= !s->out[k];
    ts_tensor_unref(s->made[k]);
  }
  for (int k = s->ncarry; k < s->nout && !s->plans; k++) {
    TsTensor *to = failed ? NULL : slice_of(s->c, s->out[k], at);
    failed = failed || !to || ts_vm_assign(s->c, to, s->made[k]);
    ts_tensor_unref(to);
    ts_tensor_unref(s->made[k]);
  }
  return failed ? -1 : 0;
}

/* For what rounds give, on one device, whatever their values lie on. */
static TsTensor *rows_of(TsContext *c, const TsMeta *of) {
  TsMeta m = *of;
  m.layout = 0;
  if (m.device == TS_DEVICE_MESH) m.device = 0;
  return ts_tensor_new(c, &m);
}

/* Rounds take slices of all devices' rows: so these come together once, and not in each round. */
static TsTensor *whole_rows(TsContext *c, TsTensor *x) {
  const TsLayout *l = ts_layout_of(&x->meta);
  char spec[TS_SPEC_TEXT];
  if (x->meta.device != TS_DEVICE_MESH || !l || !l->naxis[0] || l->partial)
    return ts_tensor_ref(x);
  TsLayout whole = *l;
  whole.naxis[0] = 0, whole.block[0] = 0;
  const TsLayout *to = ts_layout_make(&whole, &c->err);
  TsAttr a = ts_b_str(to ? ts_layout_spec(to, spec) : "");
  return to ? ts_vm_call1(c, TS_OP_reshard, 1, &x, &a) : NULL;
}

static int run_scan(TsContext *c, const TsInstr *i, const TsCode *code, TsFrame *const *sub,
                    TsTensor *const *in, TsTensor **out) {
  const TsAttr *a = code->attr + i->attr;
  Scan s = {.c = c,
            .ncarry = (int)a[TS_SCAN_carry].i,
            .nslice = (int)a[TS_SCAN_xs].i,
            .nin = (int)i->nin,
            .nout = (int)i->nout,
            .out = out};
  bool reverse = a[TS_SCAN_reverse].i != 0;
  s.length =
      a[TS_SCAN_length].type == TS_ATTR_int ? a[TS_SCAN_length].i : in[s.ncarry]->meta.dim[0];
  s.v = calloc((size_t)(s.nin + s.nout) + 1, sizeof *s.v);
  if (!s.v) return ts_error_memory(&c->err);
  s.made = s.v + s.nin;
  int failed = 0;
  TsTensor **row = calloc((size_t)s.nslice + 1, sizeof *row);
  if (!row) failed = ts_error_memory(&c->err);
  for (int k = 0; k < s.nslice && !failed; k++)
    failed = !(row[k] = whole_rows(c, in[s.ncarry + k]));
  for (int k = 0; k < s.ncarry; k++) s.v[k] = ts_tensor_ref(in[k]);
  for (int k = s.ncarry + s.nslice; k < s.nin; k++) s.v[k] = in[k];
  for (int k = s.ncarry; k < s.nout; k++) out[k] = NULL;
  for (int k = s.ncarry; k < s.nout && !failed; k++)
    failed =
        !(out[k] = rows_of(c, &code->reg[code->operand[i->at + i->nin + (uint32_t)k]].meta));
  int64_t times = c->step_times;
  s.plans = c->planning;
  for (int64_t t = 0; t < s.length && !failed; t++) {
    if (s.plans && t > 1) break; /* the second round stands for all behind it */
    if (s.plans && t == 1) c->step_times = (times ? times : 1) * (s.length - 1);
    failed = round_of(&s, sub[i->sub], row, reverse ? s.length - 1 - t : t);
    if (ts_cpu_interrupted() && !failed)
      failed = ts_error_set(&c->err, TS_ERR_interrupt, "scan: interrupted");
  }
  c->step_times = times;
  for (int k = 0; row && k < s.nslice; k++) ts_tensor_unref(row[k]);
  free(row);
  failed = give_carries(c, s.ncarry, s.v, in, out, failed);
  for (int k = s.ncarry; failed && k < s.nout; k++) ts_tensor_unref(out[k]);
  free(s.v);
  return failed ? -1 : 0;
}

/* ---- fixed point: attributes tol, max; the first input moves */
static double distance(TsTensor *a, TsTensor *b) {
  double most = 0;
  for (int64_t k = 0, n = ts_tensor_numel(a); k < n; k++) {
    double d = ts_tensor_get(a, k) - ts_tensor_get(b, k);
    if (!(d <= most && d >= -most)) most = d < 0 ? -d : d;
  }
  return most;
}

static int run_fixed_point(TsContext *c, const TsInstr *i, const TsCode *code,
                           TsFrame *const *sub, TsTensor *const *in, TsTensor **out) {
  const TsAttr *a = code->attr + i->attr;
  TsTensor **v = malloc(sizeof *v * (i->nin + 1)), *next = NULL;
  if (!v) return ts_error_memory(&c->err);
  memcpy(v, in, sizeof *v * i->nin);
  ts_tensor_ref(v[0]);
  int failed = 0;
  for (int64_t t = 0; !failed; t++) {
    if (t == a[1].i)
      failed = ts_error_set(&c->err, TS_ERR_value, "fixed_point: not found in %lld rounds",
                            (long long)t);
    else if (!(failed = ts_frame_run(sub[i->sub], v, &next))) {
      double d = distance(v[0], next);
      ts_tensor_unref(v[0]);
      v[0] = next;
      if (d <= a[0].f) break;
      if (d != d)
        failed =
            ts_error_set(&c->err, TS_ERR_value, "fixed_point: a value is NaN after %lld rounds",
                         (long long)t + 1);
      if (ts_cpu_interrupted())
        failed = ts_error_set(&c->err, TS_ERR_interrupt, "fixed_point: interrupted");
    }
  }
  if (failed)
    ts_tensor_unref(v[0]);
  else
    out[0] = v[0];
  free(v);
  return failed ? -1 : 0;
}

/* ---- functions from outside */
const char *ts_control_custom_name(const struct TsCustom *f) { return f ? f->name : "custom"; }

int ts_control_custom(TsContext *c, struct TsCustom *f, int nin, TsTensor *const *in, int nout,
                      const TsMeta *const *type, TsTensor **out, bool backward) {
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (!f || !f->run)
    return ts_error_set(&c->err, TS_ERR_value, "%s: nobody knows what it calls",
                        ts_control_custom_name(f));
  if (f->run(f, c, nin, in, nout, type, out)) return -1;
  int failed = 0;
  for (int k = 0; k < nout && !failed; k++)
    if (out[k]->meta.dtype != type[k]->dtype || !ts_meta_same_shape(&out[k]->meta, type[k]))
      failed = ts_error_set(&c->err, TS_ERR_shape,
                            "%s: result %d is %s, not %s as it was inferred", f->name, k + 1,
                            ts_meta_text(&out[k]->meta, a), ts_meta_text(type[k], b)),
      ts_error_hint(&c->err, "the operator's infer, shape and dtype say what its results are");
  if (!failed && c->trap) failed = ts_trap_results(c, f->name, nin, in, nout, out, backward);
  if (failed) release(out, nout);
  return failed;
}

static int run_custom(TsContext *c, const TsInstr *i, const TsCode *code, TsTensor *const *in,
                      TsTensor **out) {
  const TsMeta **type = malloc(sizeof *type * (i->nout + 1));
  if (!type) return ts_error_memory(&c->err);
  for (uint32_t k = 0; k < i->nout; k++)
    type[k] = &code->reg[code->operand[i->at + i->nin + k]].meta;
  int failed = ts_control_custom(c, code->ref[i->sub], (int)i->nin, in, (int)i->nout, type, out,
                                 i->backward);
  free(type);
  return failed;
}

int ts_control_run(TsContext *c, const TsInstr *i, const TsCode *code, TsFrame *const *sub,
                   TsTensor *const *in, TsTensor **out) {
  switch (i->op) {
  case TS_VM_while_loop: return run_while(c, i, code, sub, in, out);
  case TS_VM_scan: return run_scan(c, i, code, sub, in, out);
  case TS_VM_fixed_point: return run_fixed_point(c, i, code, sub, in, out);
  case TS_VM_custom: return run_custom(c, i, code, in, out);
  default: TS_BUG("no control instruction: %d", i->op);
  }
}
