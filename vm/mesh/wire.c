/* See vm/mesh/wire.h. */
#include "vm/mesh/wire.h"

#include <stdlib.h>

#include "devices/device.h"
#include "devices/meet.h"
#include "net/world.h"
#include "vm/core/offload.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/times.h"

TsWire ts_wire_begin(TsContext *c) {
  TsWire w = {.c = c, .timed = c->times != NULL};
  w.failed = w.timed && ts_times_open(c, NULL, NULL);
  return w;
}

static int keep(TsWire *w, TsTensor *x) {
  if (w->n == w->cap) {
    int cap = w->cap ? 2 * w->cap : 16;
    TsTensor **more = realloc(w->lent, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&w->c->err);
    w->lent = more, w->cap = cap;
  }
  w->lent[w->n++] = ts_tensor_ref(x);
  return 0;
}

/* ---- copy engines */
typedef struct TsWireCopy {
  TsTensor *from, *to;
} Copy;

static int bring(TsWire *w, TsTensor *x, int device, TsTensor **there) {
  TsMeta m = x->meta;
  m.device = (uint8_t)device, m.weak = 0, m.layout = 0;
  if (w->ncopy == w->capcopy) {
    int cap = w->capcopy ? 2 * w->capcopy : 16;
    Copy *more = realloc(w->copy, sizeof *more * (size_t)cap);
    if (!more) return *there = NULL, ts_error_memory(&w->c->err);
    w->copy = more, w->capcopy = cap;
  }
  if (!(*there = ts_tensor_new(w->c, &m))) return -1;
  if (!ts_tensor_read_on(x, x->meta.device) || !ts_tensor_write_on(*there, device, true)) {
    ts_tensor_unref(*there);
    return *there = NULL, -1;
  }
  w->copy[w->ncopy++] = (Copy){x, ts_tensor_ref(*there)}; /* x is lent */
  return 0;
}

static void drop_copies(TsWire *w) {
  while (w->ncopy) ts_tensor_unref(w->copy[--w->ncopy].to);
}

static int run_copies(TsWire *w) {
  int failed = 0;
  for (int i = 0; i < w->ncopy; i++) {
    TsTensor *x = w->copy[i].from, *y = w->copy[i].to;
    TsDevice *d = ts_device_at(y->meta.device);
    if (!failed)
      failed = d->copy_met(d, ts_tensor_write_on(y, d->index, true),
                           ts_device_at(x->meta.device), ts_tensor_read_on(x, x->meta.device),
                           ts_meta_nbytes(&y->meta), &w->c->err);
    ts_tensor_unref(y);
  }
  w->ncopy = 0;
  return failed;
}

/* Over the host or the copy engine a storage goes whole: what is only some of it is packed. */
static TsTensor *copied(TsContext *c, TsTensor *x, int device) {
  bool some = ts_tensor_numel(x) * ts_dtypes[x->meta.dtype].nbytes != x->storage->nbytes;
  TsTensor *packed = some ? ts_tensor_copy(c, x) : ts_tensor_ref(x);
  TsTensor *there = packed ? ts_tensor_to(c, packed, device) : NULL;
  ts_tensor_unref(packed);
  return there;
}

/* ---- other processes */
static bool is_host(int rank, int place) {
  if (rank < 0) return ts_device_at(place)->host_memory;
  return place <= ts_world_at(rank)->ncpu; /* cpu:0, the null device, cpu:1 .. */
}

TsWireEnd ts_wire_end_of(const TsMesh *m, int p) {
  int device = m->device[p] < 0 ? 0 : m->device[p], place = m->index[p] < 0 ? 0 : m->index[p];
  return (TsWireEnd){m->rank[p], device, is_host(m->rank[p], place)};
}

bool ts_wire_same_memory(const TsMesh *m, int p, const TsMesh *of, int q) {
  TsWireEnd a = ts_wire_end_of(m, p), b = ts_wire_end_of(of, q);
  bool same = a.rank == b.rank || b.rank < 0; /* of what each process has it takes its own */
  return same && (m->index[p] == of->index[q] || (a.host && b.host));
}

static int add_post(TsWire *w, const TsWirePost *p) {
  if (w->npost == w->cappost) {
    int cap = w->cappost ? 2 * w->cappost : 16;
    TsWirePost *more = realloc(w->post, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&w->c->err);
    w->post = more, w->cappost = cap;
  }
  w->post[w->npost++] = *p;
  return 0;
}

/* Between two processes, of which this one may be neither. Nothing of nothing is sent. */
static int post(TsWire *w, TsTensor *x, TsWireEnd from, TsWireEnd to, TsTensor **there) {
  TsMeta m = x->meta;
  m.device = (uint8_t)to.device, m.weak = 0, m.layout = 0;
  bool sends = from.device != TS_DEVICE_AWAY, gets = to.device != TS_DEVICE_AWAY;
  TsWirePost p = {from.rank, to.rank, ts_meta_nbytes(&m), NULL, !from.host && !to.host};
  if (!(*there = ts_tensor_new(w->c, &m))) return -1;
  if (!p.nbytes) return 0;
  if (sends) p.x = ts_tensor_contiguous(w->c, x);
  if (gets) p.x = ts_tensor_ref(*there);
  if ((!sends && !gets) || p.x) {
    if (!add_post(w, &p)) return 0;
    ts_tensor_unref(p.x);
  }
  ts_tensor_unref(*there);
  *there = NULL;
  return -1;
}

