/* From one layout to another: every part of the result is put together of boxes of the old parts.
 * All gathers, scatters and exchanges are this; how they are called is told from their layouts
 * (vm/mesh/collective.h). */
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "vm/core/vm.h"
#include "vm/mesh/collective.h"
#include "vm/mesh/leaves.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"

typedef struct Move {
  TsContext *c;
  const TsParts *from;
  const TsLayout *old, *new;
  int p;        /* part of the result, */
  TsTensor *to; /* which is this one, or NULL: not made yet */
  bool share;
} Move;

static TsTensor *box_view(TsTensor *t, const int64_t *start, const int64_t *size) {
  TsMeta m = t->meta;
  int64_t offset = 0;
  for (int d = 0; d < m.ndim; d++) offset += start[d] * t->stride[d], m.dim[d] = size[d];
  offset = t->offset + ts_dtype_nbytes((TsDtype)m.dtype, offset);
  return ts_tensor_view(t, &m, t->stride, offset);
}

/* A box of part q on the device of the result; what is sent lies in one piece. */
static TsTensor *sent(Move *v, int q, const int64_t *start, const int64_t *size, int device) {
  TsTensor *part = v->from->part[q];
  TsTensor *box = box_view(part, start, size), *packed = box, *there = NULL;
  bool stays = !box || part->meta.device == device || ts_device_at(device)->host_memory;
  if (!stays &&
      ts_tensor_numel(box) * ts_dtypes[box->meta.dtype].nbytes != part->storage->nbytes)
    packed = ts_tensor_copy(v->c, box);
  if (packed) there = ts_tensor_to(v->c, packed, device);
  if (packed != box) ts_tensor_unref(packed);
  ts_tensor_unref(box);
  return there;
}

/* Whose copy of an element is read: the own one, else that of the next part. */
static int distance(int p, int q, int n) { return (q - p + n) % n; }

/* Part q has what is wanted of the run [start, start + count) of axis d, or some of it. */
static bool meets(const Move *v, int q, int d, int64_t start, int64_t count) {
  int64_t s, n;
  for (int i = 0; ts_layout_run(v->old, d, v->from->meta.dim[d], q, i, &s, &n); i++)
    if (s < start + count && start < s + n) return true;
  return false;
}

