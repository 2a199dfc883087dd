/* See vm/mesh/parts.h: life of parts, and their way to the host and back. */
#include "vm/mesh/parts.h"

#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "vm/core/copy.h"
#include "vm/core/vm.h"
#include "net/world.h"
#include "vm/mesh/away.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/leaves.h"

static void release(TsTensor **part, int n) {
  for (int p = 0; p < n; p++) ts_tensor_unref(part[p]);
}

static TsParts *parts_of(const TsStorage *s) {
  for (TsCopy *p = s->copies; p; p = p->next)
    if (p->device == TS_DEVICE_MESH) return p->at;
  return NULL;
}

TsTensor *ts_mesh_tensor(TsContext *c, const TsMeta *whole, TsTensor **part) {
  const TsMesh *m = ts_layout_of(whole)->mesh;
  TsParts *parts = malloc(sizeof *parts + sizeof *parts->part * (size_t)m->n);
  if (!parts) {
    release(part, m->n);
    ts_error_memory(&c->err);
    return NULL;
  }
  parts->meta = *whole;
  parts->meta.device = TS_DEVICE_MESH, parts->meta.weak = 0;
  parts->copied = false;
  parts->seen = 0;
  parts->n = m->n;
  memcpy(parts->part, part, sizeof *part * (size_t)m->n);
  TsTensor *t = ts_tensor_placed(c, &parts->meta, TS_DEVICE_MESH);
  if (!t) {
    release(part, m->n);
    free(parts);
    return NULL;
  }
  t->storage->release = NULL; /* the device frees what stands there */
  t->storage->release_arg = (void *)(uintptr_t)t->id;
  ts_tensor_place(t, parts);
  t->storage->valid = 1u << TS_DEVICE_MESH;
  return t;
}

/* ---- bytes of the host */
/* Each run of a part, as a box within the whole: where it begins there, and in the part. */
typedef int Box(void *arg, const int64_t *whole, const int64_t *part, const int64_t *size);

static int boxes(const TsLayout *l, const TsMeta *m, int p, int d, int64_t *whole,
                 int64_t *part, int64_t *size, Box *each, void *arg) {
  if (d == m->ndim) return each(arg, whole, part, size);
  part[d] = 0;
  for (int i = 0; ts_layout_run(l, d, m->dim[d], p, i, &whole[d], &size[d]); i++) {
    if (boxes(l, m, p, d + 1, whole, part, size, each, arg)) return -1;
    part[d] += size[d];
  }
  return 0;
}

typedef struct ToHost {
  TsTensor *part;
  const TsMeta *meta;
  char *host, *at; /* of the whole, of the part */
  bool back;       /* from the host to the part */
} ToHost;

static int copy_box(void *arg, const int64_t *whole, const int64_t *part, const int64_t *size) {
  const ToHost *h = arg;
  int64_t all[TS_MAX_RANK], own[TS_MAX_RANK], a = 0, b = 0;
  int64_t nbytes = ts_dtypes[h->meta->dtype].nbytes;
  ts_meta_strides(h->meta, all);
  for (int d = 0; d < h->meta->ndim; d++) {
    all[d] *= nbytes, own[d] = h->part->stride[d] * nbytes;
    a += whole[d] * all[d], b += part[d] * own[d];
  }
  if (h->back)
    ts_copy_nd(h->meta->ndim, size, h->at + b, own, h->host + a, all, nbytes);
  else
    ts_copy_nd(h->meta->ndim, size, h->host + a, all, h->at + b, own, nbytes);
  return 0;
}

/* Of parts with the same elements one of this process is enough. */
static bool is_first_here(const TsParts *p, int i) {
  const TsLayout *l = ts_layout_of(&p->meta);
  int first = ts_layout_first(l, i);
  for (int q = first; q < i; q++)
    if (p->part[q] && ts_layout_first(l, q) == first && !ts_tensor_is_away(p->part[q]))
      return false;
  return true;
}

static int copy_parts(TsParts *p, char *host, bool back) {
  const TsLayout *l = ts_layout_of(&p->meta);
  for (int i = 0; i < p->n; i++) {
    int64_t whole[TS_MAX_RANK], part[TS_MAX_RANK], size[TS_MAX_RANK];
    TsTensor *t = p->part[i];
    if (!t || ts_tensor_is_away(t) || !ts_tensor_numel(t)) continue;
    if (!back && !is_first_here(p, i)) continue;
    ToHost h = {.part = t, .meta = &p->meta, .host = host, .back = back};
    h.at = back ? ts_tensor_write(t) : ts_tensor_read(t);
    if (h.at && ts_dtype_in_blocks(p->meta.dtype)) { /* blocks are never split */
      size_t nbytes = (size_t)ts_meta_nbytes(&p->meta);
      memcpy(back ? h.at : host, back ? host : h.at, nbytes);
      continue;
    }
    if (!h.at || boxes(l, &p->meta, i, 0, whole, part, size, copy_box, &h)) return -1;
  }
  return 0;
}

