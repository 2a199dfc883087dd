/* From one layout to another: every part of the result is put together of boxes of the old
 * parts. All gathers, scatters and exchanges are this; how they are called is told from their
 * layouts (vm/mesh/collective.h). */
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "vm/core/defer.h"
#include "vm/core/offload.h"
#include "vm/core/vm.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/combine.h"
#include "vm/mesh/failure.h"
#include "vm/mesh/leaves.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"
#include "vm/mesh/times.h"
#include "vm/mesh/wire.h"

typedef struct Run {
  int64_t start, count;
} Run;

/* Elements of part q, and where they go in part p. */
typedef struct Box {
  TsTensor *from, *into;
  int q, p;
} Box;

typedef struct Move {
  TsContext *c;
  const TsParts *from;
  const TsLayout *old, *new; /* of one mesh or of two */
  int p;                     /* part of the result, */
  TsTensor *to;              /* which is this one */
  TsMeshShare share;
  TsTensor **part; /* of the result, as far as they are made */
  int *first;      /* of each old part, the first one with its elements, or -1: it has none */
  int *seen, *source, nsource; /* those that are read for part p */
  Run *run; /* of each old part by axis; NULL: axes are dealt out in blocks */
  TsWire wire;
  Box *box; /* of all parts: copied when all that is sent is there */
  int n, cap;
} Move;

static TsTensor *box_view(TsTensor *t, const int64_t *start, const int64_t *size) {
  TsMeta m = t->meta;
  int64_t offset = 0;
  for (int d = 0; d < m.ndim; d++) offset += start[d] * t->stride[d], m.dim[d] = size[d];
  offset = t->offset + ts_dtype_nbytes((TsDtype)m.dtype, offset);
  return ts_tensor_view(t, &m, t->stride, offset);
}

/* The box of part q at src goes into the part at dst. */
static int note_box(Move *v, int q, const int64_t *src, const int64_t *dst,
                    const int64_t *size) {
  if (v->n == v->cap) {
    int cap = v->cap ? 2 * v->cap : 16;
    Box *more = realloc(v->box, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&v->c->err);
    v->box = more, v->cap = cap;
  }
  Box *box = &v->box[v->n];
  TsTensor *part = box_view(v->from->part[q], src, size);
  *box = (Box){part, part ? box_view(v->to, dst, size) : NULL, q, v->p};
  if (!box->into) ts_tensor_unref(part);
  v->n += box->into != NULL;
  return box->into ? 0 : -1;
}

/* By kernels of the devices that meet, where they have such: 1, 0 or -1. */
static int exchange(Move *v) {
  const TsOffload *o = v->c->offload;
  if (!o || !o->exchange || v->c->on_host || !v->n) return 0;
  TsMeshBox *box = malloc(sizeof *box * (size_t)v->n);
  if (!box) return ts_error_memory(&v->c->err);
  for (int i = 0; i < v->n; i++) box[i] = (TsMeshBox){v->box[i].from, v->box[i].into};
  int done = o->exchange(v->c, v->n, box);
  free(box);
  return done;
}

static int fetch_box(Move *v, Box *box) {
  TsTensor *there = NULL;
  int failed = ts_wire_fetch(&v->wire, box->from, ts_wire_end_of(v->old->mesh, box->q),
                             ts_wire_end_of(v->new->mesh, box->p), &there);
  if (failed) return -1;
  ts_tensor_unref(box->from);
  box->from = there;
  return 0;
}

/* From another device a storage is read whole, so what is a part of one is made one. */
static int pack(Move *v, Box *box) {
  TsTensor *x = box->from;
  if (x->meta.device == box->into->meta.device || ts_tensor_is_away(x) ||
      ts_meta_nbytes(&x->meta) >= x->storage->nbytes)
    return 0;
  TsTensor *packed = ts_tensor_copy(v->c, x);
  if (!packed) return -1;
  box->from = packed;
  ts_tensor_unref(x);
  return 0;
}

static int copy_boxes(Move *v) {
  int done = v->wire.failed ? -1 : exchange(v), failed = done < 0;
  if (done) return failed ? -1 : 0;
  for (int i = 0; i < v->n && !failed; i++) failed = fetch_box(v, &v->box[i]);
  failed = failed || ts_wire_flush(&v->wire);
  for (int i = 0; i < v->n && !failed; i++)
    failed = pack(v, &v->box[i]) || ts_vm_assign(v->c, v->box[i].into, v->box[i].from);
  return failed;
}

