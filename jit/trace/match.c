/* Hot loops of eager code: calls are compared with a recorded trace and put off.
 *
 * A loop of eager operators repeats a sequence of calls. When the VM's ring shows one
 * (jit/trace/find.c), the next round is recorded as it runs (jit/trace/record.c): a trace is a
 * chain of nodes, one for each call, that says where each input comes from: an earlier call of
 * the chain, a tensor from outside, a bare number. From then on a call that fits the next node
 * is not run. Its results are pending: tensors with type and strides but no bytes. At the end
 * of the chain the wanted values are computed by one function (jit/trace/run.c), as if somebody
 * had written graph.module around the loop's body, and the others never, unless they are read.
 *
 *   idle ── a call fits the first node of a trace ──> run ── end ──> idle, wanted values there
 *                                                      │ ── another call: side exit
 *                                                      └ ── a value is read: observed
 *
 * Everything hangs on one fact: a call that is put off is pure, and cannot fail. Operators that
 * may fail on what the elements are, calls that the tape records, other devices and writes in
 * place are not put off; such a call runs at once wherever it comes, between those that are put
 * off, and only what it reads must be computed for it. So neither the order of effects nor the
 * line of an error can change, and what a run has put off stays valid when it is left at any
 * point: the values stay pending and are computed from the run's externals when somebody asks,
 * by the same handlers in the same order. There is nothing to undo.
 *
 * What is wanted is learnt, not analysed. At first no value is. One that is asked for behind
 * the end of its run (by the next round, by item(), by a table that outlives a collection)
 * twice and in more than an eighth of the rounds becomes a result of the function, which is
 * built when two rounds brought nothing new; once says nothing of a loop that is left soon
 * after it was found. *Rejected:* liveness from the ring: it does not see who holds a tensor,
 * and a loop's last round differs from all others.
 *
 * The shape of a trace is learnt in the same way. A value that is read behind the same node in
 * a quarter of the passes ends the trace there; what follows is found as a trace of its own,
 * which thus begins behind the observation. A node that is left by a mismatch again and again
 * gets another child, recorded from there (a branch of the program), and a function for the
 * calls before it. A number that differs becomes a parameter.
 *
 * Externals must not change while a pending value may need them. Runs hold their storages
 * (TsStorage.held), and whoever is about to write into one moves its holders to a copy first.
 * *Rejected:* computing all that is pending before a write: most of it is garbage that no
 * collection has found yet. A view of a pending value gets its bytes together with it, since
 * either may be changed in place afterwards.
 *
 * Memory: what a run retains is what its eager calls would have left as garbage, or less, and
 * goes when its pending values are collected. A collection that tensor memory caused makes
 * whatever is still pending real, so nothing is retained twice as long as garbage would be.
 *
 * A call costs less than the Lua around it, so compiled Lua code has a way of its own
 * (jit/trace/quick.c, repl/lua/fast.c): operands and results are words there, and a result
 * becomes a tensor when somebody asks for one (`Run.out`). *Rejected:* the same for calls of
 * Lua's C interface: a userdata and its collection are most of what they cost.
 *
 * Random numbers: a call takes its stream when it is put off; runs remember the first.
 *
 * The tests in tests/jit/trace compare all this with the same programs without it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/memory.h"
#include "jit/trace/state.h"
#include "vm/core/tape.h"
#include "lib/clock.h"

enum {
  HOT_EXITS = 3,      /* before another way on is recorded */
  OFTEN = 8,          /* a value is wanted if one in so many rounds asks for it */
  CUT_OFTEN = 4,      /* a trace ends where one in so many passes is read */
  GIVE_UP_EXITS = 64, /* and more than twice as many as came to an end */
  JUDGED_RUNS = 256,
  SHORT_RUN = 8,     /* calls */
  SMALL_VALUE = 256, /* elements */
};

void ts_trace_say(TsTracer *t, const char *what, const char *format, ...) {
  char text[400];
  va_list ap;
  if (!t->verbose) return;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  fprintf(stderr, "[jit trace %s %s]\n", what, text);
}

static void watch(TsTracer *t) {
  t->c->watched = t->on && (t->ntrace || t->rec.trace || t->wait);
}

