/* Bytes of a GPU for another thread than the one that gives it work: on a stream and through
 * pinned buffers of this call alone, so that neither waits for the other (devices/driver/copy.c
 * is for the program's thread). The bytes stand still, and an event says from when on. */
#include <string.h>

#include "devices/driver/driver.h"

enum { NSTAGE = 3, STAGE = 8 << 20 };

typedef struct Beside {
  void *stream;
  struct {
    void *at;
    void *done;
    char *to; /* where its bytes go, n of them; n is 0: it is free */
    int64_t n;
  } stage[NSTAGE];
} Beside;

static int begin(TsDevice *d, Beside *b, void *after, TsError *err) {
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, stream_new, &b->stream, TS_STREAM_NON_BLOCKING);
  for (int i = 0; i < NSTAGE; i++) {
    TS_DRIVER(d, err, host_alloc, &b->stage[i].at, STAGE, 0);
    TS_DRIVER(d, err, event_new, &b->stage[i].done, TS_EVENT_UNTIMED);
  }
  TS_DRIVER(d, err, stream_after, b->stream, after, 0);
  return 0;
}

static void end(const TsDriver *v, Beside *b) {
  if (b->stream) v->stream_wait(b->stream);
  for (int i = 0; i < NSTAGE; i++) {
    if (b->stage[i].done) v->event_free(b->stage[i].done);
    if (b->stage[i].at) v->host_free(b->stage[i].at);
  }
  if (b->stream) v->stream_free(b->stream);
}

static int empty(TsDevice *d, Beside *b, int i, TsError *err) {
  if (!b->stage[i].n) return 0;
  TS_DRIVER(d, err, event_wait, b->stage[i].done);
  memcpy(b->stage[i].to, b->stage[i].at, (size_t)b->stage[i].n);
  b->stage[i].n = 0;
  return 0;
}

static int fetch(TsDevice *d, Beside *b, int n, const TsFetch *list, TsError *err) {
  int k = 0;
  for (int i = 0; i < n; i++) {
    for (int64_t at = 0; at < list[i].nbytes; at += STAGE, k = (k + 1) % NSTAGE) {
      int64_t len = list[i].nbytes - at < STAGE ? list[i].nbytes - at : STAGE;
      const char *from = (const char *)list[i].from + at;
      if (empty(d, b, k, err)) return -1;
      TS_DRIVER(d, err, copy_from, b->stage[k].at, from, (size_t)len, b->stream);
      TS_DRIVER(d, err, event_record, b->stage[k].done, b->stream);
      b->stage[k].to = (char *)list[i].to + at, b->stage[k].n = len;
    }
  }
  for (int i = 0; i < NSTAGE; i++, k = (k + 1) % NSTAGE)
    if (empty(d, b, k, err)) return -1;
  return 0;
}

int ts_driver_fetch(TsDevice *d, int n, const TsFetch *list, void *after, TsError *err) {
  Beside b = {0};
  int failed = begin(d, &b, after, err) || fetch(d, &b, n, list, err);
  end(ts_driver_of(d), &b);
  return failed ? -1 : 0;
}