static void drop_boxes(Move *v) {
  for (int i = 0; i < v->n; i++) {
    ts_tensor_unref(v->box[i].into);
    ts_tensor_unref(v->box[i].from);
  }
  free(v->box);
  free(v->first);
  free(v->run);
}

/* Part q has what is wanted of the run [start, start + count) of axis d, or some of it. */
static bool meets(const Move *v, int q, int d, int64_t start, int64_t count) {
  int64_t s, n;
  for (int i = 0; ts_layout_run(v->old, d, v->from->meta.dim[d], q, i, &s, &n); i++)
    if (s < start + count && start < s + n) return true;
  return false;
}

/* Notes the cut of a wanted box and a run of part q, axis by axis. */
static int cut_boxes(Move *v, int q, int d, const int64_t *want, const int64_t *at,
                     const int64_t *size, int64_t *src, int64_t *dst, int64_t *n) {
  const TsMeta *m = &v->from->meta;
  if (d == m->ndim) return note_box(v, q, src, dst, n);
  int64_t s, count, before = 0;
  for (int i = 0; ts_layout_run(v->old, d, m->dim[d], q, i, &s, &count); before += count, i++) {
    int64_t from = s > want[d] ? s : want[d];
    int64_t to = s + count < want[d] + size[d] ? s + count : want[d] + size[d];
    if (from >= to) continue;
    src[d] = before + from - s, dst[d] = at[d] + from - want[d], n[d] = to - from;
    if (cut_boxes(v, q, d + 1, want, at, size, src, dst, n)) return -1;
  }
  return 0;
}

/* What is asked of old parts for each new one. */
static int look_at_old(Move *v) {
  const TsMeta *m = &v->from->meta;
  int n = v->from->n;
  bool blocks = false;
  for (int d = 0; d < m->ndim; d++) blocks |= v->old->naxis[d] && v->old->block[d];
  v->first = calloc(3 * (size_t)n, sizeof *v->first);
  v->run = blocks ? NULL : calloc((size_t)n * m->ndim + 1, sizeof *v->run);
  if (!v->first || (!v->run && !blocks)) return ts_error_memory(&v->c->err);
  v->seen = v->first + n, v->source = v->seen + n;
  for (int q = 0; q < n; q++) {
    v->first[q] = ts_layout_has(v->old, q) ? ts_layout_first(v->old, q) : -1;
    for (int d = 0; d < m->ndim && v->run; d++) {
      Run *r = &v->run[q * m->ndim + d];
      if (!ts_layout_run(v->old, d, m->dim[d], q, 0, &r->start, &r->count)) r->count = 0;
    }
  }
  return 0;
}

/* Whose copy of an element is read: the own one, else that of the next part. */
static int find_sources(Move *v) {
  int n = v->from->n;
  if (!v->first && look_at_old(v)) return -1;
  v->nsource = 0;
  for (int k = 0; k < n; k++) {
    int q = (v->p + k) % n;
    if (v->first[q] < 0 || v->seen[v->first[q]] == v->p + 1) continue;
    v->seen[v->first[q]] = v->p + 1;
    v->source[v->nsource++] = q;
  }
  return 0;
}

/* As cut_boxes, of a part that has one run of each axis. */
static int cut_box(Move *v, int q, const int64_t *want, const int64_t *at,
                   const int64_t *size) {
  int64_t src[TS_MAX_RANK], dst[TS_MAX_RANK], n[TS_MAX_RANK];
  const Run *run = &v->run[q * v->from->meta.ndim];
  for (int d = 0; d < v->from->meta.ndim; d++) {
    int64_t s = run[d].start, end = s + run[d].count;
    int64_t from = s > want[d] ? s : want[d];
    int64_t to = end < want[d] + size[d] ? end : want[d] + size[d];
    if (from >= to) return 0;
    src[d] = from - s, dst[d] = at[d] + from - want[d], n[d] = to - from;
  }
  return note_box(v, q, src, dst, n);
}

