/* The reverse pass: gradients of a list of calls, read backwards. */
#include <stdlib.h>
#include <string.h>

#include "ir/adjoint/boxes.h"

/* A gradient of a part of a value, not yet added to the value's. */
typedef struct Part {
  struct Part *next;
  TsBoxed at;
} Part;

/* Values by their address: open addressing, never full. */
typedef struct Slot {
  TsVal value, grad;
  Part *part, **end; /* in the order in which they arrived */
  int npart, line;   /* of the first of them */
  bool active;       /* depends on an x */
  bool bits;         /* no float, but made of the bytes of one that does */
  bool held;
  int maker; /* the first entry that gives it, from 1 */
} Slot;

typedef struct Map {
  Slot *slot;
  size_t mask;
} Map;

static Slot *find(Map *m, TsVal v) {
  size_t h = (size_t)v;
  h = (h >> 4) * 0x9e3779b97f4a7c15u;
  for (size_t i = h >> 20 & m->mask;; i = (i + 1) & m->mask)
    if (m->slot[i].value == v || !m->slot[i].value) return &m->slot[i];
}

static Slot *enter(Map *m, TsVal v) {
  Slot *s = find(m, v);
  s->value = v;
  return s;
}

static bool open_map(Map *m, const TsReverse *r) {
  size_t n = (size_t)(r->nx + r->ny + r->nheld), size = 16;
  for (int i = 0; i < r->ntape; i++) n += (size_t)(r->tape[i].nin + r->tape[i].nout);
  while (size < n * 2 + 2) size *= 2;
  m->mask = size - 1;
  m->slot = calloc(size, sizeof *m->slot);
  return m->slot != NULL;
}

static bool differentiable(TsBuild *b, TsVal v) {
  return ts_dtype_is((TsDtype)b->meta(b, v)->dtype, TS_KIND_F | TS_KIND_C);
}

/* Whole numbers that are a float's bytes have no slope. Where they were changed in place the float has
 * none either, though it depends on what it was: its gradient is an error, and no silent zero. Whether
 * the entry gives one. */
static bool mark_bits(Map *m, const TsReverse *r, const TsTapeEntry *t, bool active) {
  bool bits = active && t->op == TS_OP_bitcast;
  for (int k = 0; k < t->nin && !bits; k++) bits = t->in[k] && find(m, t->in[k])->bits;
  for (int k = 0; bits && k < t->nout; k++)
    if (t->out[k] && !differentiable(r->b, t->out[k])) enter(m, t->out[k])->bits = true;
  return bits && t->bytes;
}

/* Marks what depends on x. Integers and truth values carry no derivative. A builder that
 * interns gives one value for equal calls, so several entries may stand for one call: the
 * first of them does, since all that reads the value comes behind it, and the value's gradient
 * is passed on once. */
static void mark(Map *m, const TsReverse *r) {
  for (int i = 0; i < r->nx; i++) enter(m, r->x[i])->active = true;
  for (int i = 0; i < r->nheld; i++) enter(m, r->held[i])->held = true;
  for (int i = 0; i < r->ntape; i++) {
    const TsTapeEntry *t = &r->tape[i];
    bool active = false;
    for (int k = 0; k < t->nin && !active; k++) active = t->in[k] && find(m, t->in[k])->active;
    if (mark_bits(m, r, t, active)) active = true;
    for (int k = 0; active && k < t->nout; k++) {
      if (!t->out[k] || !differentiable(r->b, t->out[k]) || find(m, t->out[k])->held) continue;
      Slot *s = enter(m, t->out[k]);
      s->active = true;
      if (!s->maker) s->maker = i + 1;
    }
  }
}

static void drop_parts(Slot *s) {
  for (Part *next; s->part; s->part = next) {
    next = s->part->next;
    free(s->part);
  }
  s->npart = 0;
}

/* The value's whole gradient, so far. */
static TsVal settled(const TsReverse *r, Slot *s) {
  TsBuild *b = r->b;
  if (!s->npart || b->failed) return s->grad;
  TsBoxed *all = malloc(sizeof *all * (size_t)s->npart);
  int n = 0, line = r->line ? *r->line : 0;
  for (Part *p = s->part; all && p; p = p->next) all[n++] = p->at;
  if (r->line) *r->line = s->line;
  if (all)
    s->grad = ts_boxes_sum(b, s->grad, s->value, n, all);
  else
    ts_build_fail(b, TS_ERR_memory, "out of memory");
  if (r->line) *r->line = line;
  free(all);
  drop_parts(s);
  return s->grad;
}

static void accumulate(const TsReverse *r, Map *m, TsVal v, TsVal g) {
  Slot *s = enter(m, v);
  TsVal before = settled(r, s);
  s->grad = before ? ts_build_add(r->b, before, g) : g;
}