/* ---- does a call fit? */
bool ts_trace_same_attrs(const Node *n, const TsAttr *attr) {
  if (!n->attr || !attr) return !n->attr == !attr || !n->nattr;
  for (int i = 0; i < n->nattr; i++) {
    const TsAttr *a = &n->attr[i], *b = &attr[i];
    if (a->type != b->type) return false;
    switch ((TsAttrType)a->type) {
    case TS_ATTR_none: break;
    case TS_ATTR_ints:
    case TS_ATTR_floats:
      if (a->n != b->n || (a->n && memcmp(a->ints, b->ints, 8 * (size_t)a->n))) return false;
      break;
    case TS_ATTR_str:
      if (strcmp(a->str, b->str)) return false;
      break;
    default:
      if (a->i != b->i) return false;
    }
  }
  return true;
}

bool ts_trace_same_meta(const TsMeta *a, const TsMeta *b) {
  if (a->dtype != b->dtype || a->ndim != b->ndim || a->weak != b->weak ||
      a->device != b->device || a->layout != b->layout)
    return false;
  for (int i = 0; i < a->ndim; i++)
    if (a->dim[i] != b->dim[i]) return false;
  return true;
}

static uint64_t number_bits(const TsTensor *x) {
  double v = x->meta.dtype == TS_DT_i64 ? (double)*(int64_t *)x->storage->host
                                        : *(double *)x->storage->host;
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}

static bool is_number(const TsTensor *x) { return x->meta.weak && x->meta.ndim == 0; }

/* External `at` of a run when this call comes: maybe another input of the call itself. */
static const TsTensor *external(const Run *r, const Node *n, const TsCall *call, int at) {
  if (at < n->first_ext) return r->ext[at].t;
  int ext = n->first_ext;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i].kind >= SOURCE_new && ext++ == at) return call->in[i];
  return NULL;
}

/* A number that differs from the recorded one is no reason to leave if it may. */
static bool fits_source(const TsTracer *t, const Run *r, const Node *n, const TsCall *call,
                        int i, bool *differs) {
  const Source *s = &n->in[i];
  const TsTensor *x = call->in[i];
  if (!x) return s->kind == SOURCE_none;
  bool pending = x->storage == &t->pending;
  switch ((SourceKind)s->kind) {
  case SOURCE_made: return pending && x->origin == r && x->offset == s->at;
  case SOURCE_seen: return x == external(r, n, call, s->at);
  case SOURCE_new:
    if (!ts_trace_same_meta(&x->meta, s->meta) || (pending && x->origin == r)) return false;
    return x->storage->held != TS_HELD_NEVER && !x->storage->symbolic &&
           (pending || x->storage->valid) && (!ts_tape_asks(x) || t->c->no_grad);
  case SOURCE_number:
    if (!is_number(x)) return false;
    if (number_bits(x) == s->bits) return true;
    *differs = true;
    return s->may_vary;
  case SOURCE_varies: return is_number(x);
  default: return false;
  }
}

static bool fits(const TsTracer *t, const Run *r, Node *n, const TsCall *call) {
  bool differs = false;
  if (n->op != (uint16_t)call->op || n->nin != call->nin) return false;
  for (int i = 0; i < call->nin; i++)
    if (!fits_source(t, r, n, call, i, &differs)) return false;
  if (!ts_trace_same_attrs(n, call->attr)) return false;
  if (n->random >= 0 && r &&
      (t->c->seed != r->seed || t->c->stream != r->stream + (uint64_t)n->random))
    return false;
  if (!differs) return true;
  for (int i = 0; i < call->nin; i++)
    if (n->in[i].kind == SOURCE_number && number_bits(call->in[i]) != n->in[i].bits)
      n->in[i].kind = SOURCE_varies;
  n->trace->layout++;
  return true;
}

static Node *next_node(const TsTracer *t, const Run *r, Node *at, const TsCall *call) {
  for (Node *n = at->child; n; n = n->sibling)
    if (fits(t, r, n, call)) return n;
  return NULL;
}

/* ---- leaving */
void ts_trace_stop(TsTracer *t, Run *r) {
  t->run = NULL;
  r->active = false;
}

static void let_be(Run *r) {
  if (!r->alive) ts_run_free(r);
}

void ts_trace_abandon(TsTracer *t, Run *r) {
  ts_trace_stop(t, r);
  let_be(r);
}

/* Hot exits have a function of their own for what came before. */
static void stop_early(TsTracer *t, Run *r, bool hot) {
  ts_trace_stop(t, r);
  if (hot)
    ts_run_finish(r);
  else
    let_be(r);
}

static bool hopeless(const Trace *tr) {
  return tr->exits > GIVE_UP_EXITS && tr->exits / 2 > tr->runs;
}