/* One wanted box, of those parts that have something of it. */
static int fill_box(Move *v, const int64_t *want, const int64_t *at, const int64_t *size) {
  int64_t src[TS_MAX_RANK], dst[TS_MAX_RANK], count[TS_MAX_RANK];
  for (int k = 0; k < v->nsource; k++) {
    int q = v->source[k];
    bool has = true;
    if (v->run) {
      if (cut_box(v, q, want, at, size)) return -1;
      continue;
    }
    for (int d = 0; d < v->from->meta.ndim && has; d++) has = meets(v, q, d, want[d], size[d]);
    if (has && cut_boxes(v, q, 0, want, at, size, src, dst, count)) return -1;
  }
  return 0;
}

static int fill(Move *v, int d, int64_t *want, int64_t *at, int64_t *size) {
  const TsMeta *m = &v->from->meta;
  if (d == m->ndim) return fill_box(v, want, at, size);
  at[d] = 0;
  for (int i = 0; ts_layout_run(v->new, d, m->dim[d], v->p, i, &want[d], &size[d]); i++) {
    if (fill(v, d + 1, want, at, size)) return -1;
    at[d] += size[d];
  }
  return 0;
}

/* Not where a part is still read from the device that has the whole (dealt). */
static bool lies_on(const TsTensor *part, int device) {
  if (part->meta.device == device || ts_tensor_is_away(part)) return true;
  return ts_device_at(part->meta.device)->host_memory && ts_device_at(device)->host_memory;
}

/* A part whose elements one old part has in one piece, in the same memory, is a view of
 * that. */
static TsTensor *as_view(Move *v, const TsMeta *m, bool *failed) {
  int64_t want[TS_MAX_RANK], size[TS_MAX_RANK], start, count;
  const TsParts *f = v->from;
  for (int k = 0; k < f->n; k++) {
    int q = (v->p + k) % f->n;
    bool all = f->part[q] && ts_wire_same_memory(v->new->mesh, v->p, v->old->mesh, q) &&
               lies_on(f->part[q], m->device);
    for (int d = 0; d < m->ndim && all; d++) {
      all = ts_layout_run(v->new, d, f->meta.dim[d], v->p, 0, &want[d], &size[d]) &&
            !(v->new->block[d] && v->new->naxis[d]) &&
            ts_layout_run(v->old, d, f->meta.dim[d], q, 0, &start, &count) &&
            !(v->old->block[d] && v->old->naxis[d]) && start <= want[d] &&
            want[d] + size[d] <= start + count;
      want[d] -= all ? start : 0;
    }
    if (!all) continue;
    TsTensor *box = box_view(f->part[q], want, size);
    TsTensor *there = box ? ts_tensor_to(v->c, box, m->device) : NULL, *y = there;
    if (there && !v->share) {
      y = ts_tensor_copy(v->c, there);
      ts_tensor_unref(there);
    }
    ts_tensor_unref(box);
    *failed = !y;
    return y;
  }
  return NULL;
}

/* An earlier part of the result with the same elements in the same memory. */
static TsTensor *as_other(const Move *v, const TsMeta *m) {
  int first = v->share == TS_MESH_SHARE_all ? ts_layout_first(v->new, v->p) : v->p;
  for (int q = first; q < v->p; q++)
    if (v->part[q] && ts_layout_first(v->new, q) == first &&
        ts_wire_same_memory(v->new->mesh, v->p, v->new->mesh, q))
      return ts_tensor_to(v->c, v->part[q], m->device);
  return NULL;
}

static TsTensor *made_part(Move *v) {
  TsMeta m = ts_layout_part(v->new, &v->from->meta, v->p);
  int64_t want[TS_MAX_RANK], at[TS_MAX_RANK], size[TS_MAX_RANK];
  bool any = ts_meta_numel(&m) > 0, failed = false;
  TsTensor *view = any ? as_view(v, &m, &failed) : NULL;
  if (view || failed || (view = as_other(v, &m))) return view;
  v->to = ts_tensor_new(v->c, &m);
  if (v->to && any && (find_sources(v) || fill(v, 0, want, at, size))) {
    ts_tensor_unref(v->to);
    v->to = NULL;
  }
  return v->to;
}

static TsTensor *away(TsContext *c, const TsTensor *t) {
  TsMeta m = t->meta;
  m.device = TS_DEVICE_AWAY, m.layout = 0, m.weak = 0;
  return ts_tensor_new(c, &m);
}