static uint64_t changes(const TsParts *p) {
  uint64_t n = 0;
  for (int i = 0; i < p->n; i++)
    if (p->part[i]) n += p->part[i]->storage->version;
  return n;
}

static bool changed(const TsStorage *s) {
  const TsParts *p = parts_of(s);
  return p && p->seen != changes(p);
}

/* Over a process each, which has all of it. */
static const TsLayout *everywhere(const TsMeta *m, TsError *err) {
  const char *axis = "rank";
  int n = ts_world_size(), *rank = calloc(2 * (size_t)n, sizeof *rank);
  if (!rank) return ts_error_memory(err), NULL;
  for (int r = 0; r < n; r++) rank[r] = r;
  const TsMesh *all = ts_mesh_make(1, &axis, &n, rank + n, rank, ts_world_rank(), err);
  free(rank);
  return all ? ts_layout_replicated(all, m->ndim, err) : NULL;
}

/* A process has not all of it. */
static bool lacks(const TsLayout *l, int rank) {
  const TsMesh *m = l->mesh;
  for (int i = 0; i < m->n; i++) {
    bool has = !ts_layout_has(l, i);
    for (int q = 0; q < m->n && !has; q++)
      has = ts_layout_has(l, q) && (m->rank[q] == rank || m->rank[q] < 0) &&
            ts_layout_first(l, q) == ts_layout_first(l, i);
    if (!has) return true;
  }
  return false;
}

static bool somebody_lacks(const TsParts *p) {
  for (int r = 0; r < ts_world_size(); r++)
    if (lacks(ts_layout_of(&p->meta), r)) return true;
  return false;
}

static int gather(TsContext *c, TsParts *p, char *to_host) {
  if (ts_world_size() == 1 || !somebody_lacks(p)) return copy_parts(p, to_host, false);
  const TsLayout *l = everywhere(&p->meta, &c->err);
  if (!l) return -1;
  ts_collective_about(c, "read", &p->meta);
  TsTensor *all = ts_mesh_moved_parts(c, p, l, TS_MESH_SHARE_source);
  int failed = !all || copy_parts(parts_of(all->storage), to_host, false);
  ts_tensor_unref(all);
  return failed;
}

static int download(TsDevice *d, void *to_host, const void *from, int64_t nbytes,
                    TsError *err) {
  TsParts *p = (TsParts *)(uintptr_t)from;
  (void)d, (void)nbytes, (void)err;
  p->seen = changes(p);
  int first = 0;
  while (!p->part[first]) first++; /* that has something */
  TsContext *c = p->part[first]->storage->ctx;
  c->no_grad++, c->inside++;
  TsTensor *sum = NULL;
  if (ts_layout_of(&p->meta)->partial)
    p = (sum = ts_mesh_summed_parts(c, p)) ? parts_of(sum->storage) : NULL;
  int failed = !p || gather(c, p, to_host);
  ts_tensor_unref(sum);
  c->no_grad--, c->inside--;
  return failed ? -1 : 0;
}

static int upload(TsDevice *d, void *to, const void *from_host, int64_t nbytes, TsError *err) {
  TsParts *p = to;
  (void)d, (void)nbytes;
  if (ts_layout_of(&p->meta)->partial)
    return ts_error_set(err, TS_ERR_layout, "what is written cannot become summands");
  for (int i = 0; i < p->n; i++)
    if (p->part[i]) p->part[i]->storage->version++; /* views of other tables see so */
  p->seen = changes(p);
  return copy_parts(p, (char *)(uintptr_t)from_host, true);
}

static void *no_memory(TsDevice *d, int64_t nbytes, TsError *err) {
  ts_error_set(err, TS_ERR_device, "%lld bytes cannot lie on a mesh without a layout",
               (long long)nbytes);
  (void)d;
  return NULL;
}

static void free_parts(TsDevice *d, void *at, int64_t nbytes) {
  TsParts *p = at;
  (void)d, (void)nbytes;
  release(p->part, p->n);
  free(p);
}

void ts_mesh_open(void) {
  TsDevice *d = ts_device_at(TS_DEVICE_MESH);
  if (d->kind) return;
  ts_tensor_parts_changed = changed;
  ts_away_open();
  *d = (TsDevice){.name = "mesh",
                  .kind = "mesh",
                  .index = TS_DEVICE_MESH,
                  .runs_kernels = true,
                  .opened = true,
                  .alloc = no_memory,
                  .free = free_parts,
                  .upload = upload,
                  .download = download};
}

TsParts *ts_mesh_parts(TsTensor *t) {
  if (ts_tensor_is_planned(t) && !ts_tensor_read(t)) return NULL;
  if (!(t->storage->valid >> TS_DEVICE_MESH & 1) && !ts_tensor_read_on(t, TS_DEVICE_MESH))
    return NULL;
  return parts_of(t->storage);
}