static void accumulate_part(const TsReverse *r, Map *m, TsVal v, TsVal g, const TsBox *box) {
  Slot *s = enter(m, v);
  Part *p = malloc(sizeof *p);
  if (!p) {
    ts_build_fail(r->b, TS_ERR_memory, "out of memory");
    return;
  }
  if (!s->part && r->line) s->line = *r->line;
  *p = (Part){NULL, {g, *box}};
  *(s->part ? s->end : &s->part) = p;
  s->end = &p->next;
  s->npart++;
}

/* Integers beside floats are seen as the floats that the call made of them: adjoints would
 * compute with them in their own type else, where squares and differences wrap. */
static void see_floats(TsReverse *r, const TsTapeEntry *t, TsVal *in) {
  TsBuild *b = r->b;
  for (int k = 0; k < t->nin; k++) in[k] = t->in[k];
  if (t->op >= TS_OP_COUNT || t->adjoint || !differentiable(b, t->out[0])) return;
  TsDtype d = ts_dtype_real((TsDtype)b->meta(b, t->out[0])->dtype);
  for (int k = 0; k < t->nin; k++) {
    if (!in[k] || differentiable(b, in[k]) || !ts_op_is_value(t->op, k)) continue;
    if (!b->meta(b, in[k])->weak) in[k] = ts_build_cast(b, in[k], d);
  }
}

static int run_adjoint(TsReverse *r, Map *m, const TsTapeEntry *t, TsAdjoint *a, bool *wanted,
                       TsVal *grad_in, TsVal *in) {
  bool any = false;
  for (int k = 0; k < t->nin; k++) {
    wanted[k] = t->in[k] && find(m, t->in[k])->active && differentiable(r->b, t->in[k]);
    grad_in[k] = NULL;
    any |= wanted[k] || (t->bytes && t->in[k] && find(m, t->in[k])->bits);
  }
  if (!any) return 0;
  TsAdjointFn *fn = t->adjoint ? t->adjoint : ts_adjoint_table[t->op];
  TsAttr preset[TS_MAX_ATTR];
  if (!t->adjoint) {
    ts_op_defaults(t->op, preset);
    a->attr = t->attr ? t->attr : preset;
  }
  if (r->line && t->line > 0) *r->line = t->line;
  see_floats(r, t, in);
  a->in = in;
  if (fn(a) || r->b->failed) {
    r->failed_at = r->failed_at < 0 ? (int)(t - r->tape) : r->failed_at;
    return -1;
  }
  for (int k = 0; k < t->nin; k++)
    if (wanted[k] && grad_in[k] && k == 0 && a->boxed)
      accumulate_part(r, m, t->in[k], grad_in[k], &a->box);
    else if (wanted[k] && grad_in[k])
      accumulate(r, m, t->in[k], ts_adjoint_fit(r->b, grad_in[k], t->in[k]));
  return r->b->failed ? -1 : 0;
}

/* One entry: nothing to do unless a gradient arrives at an output. */
static int step(TsReverse *r, Map *m, const TsTapeEntry *t, TsVal *grads, bool *wanted) {
  TsVal *grad = grads, *grad_in = grads + t->nout, *in = grad_in + t->nin;
  bool any = false;
  for (int k = 0; k < t->nout; k++) {
    Slot *s = t->out[k] ? find(m, t->out[k]) : NULL;
    bool ours = s && s->value && s->active && !s->held && s->maker == t - r->tape + 1;
    grad[k] = ours ? settled(r, s) : NULL;
    any |= grad[k] != NULL;
  }
  if (!any) return 0;
  TsAdjoint a = {.b = r->b,
                 .op = t->op,
                 .nin = t->nin,
                 .nout = t->nout,
                 .out = t->out,
                 .attr = t->attr,
                 .grad = grad,
                 .wanted = wanted,
                 .grad_in = grad_in,
                 .arg = t->arg};
  return run_adjoint(r, m, t, &a, wanted, grad_in, in);
}

int ts_reverse(TsReverse *r) {
  Map m = {NULL, 0};
  int widest = 1, failed = 0;
  for (int i = 0; i < r->ntape; i++) {
    int n = r->tape[i].nin + r->tape[i].nout;
    if (n > widest) widest = n;
  }
  TsVal *grads = malloc(2 * (size_t)widest * sizeof *grads);
  bool *wanted = malloc((size_t)widest);
  r->failed_at = -1;
  if (!grads || !wanted || !open_map(&m, r)) {
    failed = ts_build_fail(r->b, TS_ERR_memory, "out of memory");
  } else {
    mark(&m, r);
    for (int i = 0; i < r->ny; i++)
      if (r->dy[i] && find(&m, r->y[i])->active) accumulate(r, &m, r->y[i], r->dy[i]);
    for (int i = r->ntape; i-- > 0 && !failed;)
      failed = step(r, &m, &r->tape[i], grads, wanted);
  }
  for (int i = 0; i < r->nx; i++) r->dx[i] = failed ? NULL : settled(r, find(&m, r->x[i]));
  for (size_t i = 0; m.slot && i <= m.mask; i++) drop_parts(&m.slot[i]);
  free(m.slot);
  free(grads);
  free(wanted);
  return failed || r->b->failed ? -1 : 0;
}