/* A run costs as much as some eager calls of small tensors: so many must be in it. The last runs
 * count: a trace that served one loop may be what another one begins with. */
static bool too_short(Trace *tr) {
  uint32_t runs = tr->runs - tr->judged_runs;
  if (tr->t->eager || runs < JUDGED_RUNS || tr->largest > SMALL_VALUE) return false;
  uint64_t calls = tr->calls - tr->judged_calls;
  tr->judged_calls = tr->calls;
  tr->judged_runs = tr->runs;
  return calls < (uint64_t)SHORT_RUN * runs;
}

static void give_up(TsTracer *t, Trace *tr, const Node *end) {
  char span[200];
  ts_trace_say(t, "given up", "%s: %u exits, %u runs of %.1f calls",
               ts_trace_span(tr, end, span), tr->exits, tr->runs,
               (double)tr->calls / (tr->runs ? tr->runs : 1));
  t->given_up += tr->calls < (uint64_t)SHORT_RUN * tr->runs || hopeless(tr);
  ts_trace_free(tr);
  ts_trace_sleep(t, false);
  watch(t);
}

static const char *times(uint32_t n, char text[32]) {
  if (n == 1) return "for the first time";
  snprintf(text, 32, "%u times", n);
  return text;
}

static void leave(TsTracer *t, Run *r, const TsCall *call) {
  Node *at = r->end;
  Trace *tr = r->trace;
  char span[200], number[32];
  uint32_t exits = ++at->exits, hot = t->eager ? 1 : HOT_EXITS;
  tr->exits++;
  t->stats.exits++;
  bool branch = !t->rec.trace && !tr->dead && (exits == hot || exits == hot * 32);
  bool told = t->verbose && (exits == 1 || branch);
  int64_t begin = told ? ts_clock_nsec() : 0;
  if (branch) ts_trace_branch(t, r, at);
  if (told) ts_trace_span(tr, at, span);
  tr->refs++;
  stop_early(t, r, exits >= hot);
  if (told)
    ts_trace_say(t, "exit", "%s: %s comes behind call %d, %s, in %.2f ms%s", span,
                 ts_op_info(call->op)->name, at->depth + 1, times(exits, number),
                 (double)(ts_clock_nsec() - begin) / 1e6,
                 branch ? "; what follows is recorded" : "");
  if (!tr->dead && !branch && hopeless(tr)) give_up(t, tr, at);
  ts_trace_unref(tr);
}

static void observe(TsTracer *t, Run *r) {
  Node *at = r->end;
  uint32_t n = ++at->observed;
  char span[200];
  t->stats.observed++;
  bool cut = !at->end && (n >= 2 || t->eager) && n * CUT_OFTEN >= at->passed;
  if (cut) {
    at->end = true;
    ts_trace_say(t, "cut", "%s: a value is read behind call %d, %u of %u times",
                 ts_trace_span(r->trace, at, span), at->depth + 1, n, at->passed);
  }
  stop_early(t, r, at->end);
}

/* ---- going on */
/* Externals that are pending in other runs get their bytes first: runs never depend on runs. */
static int force_inputs(const TsTracer *t, const Run *r, const TsCall *call) {
  for (int i = 0; i < call->nin; i++) {
    TsTensor *x = call->in[i];
    if (x && x->storage == &t->pending && x->origin != r && ts_defer_force(x)) return -1;
  }
  return 0;
}

static TsTensor *real_number(TsContext *c, TsTensor *x) {
  TsMeta m = {.dtype = TS_DT_f64, .weak = TS_WEAK_number};
  if (ts_trace_same_meta(&x->meta, &m)) return ts_tensor_ref(x);
  TsTensor *y = ts_tensor_new(c, &m);
  if (y) *(double *)y->storage->host = ts_tensor_get(x, 0);
  return y;
}

/* A varying number is a parameter of one type. */
static int hold(TsTracer *t, Run *r, const Source *s, TsTensor *x) {
  Ext *e = &r->ext[r->next_ext];
  TsTensor *own = s->kind == SOURCE_varies ? real_number(t->c, x) : ts_tensor_ref(x);
  if (!own || ts_run_hold(t, e, own)) return ts_tensor_unref(own), -1;
  ts_tensor_unref(own);
  r->next_ext++;
  return 0;
}

static int hold_inputs(TsTracer *t, Run *r, const Node *n, const TsCall *call) {
  for (int i = 0; i < n->nin; i++)
    if (n->in[i].kind >= SOURCE_new && hold(t, r, &n->in[i], call->in[i])) return -1;
  return 0;
}

