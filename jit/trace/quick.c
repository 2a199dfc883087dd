/* The next call of a run, quickly: for operators without options that compiled Lua code calls
 * (repl/lua/fast.c). Operands and results are words; nothing is allocated for a result that the
 * program only hands on. What does not fit here goes the usual way, jit/trace/match.c. */
#include <string.h>

#include "jit/trace/state.h"
#include "vm/core/tape.h"

static bool fits_tensor(const TsTracer *t, const Source *s, TsWord w) {
  const TsTensor *x = ts_word_tensor(w);
  if (!w || ts_word_is_loose(w) || x->storage == &t->pending) return false;
  return ts_trace_same_meta(&x->meta, s->meta) && x->storage->held != TS_HELD_NEVER &&
         !x->storage->symbolic && x->storage->valid && (!ts_tape_asks(x) || t->c->no_grad);
}

static bool fits_made(const TsTracer *t, const Run *r, int at, TsWord w) {
  if (ts_word_is_loose(w)) return w == loose_of(r, at);
  const TsTensor *x = ts_word_tensor(w);
  return x && x->storage == &t->pending && x->origin == r && x->offset == at;
}

static bool fits(const TsTracer *t, const Run *r, const Node *n, const Source *s, TsWord w,
                 double number) {
  uint64_t bits;
  switch ((SourceKind)s->kind) {
  case SOURCE_made: return fits_made(t, r, s->at, w);
  case SOURCE_seen: return w && s->at < n->first_ext && w == ts_word_of(r->ext[s->at].t);
  case SOURCE_new: return fits_tensor(t, s, w);
  case SOURCE_number: memcpy(&bits, &number, 8); return !w && bits == s->bits;
  case SOURCE_varies: return !w;
  default: return false;
  }
}

static int hold_number(TsTracer *t, Ext *e, double number) {
  TsMeta m = {.dtype = TS_DT_f64, .weak = TS_WEAK_number};
  TsTensor *y = ts_tensor_new(t->c, &m);
  if (!y) return -1;
  *(double *)y->storage->host = number;
  *e = (Ext){.t = y};
  return 0;
}

static int hold(TsTracer *t, Run *r, const Node *n, const TsWord *in, double number) {
  for (int i = 0; i < n->nin; i++) {
    Ext *e = &r->ext[r->next_ext];
    switch ((SourceKind)n->in[i].kind) {
    case SOURCE_new:
      if (ts_run_hold(t, e, ts_word_tensor(in[i]))) return -1;
      break;
    case SOURCE_varies:
      if (hold_number(t, e, number)) return -1;
      break;
    case SOURCE_number: *e = (Ext){.t = NULL}; break;
    default: continue;
    }
    r->next_ext++;
  }
  return 0;
}

bool ts_trace_quick(TsContext *c, TsOp op, int nin, const TsWord *in, double number,
                    TsWord *home) {
  TsTracer *t = tracer_of(c);
  Run *r = t->run;
  Node *n = r ? r->end->child : NULL;
  if (!n || n->op != (uint16_t)op || n->nin != nin || n->nout != 1 || !n->plain) return false;
  for (int i = 0; i < nin; i++)
    if (!fits(t, r, n, &n->in[i], in[i], number)) return false;
  if (hold(t, r, n, in, number)) { /* some externals are entered: the run cannot go on */
    ts_error_clear(&c->err);
    ts_trace_abandon(t, r);
    return false;
  }
  r->end = n;
  *home = loose_of(r, n->first_out);
  r->out[n->first_out] = (TsWord)(uintptr_t)home | 1;
  r->made[n->first_out] = c->next_id++;
  r->alive++;
  c->npending++;
  t->stats.quick++;
  ts_trace_passed(t, r, n);
  return true;
}

TsTensor *ts_trace_show(TsWord loose) { return ts_run_show(run_of(loose), value_of(loose)); }

void ts_trace_drop(TsWord loose) {
  Run *r = run_of(loose);
  r->out[value_of(loose)] = 0;
  r->trace->t->c->npending--;
  if (--r->alive == 0 && !r->active && !r->busy) ts_run_free(r);
}
