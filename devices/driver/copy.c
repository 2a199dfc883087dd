/* Bytes between the host and a GPU, and between GPUs.
 *
 * Host memory is pageable, so it goes through pinned buffers in chunks: while one is on
 * the bus the next one is filled (or emptied) by the CPU's threads. Copies have a stream of
 * their own; it begins after the work that may still use the memory, and work queued later
 * waits for it: a batch that is uploaded while a step runs goes beside it. An upload returns
 * when the source may change, a download when the bytes are there. A few bytes, numbers mostly,
 * go in the order of the work, where they take one or two calls of the driver instead of
 * seven. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/driver/driver.h"

static void drop_stages(TsDriven *s) {
  for (int i = 0; i < TS_DRIVER_NSTAGE; i++) {
    if (s->stage[i].done) s->driver->event_free(s->stage[i].done);
    if (s->stage[i].at) s->driver->host_free(s->stage[i].at);
  }
  memset(s->stage, 0, sizeof s->stage);
  s->stage_nbytes = 0;
}

static int make_stages(TsDevice *d, int64_t each, TsError *err) {
  TsDriven *s = d->state;
  for (int i = 0; i < TS_DRIVER_NSTAGE; i++) {
    void *at = NULL;
    TS_DRIVER(d, err, host_alloc, &at, (size_t)each, 0);
    s->stage[i].at = at;
    TS_DRIVER(d, err, event_new, &s->stage[i].done, TS_EVENT_UNTIMED);
  }
  s->stage_nbytes = each;
  return 0;
}

/* Four chunks or more, so that the bus has something while the CPU copies; large ones, since
 * each takes calls of the driver. */
static int64_t chunk_of(int64_t nbytes) {
  enum { LEAST = TS_DRIVER_SMALL_STAGE_NBYTES, WHOLE = 64 << 10 };
  int64_t n = (nbytes / 4 + WHOLE - 1) / WHOLE * WHOLE;
  return n < LEAST ? LEAST : n < TS_DRIVER_STAGE_NBYTES ? n : TS_DRIVER_STAGE_NBYTES;
}

/* Stages for chunks of nbytes. Pinning the large ones takes 12 ms, so that they come with the
 * first transfer that has so large chunks. */
static int need_stages(TsDevice *d, int64_t nbytes, TsError *err) {
  TsDriven *s = d->state;
  if (nbytes <= s->stage_nbytes) return 0;
  if (s->stage_nbytes) {
    TS_DRIVER(d, err, stream_wait, s->copy);
    drop_stages(s);
  }
  int64_t each = nbytes > TS_DRIVER_SMALL_STAGE_NBYTES ? TS_DRIVER_STAGE_NBYTES
                                                       : TS_DRIVER_SMALL_STAGE_NBYTES;
  if (!make_stages(d, each, err)) return 0;
  drop_stages(s);
  return -1;
}

/* The copy stream stands behind the work queued so far, or, if the memory was free earlier,
 * behind what was queued then. */
static int stand_behind(TsDevice *d, const void *to, TsError *err) {
  TsDriven *s = d->state;
  if (s->aside) { /* it is no point of the device's own order */
    TS_DRIVER(d, err, event_record, s->worked, s->work);
    TS_DRIVER(d, err, stream_after, s->copy, s->worked, 0);
    return 0;
  }
  uint64_t freed = to ? ts_driver_freed_at(d, to) : ts_driver_freed(d);
  int now = s->npoint++ % TS_DRIVER_NPOINT, best = now;
  TS_DRIVER(d, err, event_record, s->point[now].at, s->work);
  s->point[now].freed = ts_driver_freed(d);
  for (int i = 0; i < TS_DRIVER_NPOINT && i < s->npoint; i++)
    if (s->point[i].freed >= freed && s->point[i].freed < s->point[best].freed) best = i;
  TS_DRIVER(d, err, stream_after, s->copy, s->point[best].at, 0);
  return 0;
}