static int make_outputs(TsTracer *t, Run *r, const Node *n, TsCall *call) {
  for (int i = 0; i < n->nout; i++) {
    int value = n->first_out + i;
    r->made[value] = t->c->next_id++;
    if (!(call->out[i] = ts_run_pend(r, &n->out[i], value))) return -1;
    r->out[value] = ts_word_of(call->out[i]);
    r->alive++;
    t->c->npending++;
  }
  return 0;
}

void ts_trace_passed(TsTracer *t, Run *r, Node *n) {
  Trace *tr = n->trace;
  n->passed++;
  tr->calls++;
  t->stats.deferred++;
  if (!n->end) return;
  ts_trace_stop(t, r);
  ts_run_finish(r);
  if (!tr->dead && too_short(tr)) give_up(t, tr, n);
}

/* false: memory ran out, and the call is run as if nothing were recorded. */
static bool step(TsTracer *t, Run *r, Node *n, TsCall *call) {
  if (hold_inputs(t, r, n, call)) return false;
  r->end = n;
  for (int i = 0; i < n->nout; i++) r->out[n->first_out + i] = 0;
  if (make_outputs(t, r, n, call)) {
    for (int i = 0; i < n->nout; i++) ts_tensor_unref(ts_word_tensor(r->out[n->first_out + i]));
    return false;
  }
  call->nout = n->nout;
  if (n->random >= 0) t->c->stream++;
  ts_trace_passed(t, r, n);
  return true;
}

static bool go_on(TsTracer *t, Run *r, Node *n, TsCall *call) {
  if (!force_inputs(t, r, call)) {
    /* Forcing may have run anything but this run. */
    if (step(t, r, n, call)) return true;
  }
  ts_error_clear(&t->c->err);
  if (t->run == r) {
    ts_trace_abandon(t, r);
  }
  return false;
}

static bool start(TsTracer *t, Trace *tr, Node *n, TsCall *call) {
  if (t->rec.trace) {
    ts_trace_end_record(t);
    watch(t);
    if (tr->dead) return false;
  }
  if (force_inputs(t, NULL, call)) return ts_error_clear(&t->c->err), false;
  Run *r = ts_run_new(tr);
  if (!r) return false;
  t->run = r;
  if (step(t, r, n, call)) return true;
  ts_error_clear(&t->c->err);
  ts_trace_abandon(t, r);
  return false;
}

/* Calls that run at once, wherever they come. */
static bool is_aside(const TsTracer *t, const Run *r, const TsCall *call) {
  if (!ts_trace_allowed(call->op) || call->nin > TRACE_MOST_INPUTS) return true;
  bool view = ts_op_info(call->op)->cls == TS_CLASS_VIEW;
  const TsTensor *x = view ? call->in[0] : NULL;
  if (view && (!x || x->storage != &t->pending || x->origin != r)) return true;
  for (int i = 0; i < call->nin; i++)
    if (call->in[i] && ts_tape_asks(call->in[i]) && !t->c->no_grad) return true;
  return false;
}

static bool take(TsCall *call) {
  TsContext *c = call->ctx;
  TsTracer *t = tracer_of(c);
  if (c->trap || c->device || ts_trace_places_draw(call)) return false;
  Run *r = t->run;
  if (r) {
    Node *n = next_node(t, r, r->end, call);
    if (n) return go_on(t, r, n, call);
    if (is_aside(t, r, call)) return false;
    leave(t, r, call);
    watch(t);
  }
  for (Trace *tr = t->start[call->op]; tr; tr = tr->start) {
    Node *n = next_node(t, NULL, &tr->root, call);
    if (n) return start(t, tr, n, call);
  }
  return false;
}

static void ran(const TsCall *call) {
  TsTracer *t = tracer_of(call->ctx);
  if (t->wait && ts_trace_counts(call->op) && --t->wait == 0 && !t->rec.trace)
    ts_trace_begin(t, t->period);
  if (t->rec.trace) ts_trace_record_call(t, call);
  if (!t->rec.trace && !t->wait) watch(t);
}

/* What was recorded so far saw the old elements. */
static void wrote(TsTensor *x) {
  TsTracer *t = tracer_of(x->storage->ctx);
  if (t->rec.trace && ts_trace_knows(&t->rec, x)) {
    ts_trace_end_record(t);
    watch(t);
  }
}