/* A tensor of one device on all of the mesh: each process has its own. */
static TsTensor *copied(TsContext *c, TsTensor *t, const TsLayout *l, bool share) {
  TsTensor **part = calloc((size_t)l->mesh->n, sizeof *part), *made = NULL;
  if (!part) return ts_error_memory(&c->err), NULL;
  int failed = 0;
  for (int p = 0; p < l->mesh->n && !failed; p++) {
    int device = l->mesh->device[p];
    TsTensor *there =
        ts_mesh_away(l->mesh, p) ? away(c, t) : ts_tensor_to(c, t, device < 0 ? 0 : device);
    part[p] = there && !share ? ts_tensor_copy(c, there) : there;
    if (there && !share) ts_tensor_unref(there);
    failed = !part[p];
  }
  TsMeta m = t->meta;
  m.layout = l->id;
  if (failed)
    for (int p = 0; p < l->mesh->n; p++) ts_tensor_unref(part[p]);
  else
    made = ts_mesh_tensor(c, &m, part);
  free(part);
  return made;
}

TsTensor *ts_mesh_moved_parts(TsContext *c, const TsParts *from, const TsLayout *l,
                              TsMeshShare share) {
  const TsLayout *old = ts_layout_of(&from->meta);
  TsTensor **part = calloc((size_t)l->mesh->n, sizeof *part);
  if (!part) return ts_error_memory(&c->err), NULL;
  Move v = {.c = c, .from = from, .old = old, .new = l, .share = share, .part = part};
  int failed = 0;
  v.wire = ts_wire_begin(c);
  for (v.p = 0; v.p < l->mesh->n && !failed; v.p++)
    failed = ts_layout_has(l, v.p) && !(part[v.p] = made_part(&v));
  failed = ts_wire_end(&v.wire, failed || copy_boxes(&v));
  drop_boxes(&v);
  TsMeta m = from->meta;
  m.layout = l->id;
  TsTensor *made = NULL;
  if (failed)
    for (int p = 0; p < l->mesh->n; p++) ts_tensor_unref(part[p]);
  else
    made = ts_mesh_tensor(c, &m, part);
  free(part);
  return made;
}

static TsTensor *moved(TsContext *c, TsTensor *t, const TsLayout *l, TsMeshShare share) {
  const TsParts *from = ts_mesh_parts(t);
  if (!from) return NULL;
  if (ts_layout_of(&from->meta) == l && share) return ts_tensor_ref(t);
  return ts_mesh_moved_parts(c, from, l, share);
}

/* A tensor is not turned into summands of it: which ones they would be is nobody's to say. */
static TsTensor *no_summands(TsContext *c) {
  ts_error_set(&c->err, TS_ERR_layout, "a tensor cannot be moved into summands of itself");
  ts_error_hint(&c->err, "dist.map with reduce = \"sum\" among what comes out makes them, and "
                         "dist.tensor{init = \"zeros\"}");
  return NULL;
}

static TsTensor *as_planned(TsContext *c, const TsTensor *t, const TsLayout *l) {
  TsMeta m = t->meta;
  m.layout = l->id;
  return ts_mesh_planned(c, &m);
}

/* Summands stay what they are. */
static TsTensor *same_summands(TsContext *c, TsTensor *t, bool share) {
  TsParts *of = ts_mesh_parts(t);
  TsTensor **part = of && !share ? calloc((size_t)of->n, sizeof *part) : NULL, *made = NULL;
  if (of && share) return ts_tensor_ref(t);
  if (!part) return of ? (ts_error_memory(&c->err), NULL) : NULL;
  int failed = 0;
  for (int p = 0; p < of->n && !failed; p++)
    failed = !(part[p] = ts_tensor_copy(c, of->part[p]));
  for (int p = 0; p < of->n && failed; p++) ts_tensor_unref(part[p]);
  if (!failed) made = ts_mesh_tensor(c, &t->meta, part);
  free(part);
  return made;
}

/* No part of a sum lies in the memory of a summand, as the sum of a single one may. */
static bool is_apart(TsTensor *sum, TsTensor *of) {
  const TsParts *a = ts_mesh_parts(sum), *b = ts_mesh_parts(of);
  for (int p = 0; a && b && p < a->n; p++)
    for (int q = 0; q < b->n && a->part[p]; q++)
      if (b->part[q] && a->part[p]->storage == b->part[q]->storage) return false;
  return a && b;
}