static void drop_posts(TsWire *w) {
  for (int i = 0; i < w->npost; i++) ts_tensor_unref(w->post[i].x);
  w->npost = 0;
}

static void *address(const TsWirePost *p) {
  TsTensor *x = p->x;
  bool host = ts_device_at(x->meta.device)->host_memory, sends = p->from == ts_world_rank();
  int device = x->meta.device;
  if (host) return sends ? ts_tensor_read(x) : ts_tensor_write(x);
  return sends ? ts_tensor_read_on(x, device) : ts_tensor_write_on(x, device, true);
}

static int exchange(TsWire *w) {
  TsContext *c = w->c;
  TsTransfer *list = malloc(sizeof *list * (size_t)w->npost);
  int failed = list ? 0 : ts_error_memory(&c->err);
  bool gpu = true;
  if (!failed && c->offload) failed = c->offload->flush(c, false);
  for (int i = 0; i < w->npost && !failed; i++) {
    const TsWirePost *p = &w->post[i];
    int device = p->x && !ts_device_at(p->x->meta.device)->host_memory ? p->x->meta.device : 0;
    list[i] = (TsTransfer){p->from, p->to, device, NULL, p->nbytes};
    failed = p->x && !(list[i].at = address(p));
    gpu &= p->gpu;
  }
  if (!failed)
    failed =
        ts_world_exchange(ts_collective_current(), w->rounds++, w->npost, list, gpu, &c->err);
  free(list);
  drop_posts(w);
  return failed;
}

/* For each process's own end. */
static int post_to_all(TsWire *w, TsTensor *x, TsWireEnd out, TsWireEnd in, TsTensor **there) {
  int failed = 0;
  *there = NULL;
  for (int r = 0; r < ts_world_size() && !failed; r++) {
    TsTensor *t = NULL;
    bool own = r == ts_world_rank();
    if (r == out.rank) continue;
    failed = post(w, x, out, (TsWireEnd){r, own ? in.device : TS_DEVICE_AWAY, in.host}, &t);
    if (own)
      *there = t;
    else
      ts_tensor_unref(t);
  }
  if (failed) ts_tensor_unref(*there), *there = NULL;
  return failed;
}

int ts_wire_fetch(TsWire *w, TsTensor *x, TsWireEnd out, TsWireEnd in, TsTensor **there) {
  if (w->failed) return *there = NULL, -1;
  if (out.rank >= 0 && in.rank >= 0 && out.rank != in.rank) return post(w, x, out, in, there);
  if (out.rank >= 0 && in.rank < 0 && ts_world_size() > 1) {
    if (post_to_all(w, x, out, in, there)) return -1;
    if (*there) return 0;
  }
  if (in.device == TS_DEVICE_AWAY) {
    TsMeta m = x->meta;
    m.device = TS_DEVICE_AWAY, m.layout = 0, m.weak = 0;
    *there = ts_tensor_is_away(x) ? ts_tensor_ref(x) : ts_tensor_new(w->c, &m);
    return *there ? 0 : -1;
  }
  TsDevice *to = ts_device_at(in.device), *from = ts_device_at(x->meta.device);
  bool here = from == to || to->host_memory;
  bool lends = !here && !from->host_memory && ts_device_reaches(to, from);
  if (lends && keep(w, x)) return *there = NULL, -1;
  if (lends) w->devices |= 1u << to->index | 1u << from->index;
  if (lends && w->engines && x->contiguous && to->copy_met && ts_tensor_numel(x))
    return bring(w, x, in.device, there);
  *there = lends  ? ts_tensor_lent(w->c, x, in.device)
           : here ? ts_tensor_to(w->c, x, in.device)
                  : copied(w->c, x, in.device);
  return *there ? 0 : -1;
}

int ts_wire_flush(TsWire *w) {
  TsDevice *list[TS_MAX_DEVICES];
  int n = 0;
  for (int d = 0; d < TS_MAX_DEVICES; d++)
    if (w->devices >> d & 1) list[n++] = ts_device_at(d);
  if (n && w->c->offload && w->c->offload->flush(w->c, false)) return -1;
  if (w->npost && exchange(w)) return -1;
  return ts_device_meet(n, list, &w->c->err) || run_copies(w) ? -1 : 0;
}

int ts_wire_end(TsWire *w, int failed) {
  failed = failed || w->failed;
  TsError kept = w->c->err; /* of what failed before */
  if (failed) drop_posts(w), drop_copies(w);
  int apart = ts_wire_flush(w);
  if (w->rounds && !apart && !failed) ts_world_done();
  for (int i = 0; i < w->n; i++) ts_tensor_unref(w->lent[i]);
  drop_copies(w);
  free(w->lent);
  free(w->copy);
  free(w->post);
  if (failed) w->c->err = kept;
  failed = failed || apart ? -1 : 0;
  return w->timed && !w->failed && w->c->times ? ts_times_close(w->c, failed) : failed;
}
