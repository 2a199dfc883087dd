/* Recording of spans. */
#include "vm/core/profile.h"
#include "lib/clock.h"
#include "vm/core/flops.h"

void ts_spans_add(TsSpans *s, const TsSpan *span) {
  int64_t at = atomic_fetch_add_explicit(&s->n, 1, memory_order_relaxed);
  int half = s->room / 2;
  s->span[at < half ? at : half + (at - half) % (s->room - half)] = *span;
}

static int64_t bytes_of(int n, TsTensor *const *t) {
  int64_t sum = 0;
  for (int i = 0; i < n; i++) {
    bool again = !t[i];
    for (int k = 0; k < i && !again; k++) again = t[k] == t[i];
    if (!again) sum += ts_meta_nbytes(&t[i]->meta);
  }
  return sum;
}

double ts_call_flops(const TsCall *call) {
  const TsMeta *in[TS_MAX_IN];
  int n = call->nin < TS_MAX_IN ? call->nin : TS_MAX_IN;
  for (int i = 0; i < n; i++) in[i] = call->in[i] ? &call->in[i]->meta : NULL;
  bool any = call->nout && call->out[0];
  return ts_flops((TsOp)call->op, n, in, any ? &call->out[0]->meta : NULL);
}

int64_t ts_call_nbytes(const TsCall *call) {
  return bytes_of(call->nin, call->in) + bytes_of(call->nout, call->out);
}

TsActivity *ts_activity_begin_call(TsContext *c, TsActivityKind kind, const char *what) {
  if (!ts_activities || c->capture || c->inside) return NULL;
  if (ts_activities->at->kind == TS_ACTIVITY_program) {
    const char *place = c->where && c->where_arg ? c->where(c->where_arg) : NULL;
    if (!ts_activity_enter(TS_ACTIVITY_line, "", place ? place : "elsewhere")) return NULL;
  }
  return ts_activity_enter(kind, what, NULL);
}

void ts_activity_end_call(TsActivity *w, const TsCall *call) {
  if (!w) return;
  TsActivity *line = w->parent;
  ts_activity_leave(w, -1, call ? ts_call_nbytes(call) : 0, call ? ts_call_flops(call) : 0);
  if (line->kind == TS_ACTIVITY_line) ts_activity_leave(line, -1, 0, 0);
}

void ts_spans_step(TsSpans *s, const TsCall *call, const char *what, const char *place,
                   int64_t start, double flops) {
  TsSpan span = {.start = start,
                 .end = ts_clock_nsec(),
                 .what = what,
                 .place = place,
                 .phase = -1,
                 .depth = s->depth,
                 .flops = flops > 0 ? flops : ts_call_flops(call),
                 .nbytes = ts_call_nbytes(call)};
  ts_spans_add(s, &span);
}
