/* Recording of spans. */
#include "vm/profile.h"

#include <time.h>

int64_t ts_spans_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void ts_spans_add(TsSpans *s, const TsSpan *span) {
  int at = atomic_fetch_add_explicit(&s->n, 1, memory_order_relaxed);
  if (at < s->room) s->span[at] = *span;
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

void ts_spans_step(TsSpans *s, const TsCall *call, const char *what, const char *place,
                   int64_t start) {
  TsSpan span = {.start = start,
                 .end = ts_spans_now(),
                 .what = what,
                 .place = place,
                 .phase = -1,
                 .depth = s->depth,
                 .nbytes = bytes_of(call->nin, call->in) + bytes_of(call->nout, call->out)};
  ts_spans_add(s, &span);
}