/* A tensor of one device, cut: parts are read where it lies, so no device gets all of it. */
static TsTensor *dealt(TsContext *c, TsTensor *t, const TsLayout *l, const TsLayout *all) {
  int n = l->mesh->n, failed = ts_defer_force(t);
  TsParts *from = calloc(1, sizeof *from + sizeof from->part[0] * (size_t)n);
  if (!from) return ts_error_memory(&c->err), NULL;
  from->meta = t->meta, from->meta.layout = all->id, from->n = n;
  for (int p = 0; p < n && !failed; p++) {
    from->part[p] = ts_mesh_away(l->mesh, p) ? away(c, t) : ts_tensor_ref(t);
    failed = !from->part[p];
  }
  TsTensor *y = failed ? NULL : ts_mesh_moved_parts(c, from, l, TS_MESH_SHARE_none);
  for (int p = 0; p < n; p++) ts_tensor_unref(from->part[p]);
  free(from);
  return y;
}

static TsTensor *brought(TsContext *c, TsTensor *t, const TsLayout *l, TsMeshShare share) {
  if (l->partial && ts_layout_of(&t->meta) != l) return no_summands(c);
  if (l->partial && !ts_mesh_plans(c, 1, &t)) return same_summands(c, t, share);
  if (ts_mesh_plans(c, 1, &t)) return as_planned(c, t, l);
  if (ts_mesh_there(c, l->mesh) || (ts_tensor_is_away(t) && !ts_tensor_read(t))) return NULL;
  for (int d = 0; d < l->ndim && ts_dtype_in_blocks(t->meta.dtype); d++)
    if (l->naxis[d]) {
      ts_error_set(&c->err, TS_ERR_layout, "%s is stored in blocks, which are not split",
                   ts_dtype_name(ts_tensor_dtype(t)));
      ts_error_hint(&c->err, "dist.replicate(x, mesh), or split what it is cast to");
      return NULL;
    }
  if (!ts_mesh_is(t)) {
    const TsLayout *all = ts_layout_replicated(l->mesh, t->meta.ndim, &c->err);
    if (!all) return NULL;
    return all == l ? copied(c, t, l, share) : dealt(c, t, l, all);
  }
  const TsLayout *old = ts_layout_of(&t->meta);
  const TsLayout *after = old->partial ? ts_layout_summed(old, &c->err) : old;
  if (!after) return NULL;
  if (old->partial && ts_layout_scatters(after, old->partial, l))
    return ts_mesh_summed_into(c, ts_mesh_parts(t), l);
  TsTensor *sum = old->partial ? ts_mesh_summed(c, t) : ts_tensor_ref(t);
  bool lies = sum && old->partial && sum->meta.layout == l->id && is_apart(sum, t);
  TsTensor *y = lies ? ts_tensor_ref(sum) : sum ? moved(c, sum, l, share) : NULL;
  ts_tensor_unref(sum);
  return y;
}

TsTensor *ts_mesh_move(TsContext *c, TsTensor *t, const TsLayout *l, TsMeshShare share) {
  bool timed = c->times != NULL;
  if (timed && ts_times_open(c, NULL, NULL)) return NULL;
  TsTensor *y = brought(c, t, l, share);
  if (timed && ts_times_close(c, !y)) {
    ts_tensor_unref(y);
    y = NULL;
  }
  if (!y) ts_mesh_failed_move(c, &t->meta, l);
  return y;
}

/* ---- in place */
bool ts_mesh_fitting(TsContext *c, TsTensor *dst, TsTensor *src, TsTensor **lying) {
  TsParts *to = ts_mesh_parts(dst);
  *lying = NULL;
  if (!to) return false;
  const TsLayout *l = ts_layout_of(&to->meta);
  if (to->copied) {
    ts_error_set(&c->err, TS_ERR_layout,
                 "writing into a view of a tensor that is split along its axis would be lost: "
                 "its elements were moved");
    return false;
  }
  if (src->meta.weak) return true;
  TsTensor *whole = src, *stretched = NULL;
  if (!ts_meta_same_shape(&src->meta, &dst->meta)) {
    TsAttr shape = ts_attr_ints(dst->meta.dim, dst->meta.ndim);
    whole = stretched = ts_vm_call1(c, TS_OP_broadcast_to, 1, &src, &shape);
  }
  if (whole) ts_collective_note_move(c, &whole->meta, l, "assignment");
  if (whole) *lying = ts_mesh_move(c, whole, l, TS_MESH_SHARE_source);
  ts_tensor_unref(stretched);
  return *lying != NULL;
}