/* to: of an upload. */
static int begin(TsDevice *d, const void *to, int64_t nbytes, TsError *err) {
  if (ts_driver_enter(d, err) || need_stages(d, chunk_of(nbytes), err)) return -1;
  return stand_behind(d, to, err);
}

typedef struct Part {
  char *to;
  const char *from;
} Part;

static void copy_part(void *arg, int64_t lo, int64_t hi, int worker) {
  Part *p = arg;
  (void)worker;
  memcpy(p->to + lo, p->from + lo, (size_t)(hi - lo));
}

/* One thread does not fill the bus. */
static void copy_host(void *to, const void *from, int64_t nbytes) {
  enum { GRAIN = 1 << 20 };
  Part p = {to, from};
  if (nbytes <= GRAIN)
    memcpy(to, from, (size_t)nbytes);
  else
    ts_cpu_parallel(nbytes, GRAIN, copy_part, &p);
}

static int64_t chunk_at(int64_t at, int64_t nbytes) {
  int64_t left = nbytes - at, most = chunk_of(nbytes);
  return left < most ? left : most;
}

/* No transfer may go on in buffers that the next copy takes for free. */
static int give_up(TsDriven *s) {
  s->driver->stream_wait(s->copy);
  return -1;
}

static int upload_chunks(TsDevice *d, char *to, const char *from, int64_t nbytes,
                         TsError *err) {
  TsDriven *s = d->state;
  int k = 0;
  for (int64_t at = 0; at < nbytes; at += chunk_of(nbytes), k = (k + 1) % TS_DRIVER_NSTAGE) {
    int64_t n = chunk_at(at, nbytes);
    TS_DRIVER(d, err, event_wait, s->stage[k].done);
    copy_host(s->stage[k].at, from + at, n);
    TS_DRIVER(d, err, copy_to, to + at, s->stage[k].at, (size_t)n, s->copy);
    TS_DRIVER(d, err, event_record, s->stage[k].done, s->copy);
  }
  ts_driver_queue(d);
  TS_DRIVER(d, err, event_record, s->copied, s->copy);
  TS_DRIVER(d, err, stream_after, s->work, s->copied, 0);
  return 0;
}

/* From pageable memory: the driver has copied it when it returns. */
static int upload_few(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  if (ts_driver_enter(d, err)) return -1;
  ts_driver_queue(d);
  TS_DRIVER(d, err, copy_to, to, from, (size_t)nbytes, ((TsDriven *)d->state)->work);
  return 0;
}

static int download_few(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  TsDriven *s = d->state;
  void *at = s->few;
  if (ts_driver_enter(d, err)) return -1;
  if (!at) TS_DRIVER(d, err, host_alloc, &at, TS_DRIVER_FEW_NBYTES, 0);
  s->few = at;
  TS_DRIVER(d, err, copy_from, at, from, (size_t)nbytes, s->work);
  TS_DRIVER(d, err, stream_wait, s->work);
  memcpy(to, at, (size_t)nbytes);
  return 0;
}

int ts_driver_upload(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  if (nbytes == 0) return 0;
  if (nbytes <= TS_DRIVER_FEW_NBYTES && ts_driver_of(d)->reads_at_once)
    return upload_few(d, to, from, nbytes, err);
  if (begin(d, to, nbytes, err)) return -1;
  return upload_chunks(d, to, from, nbytes, err) ? give_up(d->state) : 0;
}

static int fetch_chunk(TsDevice *d, const char *from, int k, int64_t n, TsError *err) {
  TsDriven *s = d->state;
  TS_DRIVER(d, err, event_wait, s->stage[k].done); /* of an upload still on its way */
  TS_DRIVER(d, err, copy_from, s->stage[k].at, from, (size_t)n, s->copy);
  TS_DRIVER(d, err, event_record, s->stage[k].done, s->copy);
  return 0;
}