/* Copies the cut of a wanted box and a run of part q, axis by axis. */
static int cut_boxes(Move *v, int q, int d, const int64_t *want, const int64_t *at,
                     const int64_t *size, int64_t *src, int64_t *dst, int64_t *n) {
  const TsMeta *m = &v->from->meta;
  if (d == m->ndim) {
    TsTensor *box = sent(v, q, src, n, v->to->meta.device);
    TsTensor *into = box ? box_view(v->to, dst, n) : NULL;
    int failed = into ? ts_vm_assign(v->c, into, box) : -1;
    ts_tensor_unref(into);
    ts_tensor_unref(box);
    return failed;
  }
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

/* One wanted box, of those parts that have something of it; of equal ones of the nearest. */
static int fill_box(Move *v, const int64_t *want, const int64_t *at, const int64_t *size) {
  int n = v->from->n;
  int64_t src[TS_MAX_RANK], dst[TS_MAX_RANK], count[TS_MAX_RANK];
  for (int q = 0; q < n; q++) {
    bool has = true;
    for (int d = 0; d < v->from->meta.ndim && has; d++) has = meets(v, q, d, want[d], size[d]);
    for (int r = 0; r < n && has; r++)
      has = ts_layout_first(v->old, r) != ts_layout_first(v->old, q) ||
            distance(v->p, q, n) <= distance(v->p, r, n);
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

/* A part whose elements one old part has in one piece is a view of that. */
static TsTensor *as_view(Move *v, const TsMeta *m) {
  int64_t want[TS_MAX_RANK], size[TS_MAX_RANK], start, count;
  const TsParts *f = v->from;
  for (int q = v->p, k = 0; k < f->n; k++, q = (v->p + k) % f->n) {
    bool all = f->part[q] != NULL;
    for (int d = 0; d < m->ndim && all; d++) {
      all = ts_layout_run(v->new, d, f->meta.dim[d], v->p, 0, &want[d], &size[d]) &&
            !(v->new->block[d] && v->new->naxis[d]) &&
            ts_layout_run(v->old, d, f->meta.dim[d], q, 0, &start, &count) &&
            !(v->old->block[d] && v->old->naxis[d]) && start <= want[d] &&
            want[d] + size[d] <= start + count;
      want[d] -= all ? start : 0;
    }
    if (all) return sent(v, q, want, size, m->device);
  }
  return NULL;
}

static TsTensor *made_part(Move *v) {
  TsMeta m = ts_layout_part(v->new, &v->from->meta, v->p);
  TsTensor *view = ts_meta_numel(&m) ? as_view(v, &m) : NULL;
  if (view && (v->share || view->storage->refs == 1)) return view;
  if (view) {
    TsTensor *own = ts_tensor_copy(v->c, view);
    ts_tensor_unref(view);
    return own;
  }
  if (v->c->err.code) return NULL;
  int64_t want[TS_MAX_RANK], at[TS_MAX_RANK], size[TS_MAX_RANK];
  v->to = ts_tensor_new(v->c, &m);
  if (v->to && ts_meta_numel(&m) && fill(v, 0, want, at, size)) {
    ts_tensor_unref(v->to);
    v->to = NULL;
  }
  return v->to;
}

/* A tensor of one device as if it were on all of the mesh. */
static TsTensor *copied(TsContext *c, TsTensor *t, const TsLayout *l, bool share) {
  const TsLayout *all = ts_layout_replicated(l->mesh, t->meta.ndim, &c->err);
  TsTensor **part = all ? calloc((size_t)l->mesh->n, sizeof *part) : NULL, *made = NULL;
  if (!part) return all ? (ts_error_memory(&c->err), NULL) : NULL;
  int failed = 0;
  for (int p = 0; p < l->mesh->n && !failed; p++) {
    int device = l->mesh->device[p];
    TsTensor *there = ts_tensor_to(c, t, device < 0 ? 0 : device);
    bool own = there && !share && all == l;
    part[p] = own ? ts_tensor_copy(c, there) : there;
    if (own) ts_tensor_unref(there);
    failed = !part[p];
  }
  TsMeta m = t->meta;
  m.layout = all->id;
  if (failed)
    for (int p = 0; p < l->mesh->n; p++) ts_tensor_unref(part[p]);
  else
    made = ts_mesh_tensor(c, &m, part);
  free(part);
  return made;
}

static TsTensor *moved(TsContext *c, TsTensor *t, const TsLayout *l, bool share) {
  TsParts *from = ts_mesh_parts(t);
  const TsLayout *old = from ? ts_layout_of(&from->meta) : NULL;
  if (!from) return NULL;
  if (old == l && share) return ts_tensor_ref(t);
  TsTensor **part = calloc((size_t)l->mesh->n, sizeof *part);
  if (!part) return ts_error_memory(&c->err), NULL;
  int failed = 0;
  for (int p = 0; p < l->mesh->n && !failed; p++) {
    if (!ts_layout_has(l, p)) continue;
    Move v = {.c = c, .from = from, .old = old, .new = l, .p = p, .share = share};
    failed = !(part[p] = made_part(&v));
  }
  TsMeta m = t->meta;
  m.layout = l->id;
  TsTensor *made = NULL;
  if (failed)
    for (int p = 0; p < l->mesh->n; p++) ts_tensor_unref(part[p]);
  else
    made = ts_mesh_tensor(c, &m, part);
  free(part);
  return made;
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

TsTensor *ts_mesh_move(TsContext *c, TsTensor *t, const TsLayout *l, bool share) {
  if (l->partial && ts_layout_of(&t->meta) != l) return no_summands(c);
  if (l->partial && !ts_mesh_plans(c, 1, &t)) return same_summands(c, t, share);
  if (ts_mesh_plans(c, 1, &t)) return as_planned(c, t, l);
  if (ts_mesh_there(c, l->mesh)) return NULL;
  for (int d = 0; d < l->ndim && t->meta.dtype == TS_DT_mxfp4; d++)
    if (l->naxis[d]) {
      ts_error_set(&c->err, TS_ERR_layout, "mxfp4 is stored in blocks, which are not split");
      ts_error_hint(&c->err, "dist.replicate(x, mesh), or split what it is cast to");
      return NULL;
    }
  if (!ts_mesh_is(t)) {
    TsTensor *all = copied(c, t, l, share);
    if (!all || all->meta.layout == l->id) return all;
    TsTensor *y = moved(c, all, l, false);
    ts_tensor_unref(all);
    return y;
  }
  if (ts_layout_of(&t->meta)->mesh == l->mesh && !ts_layout_of(&t->meta)->partial)
    return moved(c, t, l, share);
  TsTensor *sum = ts_layout_of(&t->meta)->partial ? ts_mesh_summed(c, t) : ts_tensor_ref(t);
  TsTensor *y = NULL;
  if (sum && ts_layout_of(&sum->meta)->mesh == l->mesh) {
    y = moved(c, sum, l, share);
  } else if (sum) { /* between meshes by way of the host */
    TsMeta m = sum->meta;
    TsTensor *whole = NULL;
    m.device = 0, m.layout = 0;
    if (ts_tensor_read(sum) && (whole = ts_tensor_view(sum, &m, sum->stride, 0)))
      whole->meta.device = 0, whole->meta.layout = 0;
    if (whole) y = ts_mesh_move(c, whole, l, false);
    ts_tensor_unref(whole);
  }
  ts_tensor_unref(sum);
  return y;
}

/* ---- in place */
int ts_mesh_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  if (ts_mesh_plans(c, 1, &dst)) return 0;
  TsParts *to = ts_mesh_parts(dst);
  if (!to) return -1;
  const TsLayout *l = ts_layout_of(&to->meta);
  if (to->copied)
    return ts_error_set(&c->err, TS_ERR_layout,
                        "writing into a view of a tensor that is split along its axis would be "
                        "lost: its elements were moved");
  TsTensor *whole = src, *stretched = NULL, *lying = NULL;
  if (!src->meta.weak && !ts_meta_same_shape(&src->meta, &dst->meta)) {
    TsAttr shape = ts_attr_ints(dst->meta.dim, dst->meta.ndim);
    whole = stretched = ts_vm_call1(c, TS_OP_broadcast_to, 1, &src, &shape);
  }
  if (whole && !whole->meta.weak) ts_collective_note_move(c, &whole->meta, l, "assignment");
  if (whole && !whole->meta.weak) whole = lying = ts_mesh_move(c, whole, l, true);
  const TsParts *from = lying ? ts_mesh_parts(lying) : NULL;
  int failed = !whole || (lying && !from);
  for (int p = 0; p < to->n && !failed; p++)
    if (to->part[p]) failed = ts_vm_assign(c, to->part[p], from ? from->part[p] : whole);
  if (!failed) dst->storage->valid = 1u << TS_DEVICE_MESH;
  ts_tensor_unref(lying);
  ts_tensor_unref(stretched);
  return failed ? -1 : 0;
}

/* ---- summands */
typedef struct Group {
  TsContext *c;
  const TsParts *of;
  const TsLayout *l;
  int leaves;
} Group;

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

static bool together(const TsLayout *l, int p, int q) {
  for (int a = 0; a < l->mesh->naxis; a++)
    if (!(l->partial >> a & 1) &&
        ts_mesh_coordinate(l->mesh, p, a) != ts_mesh_coordinate(l->mesh, q, a))
      return false;
  return true;
}

static TsTensor *sum_of(Group *g, int p, int device) {
  TsLeafSum *all = malloc(sizeof *all * (size_t)g->of->n * TS_LEAF_SUMS);
  if (!all) return ts_error_memory(&g->c->err), NULL;
  int n = 0, pieces, failed = 0;
  for (int q = 0; q < g->of->n && !failed; q++) {
    if (!together(g->l, p, q)) continue;
    int64_t k = place_of(g->l, q, &pieces);
    int m = ts_leaves_sums(g->leaves, (int)(k * g->leaves / pieces),
                           (int)((k + 1) * g->leaves / pieces), &all[n]);
    for (int i = 0; i < m && !failed; i++) {
      TsAttr a[] = {ts_attr_int(0), ts_attr_int(i)};
      TsTensor *part = g->of->part[q], *one = ts_vm_call1(g->c, TS_OP_select, 1, &part, a);
      all[n].value = one ? ts_tensor_to(g->c, one, device) : NULL;
      ts_tensor_unref(one);
      failed = !all[n++].value;
    }
  }
  if (failed) {
    for (int i = 0; i < n; i++) ts_tensor_unref(all[i].value);
    free(all);
    return NULL;
  }
  TsTensor *sum = ts_leaves_root(g->c, TS_FACTOR_sum, g->leaves, n, all), *y = NULL;
  free(all);
  TsAttr a = ts_attr_dtype((TsDtype)g->of->meta.dtype);
  if (sum) y = ts_vm_call1(g->c, TS_OP_cast, 1, &sum, &a);
  ts_tensor_unref(sum);
  return y;
}

TsTensor *ts_mesh_summed(TsContext *c, TsTensor *t) {
  TsParts *of = ts_mesh_parts(t);
  return of ? ts_mesh_summed_parts(c, of) : NULL;
}

TsTensor *ts_mesh_summed_parts(TsContext *c, const TsParts *of) {
  const TsLayout *l = ts_layout_of(&of->meta), *made = ts_layout_summed(l, &c->err);
  TsTensor **part = made ? calloc((size_t)of->n, sizeof *part) : NULL;
  if (!part) return made ? (ts_error_memory(&c->err), NULL) : NULL;
  Group g = {.c = c, .of = of, .l = l};
  int failed = 0;
  g.leaves = leaves_of(l);
  for (int p = 0; p < of->n && !failed; p++) {
    int device = l->mesh->device[p];
    failed = !(part[p] = sum_of(&g, p, device < 0 ? 0 : device));
  }
  TsMeta m = of->meta;
  m.layout = made->id;
  TsTensor *sum = NULL;
  for (int p = 0; p < of->n && failed; p++) ts_tensor_unref(part[p]);
  if (!failed) sum = ts_mesh_tensor(c, &m, part);
  free(part);
  return sum;
}