/* ---- pending tensors */
static int force(TsTensor *x) {
  Run *r = x->origin;
  TsTracer *t = r->trace->t;
  int value = (int)x->offset;
  Node *n = r->end;
  while (n->first_out > value) n = n->parent;
  Node *owner = n;
  int base = n->out[value - n->first_out].base;
  while (owner->first_out > base) owner = owner->parent;
  Made *m = &owner->out[base - owner->first_out];
  if (!m->wanted && ++m->forced > 1 && m->forced * OFTEN >= owner->passed) {
    m->wanted = true;
    r->trace->wanted++;
  }
  if (r->active) observe(t, r);
  if (x->storage != &t->pending) return 0;
  return ts_run_force(x->origin, value);
}

static void forget(TsTensor *x) {
  Run *r = x->origin;
  r->out[x->offset] = 0;
  r->trace->t->c->npending--;
  if (--r->alive == 0 && !r->active && !r->busy) ts_run_free(r);
}

static int settle(TsContext *c, bool all) {
  TsTracer *t = tracer_of(c);
  int failed = 0;
  if (all && t->run) {
    Run *r = t->run;
    ts_trace_abandon(t, r);
  }
  for (Run *r = t->runs, *next; r && !failed; r = next) {
    next = r->next; /* computing the values of a run frees no other */
    if (!r->active && r->alive) failed = ts_run_all(r);
  }
  return failed;
}

static const TsDefer defer = {.call = take,
                              .quick = ts_trace_quick,
                              .show = ts_trace_show,
                              .drop = ts_trace_drop,
                              .ran = ran,
                              .wrote = wrote,
                              .look = ts_trace_look,
                              .force = force,
                              .forget = forget,
                              .made = ts_run_made,
                              .touch = ts_run_touch,
                              .settle = settle};

/* ---- opening and closing */
TsTracer *ts_tracer_open(TsContext *c, TsJit *j) {
  TsTracer *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->c = c;
  t->jit = j;
  t->on = true;
  t->pending = (TsStorage){.refs = 1, .pending = 1, .ctx = c};
  c->defer = &defer;
  c->deferrer = t;
  ts_trace_sleep(t, true);
  return t;
}

void ts_tracer_flush(TsTracer *t) {
  if (t->run) {
    Run *r = t->run;
    ts_trace_abandon(t, r);
  }
  if (t->rec.trace && !t->rec.trace->root.child)
    ts_trace_unref(t->rec.trace);
  else if (t->rec.trace)
    ts_trace_end_record(t);
  t->rec.trace = NULL;
  while (t->first) ts_trace_free(t->first);
  t->wait = t->given_up = 0;
  ts_trace_sleep(t, true);
  watch(t);
}

void ts_tracer_close(TsTracer *t) {
  if (!t) return;
  ts_tracer_flush(t);
  if (settle(t->c, true)) ts_error_clear(&t->c->err);
  t->c->defer = NULL;
  t->c->deferrer = NULL;
  free(t->held);
  free(t->free_held);
  free(t->rec.ext);
  free(t->rec.out);
  free(t);
}

void ts_tracer_enable(TsTracer *t, bool on) {
  if (!on && settle(t->c, true)) ts_error_clear(&t->c->err);
  if (!on) t->wait = 0;
  if (!on && t->rec.trace) ts_trace_end_record(t);
  t->on = on;
  ts_trace_sleep(t, true);
  watch(t);
}

void ts_tracer_verbose(TsTracer *t, bool on) { t->verbose = on; }

void ts_tracer_eager(TsTracer *t, bool on) {
  t->eager = on;
  ts_trace_sleep(t, true);
}

TsTracerStats ts_tracer_stats(const TsTracer *t) {
  TsTracerStats s = t->stats;
  s.traces = t->ntrace;
  return s;
}

static int list_loops(Trace *tr, const Node *n, TsTracerLoop *loop, int cap, int count) {
  for (; n; n = n->sibling) {
    const Path *p = n->path;
    if (p && count++ < cap) {
      TsTracerLoop *l = &loop[count - 1];
      *l = (TsTracerLoop){.id = p->id, .calls = n->depth + 1, .runs = p->runs};
      l->g = p->g, l->code = p->code, l->hot = p->hot;
      ts_trace_span(tr, n, l->where);
    }
    count = list_loops(tr, n->child, loop, cap, count);
  }
  return count;
}

int ts_tracer_loops(const TsTracer *t, TsTracerLoop *loop, int cap) {
  int n = 0;
  for (Trace *tr = t->first; tr; tr = tr->next) n = list_loops(tr, &tr->root, loop, cap, n);
  return n;
}