static int download_chunks(TsDevice *d, char *to, const char *from, int64_t nbytes,
                           TsError *err) {
  TsDriven *s = d->state;
  int64_t asked = 0, k_asked = 0, k = 0;
  for (int64_t at = 0; at < nbytes; at += chunk_of(nbytes), k++) {
    for (; asked < nbytes && k_asked < k + TS_DRIVER_NSTAGE; k_asked++) {
      int64_t n = chunk_at(asked, nbytes);
      if (fetch_chunk(d, from + asked, (int)(k_asked % TS_DRIVER_NSTAGE), n, err)) return -1;
      asked += chunk_of(nbytes);
    }
    TS_DRIVER(d, err, event_wait, s->stage[k % TS_DRIVER_NSTAGE].done);
    copy_host(to + at, s->stage[k % TS_DRIVER_NSTAGE].at, chunk_at(at, nbytes));
  }
  return 0;
}

int ts_driver_download(TsDevice *d, void *to, const void *from, int64_t nbytes, TsError *err) {
  if (nbytes == 0) return 0;
  if (nbytes <= TS_DRIVER_FEW_NBYTES) return download_few(d, to, from, nbytes, err);
  if (begin(d, NULL, nbytes, err)) return -1;
  return download_chunks(d, to, from, nbytes, err) ? give_up(d->state) : 0;
}

/* Between two GPUs the receiver waits for what the sender has queued, and the sender for the
 * copy, since it may hand the memory to somebody else next. */
static int copy_peer(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                     TsError *err) {
  TsDriven *s = d->state, *o = source->state;
  if (ts_driver_enter(source, err)) return -1;
  ts_driver_queue(d), ts_driver_queue(source);
  TS_DRIVER(source, err, event_record, o->worked, o->work);
  if (ts_driver_enter(d, err)) return -1;
  TS_DRIVER(d, err, stream_after, s->work, o->worked, 0);
  if (s->driver->copy_peer(d, to, source, from, (size_t)nbytes, s->work, err)) return -1;
  TS_DRIVER(d, err, event_record, s->worked, s->work);
  if (ts_driver_enter(source, err)) return -1;
  TS_DRIVER(source, err, stream_after, o->work, s->worked, 0);
  return 0;
}

int ts_device_copy_by_host(TsDevice *d, void *to, TsDevice *source, const void *from,
                           int64_t nbytes, TsError *err) {
  enum { MOST = TS_DRIVER_STAGE_NBYTES };
  int failed = 0;
  char *meanwhile = malloc((size_t)(nbytes < MOST ? nbytes : MOST));
  if (nbytes && !meanwhile) return ts_error_memory(err), -1;
  for (int64_t at = 0; at < nbytes && !failed; at += MOST) {
    int64_t n = nbytes - at < MOST ? nbytes - at : MOST;
    failed = source->download(source, meanwhile, (const char *)from + at, n, err) ||
             d->upload(d, (char *)to + at, meanwhile, n, err);
  }
  free(meanwhile);
  return failed ? -1 : 0;
}

static bool copies(TsDevice *d, TsDevice *source) {
  const TsDriver *v = ts_driver_of(d);
  return !v->copies || v->copies(d, source);
}

int ts_driver_copy_met(TsDevice *d, void *to, TsDevice *source, const void *from,
                       int64_t nbytes, TsError *err) {
  TsDriven *s = d->state;
  if (nbytes == 0) return 0;
  if (!copies(d, source)) return ts_device_copy_by_host(d, to, source, from, nbytes, err);
  if (ts_driver_enter(d, err)) return -1;
  ts_driver_queue(d);
  return s->driver->copy_peer(d, to, source, from, (size_t)nbytes, s->work, err);
}

int ts_driver_copy(TsDevice *d, void *to, TsDevice *source, const void *from, int64_t nbytes,
                   TsError *err) {
  if (nbytes == 0) return 0;
  if (d != source && !copies(d, source))
    return ts_device_copy_by_host(d, to, source, from, nbytes, err);
  if (d != source) return copy_peer(d, to, source, from, nbytes, err);
  if (ts_driver_enter(d, err)) return -1;
  ts_driver_queue(d);
  TS_DRIVER(d, err, copy_inside, to, from, (size_t)nbytes, ((TsDriven *)d->state)->work);
  return 0;
}