/* ---- summands */
/* Which of the pieces that are summed part p has, and how many there are. */
static int place_of(const TsLayout *l, int p, int *pieces) {
  int k = 0;
  *pieces = 1;
  for (int a = 0; a < l->mesh->naxis; a++) {
    if (!(l->partial >> a & 1)) continue;
    k = k * l->mesh->size[a] + ts_mesh_coordinate(l->mesh, p, a);
    *pieces *= l->mesh->size[a];
  }
  return k;
}

static int leaves_of(const TsLayout *l) {
  int pieces;
  (void)place_of(l, 0, &pieces);
  return l->leaves ? l->leaves : pieces;
}

int ts_mesh_summands(const TsLayout *l, int p) {
  TsLeafSum sum[TS_LEAF_SUMS];
  int pieces, k = place_of(l, p, &pieces), n = leaves_of(l);
  return ts_leaves_sums(n, (int)((int64_t)k * n / pieces), (int)((int64_t)(k + 1) * n / pieces),
                        sum);
}

TsTensor *ts_mesh_summed(TsContext *c, TsTensor *t) {
  TsParts *of = ts_mesh_parts(t);
  return of ? ts_mesh_summed_parts(c, of) : NULL;
}

/* Number k of the first axis. */
static TsTensor *summand_of(TsTensor *part, int k) {
  TsMeta m = part->meta;
  memmove(m.dim, m.dim + 1, sizeof *m.dim * --m.ndim);
  return ts_tensor_view(part, &m, part->stride + 1,
                        part->offset + ts_dtype_nbytes((TsDtype)m.dtype, k * part->stride[0]));
}

/* The sums that part p has, of its first axis. */
static int sums_of_part(const TsParts *of, int p, TsLeafSum *sum, int *nsum) {
  const TsLayout *l = ts_layout_of(&of->meta);
  int pieces, k = place_of(l, p, &pieces), leaves = leaves_of(l), failed = 0;
  int n = ts_leaves_sums(leaves, (int)((int64_t)k * leaves / pieces),
                         (int)((int64_t)(k + 1) * leaves / pieces), sum);
  for (*nsum = 0; *nsum < n && !failed; *nsum += !failed) {
    failed = !(sum[*nsum].value = summand_of(of->part[p], *nsum));
  }
  return failed;
}

TsTensor *ts_mesh_summed_parts(TsContext *c, const TsParts *of) {
  return ts_mesh_summed_into(c, of, NULL);
}

TsTensor *ts_mesh_summed_into(TsContext *c, const TsParts *of, const TsLayout *to) {
  const TsLayout *l = ts_layout_of(&of->meta), *made = ts_layout_summed(l, &c->err);
  size_t n = (size_t)of->n;
  TsTensor **part = made ? calloc(n, sizeof *part) : NULL, *whole = NULL;
  TsLeafSum *all = made ? malloc(sizeof *all * n * TS_LEAF_SUMS) : NULL;
  TsLeafSum **sum = made ? calloc(n, sizeof *sum) : NULL;
  int *nsum = made ? calloc(n, sizeof *nsum) : NULL;
  int failed = made && !(part && all && sum && nsum) ? ts_error_memory(&c->err) : !made;
  for (int p = 0; p < of->n && !failed; p++)
    failed = sums_of_part(of, p, sum[p] = all + p * TS_LEAF_SUMS, &nsum[p]);
  TsMeta m = of->meta;
  if (!failed) m.layout = to ? to->id : made->id;
  TsMeshSum job = {.whole = &m,
                   .from = made,
                   .axes = l->partial,
                   .kind = TS_FACTOR_sum,
                   .leaves = leaves_of(l),
                   .sum = sum,
                   .nsum = nsum,
                   .out = part};
  if (!failed) failed = ts_mesh_combine(c, 1, &job);
  for (int p = 0; p < of->n && nsum && all; p++)
    for (int k = 0; k < nsum[p]; k++) ts_tensor_unref(sum[p][k].value);
  if (!failed) whole = ts_mesh_tensor(c, &m, part);
  free(part);
  free(all);
  free(sum);
  free(nsum);
  return whole;
}
