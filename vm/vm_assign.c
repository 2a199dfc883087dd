/* Assignments: elements of tensors that exist become others, of one tensor or of several, all or none.
 *
 * Of several everything that may be wrong or need memory comes first. Then launches on devices, which
 * alone may still be refused, and the second one leaves what the first one did; then copies by the CPU,
 * and last new values that are given away, whose storages exchange what they hold
 * (ts_tensor_exchange): neither can fail. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "vm/core/capture.h"
#include "vm/core/copy.h"
#include "vm/core/defer.h"
#include "vm/core/mapped.h"
#include "vm/core/offload.h"
#include "vm/core/profile.h"
#include "vm/core/tape.h"
#include "vm/mesh/parts.h"
#include "vm/mesh/planned.h"
#include "vm/write.h"

/* src is stretched to dst, never dst. */
static int check_fit(TsContext *c, const TsMeta *dst, const TsMeta *src) {
  TsMeta m = *dst;
  char a[TS_META_TEXT], b[TS_META_TEXT];
  if (ts_meta_broadcast(dst, src, &m) || !ts_meta_same_shape(&m, dst))
    return ts_error_set(&c->err, TS_ERR_shape, "assignment: %s does not fit into %s",
                        ts_meta_text(src, a), ts_meta_text(dst, b));
  if ((ts_dtype_in_blocks(dst->dtype) || ts_dtype_in_blocks(src->dtype)) &&
      !ts_meta_same_shape(dst, src))
    return ts_error_set(&c->err, TS_ERR_dtype,
                        "assignment: what is stored in blocks is not broadcast");
  return 0;
}

/* The same, and a bare number is one of dst's type. */
static int check(TsContext *c, const TsTensor *dst, const TsTensor *src) {
  bool number = src->meta.weak && !src->storage->symbolic;
  if (check_fit(c, &dst->meta, &src->meta)) return -1;
  return number ? ts_dtype_check_number(ts_tensor_dtype(dst), ts_tensor_number_value(src),
                                        "assignment", &c->err)
                : 0;
}

static int copy_into_mesh(TsContext *c, TsTensor *dst, TsTensor *src);

static int copy_elements(TsContext *c, TsTensor *dst, TsTensor *src) {
  if (ts_mesh_is(dst)) return copy_into_mesh(c, dst, src);
  if (ts_tensor_is_away(dst)) return 0; /* its own process does so */
  int done = ts_offload_on(c, dst->meta.device) ? c->offload->assign(c, dst, src) : 0;
  if (done == 1) c->assigned++;
  if (done) return done == 1 ? 0 : -1;
  const void *from = ts_tensor_read(src);
  void *to = from ? ts_tensor_write(dst) : NULL;
  int held = ts_cpu_hold_interrupts();
  if (to) {
    int64_t ds[TS_MAX_RANK], ss[TS_MAX_RANK];
    int skip = dst->meta.ndim - src->meta.ndim;
    TsDtype dd = ts_tensor_dtype(dst), sd = ts_tensor_dtype(src);
    for (int i = 0; i < dst->meta.ndim; i++) {
      bool spread = i < skip || src->meta.dim[i - skip] == 1;
      ds[i] = ts_dtype_nbytes(dd, dst->stride[i]);
      ss[i] = spread ? 0 : ts_dtype_nbytes(sd, src->stride[i - skip]);
    }
    if (ts_dtype_in_blocks(dd) && sd == dd)
      memcpy(to, from, (size_t)ts_meta_nbytes(&dst->meta)); /* it has no views */
    else if (dd == sd)
      ts_copy_nd(dst->meta.ndim, dst->meta.dim, to, ds, from, ss, ts_dtypes[dd].nbytes);
    else
      ts_convert_nd(dst->meta.ndim, dst->meta.dim, to, dd, ds, from, sd, ss);
  }
  ts_cpu_let_interrupts(held);
  c->assigned++;
  if (to && ts_mapped_changed() && ts_mapped_check(c, 1, &src)) to = NULL;
  return to ? 0 : -1;
}

/* A leaf takes what has no gradients as it is: it goes on as a leaf with other elements. */
static bool is_taped(const TsContext *c, const TsTensor *dst, const TsTensor *src) {
  bool leaf = dst->requires_grad && !dst->origin;
  if (c->no_grad || !ts_dtype_is(ts_tensor_dtype(dst), TS_KIND_F | TS_KIND_C)) return false;
  return ts_tape_asks(src) || (ts_tape_asks(dst) && !leaf);
}

static TsRecord *begin_taped(TsContext *c, TsTensor *dst, TsTensor *src) {
  TsRecord *w = ts_tape_begin_write(c, dst);
  if (!w || !ts_tape_take_write(w, src)) return w;
  ts_record_free(w);
  return NULL;
}

static int assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  if (check(c, dst, src)) return -1;
  if (c->capture) return ts_capture_assign(c, dst, src);
  if (ts_write_check(c, dst)) return -1;
  if (ts_defer_force(src) || ts_defer_force(dst)) return -1;
  if (c->watched) c->defer->wrote(dst);
  TsTensor *own = NULL; /* overlapping views must not see their own writes */
  if (src->storage == dst->storage && !(own = ts_tensor_copy(c, src))) return -1;
  TsRecord *record = NULL;
  int failed = is_taped(c, dst, src) && !(record = begin_taped(c, dst, src));
  if (!failed) {
    dst->storage->version++;
    failed = copy_elements(c, dst, own ? own : src);
  }
  if (record && !failed)
    ts_tape_end_write(record, dst);
  else
    ts_record_free(record);
  ts_tensor_unref(own);
  return failed;
}

int ts_vm_assign(TsContext *c, TsTensor *dst, TsTensor *src) {
  TsActivity *w = ts_activity_begin_call(c, TS_ACTIVITY_operator, "assignment");
  int failed = assign(c, dst, src);
  TsCall call = {.op = TS_OP_COUNT, .nin = 1, .nout = 1, .in = &src, .out = &dst};
  ts_activity_end_call(w, failed ? NULL : &call);
  return failed;
}

/* What is missing for that but the copy itself; x: as `fitting` found it. A device converts before. */
static TsTensor *prepared(TsContext *c, TsTensor *dst, TsTensor *x) {
  if (!x || c->capture || ts_tensor_is_away(dst)) return x;
  if (!ts_offload_on(c, dst->meta.device)) {
    if (ts_tensor_write(dst)) return x;
    ts_tensor_unref(x);
    return NULL;
  }
  if (x->meta.weak || ts_tensor_dtype(x) != ts_tensor_dtype(dst)) {
    TsMeta m = x->meta;
    m.dtype = dst->meta.dtype, m.device = dst->meta.device, m.weak = 0;
    TsTensor *y = ts_tensor_new(c, &m);
    if (y && copy_elements(c, y, x)) ts_tensor_unref(y), y = NULL;
    ts_tensor_unref(x);
    x = y;
  }
  if (!x || !c->offload->ready(c, dst, x)) return x;
  ts_tensor_unref(x);
  return NULL;
}

static TsTensor *without_gradients(TsTensor *src) {
  if (!ts_tape_asks(src)) return ts_tensor_ref(src);
  TsTensor *t = ts_tensor_view(src, &src->meta, src->stride, src->offset);
  if (t) t->apart = 1;
  return t;
}

/* src as it is copied into dst without more memory, and without gradients: what is assigned
 * together is what was saved, or found by a search. */
static TsTensor *fitting(TsContext *c, TsTensor *dst, TsTensor *src) {
  if (check(c, dst, src)) return NULL;
  if (ts_defer_force(src) || ts_defer_force(dst) || ts_defer_touch(dst->storage)) return NULL;
  if (ts_tensor_is_away(dst)) return ts_tensor_ref(src);
  if (src->meta.weak && !src->storage->symbolic) return ts_tensor_ref(src);
  bool other = ts_offload_on(c, dst->meta.device) || ts_offload_on(c, src->meta.device);
  if (other && dst->meta.device != src->meta.device)
    return ts_tensor_to(c, src, dst->meta.device);
  if (src->storage == dst->storage) return ts_tensor_copy(c, src);
  return without_gradients(src);
}

/* ---- several */
typedef struct Change {
  TsTensor *dst, *from; /* of one device; a reference of from, ready to be read */
  TsRecord *record;     /* of the tape; or NULL */
  bool given;
} Change;

/* A tensor over a mesh, whose parts are changes. */
typedef struct Spread {
  TsTensor *dst, *lying; /* lying: the new value under its layout, or NULL */
  TsRecord *record;
} Spread;

typedef struct Changes {
  TsContext *c;
  int n, cap, nspread;
  Change *change;
  Spread *spread; /* has room for all */
} Changes;

static int add(Changes *w, TsTensor *dst, TsTensor *src, bool give) {
  if (w->n == w->cap) {
    int cap = w->cap ? 2 * w->cap : 16;
    Change *more = realloc(w->change, sizeof *more * (size_t)cap);
    if (!more) return ts_error_memory(&w->c->err);
    w->change = more, w->cap = cap;
  }
  Change *e = &w->change[w->n];
  *e = (Change){.dst = dst};
  if (!w->c->capture && ts_write_check(w->c, dst)) return -1;
  if (give && ts_tensor_exchanges(dst, src)) {
    /* By a view, so that who else is to have it gets a copy. */
    e->from = ts_tensor_view(src, &src->meta, src->stride, src->offset);
    if (!e->from || ts_defer_touch(dst->storage)) return ts_tensor_unref(e->from), -1;
    e->given = true;
  } else {
    if (!(e->from = prepared(w->c, dst, fitting(w->c, dst, src)))) return -1;
    bool taped = !w->c->capture && is_taped(w->c, dst, e->from);
    if (taped && !(e->record = begin_taped(w->c, dst, e->from)))
      return ts_tensor_unref(e->from), -1;
  }
  w->n++;
  return 0;
}

/* Of a list all of which was checked. */
static int put(TsContext *c, Change *e) {
  if (c->capture) return ts_vm_assign(c, e->dst, e->from);
  TsActivity *a = ts_activity_begin_call(c, TS_ACTIVITY_operator, "assignment");
  if (c->watched) c->defer->wrote(e->dst);
  e->dst->storage->version++;
  int failed = copy_elements(c, e->dst, e->from);
  if (!failed && e->record) ts_tape_end_write(e->record, e->dst), e->record = NULL;
  TsCall call = {.op = TS_OP_COUNT, .nin = 1, .nout = 1, .in = &e->from, .out = &e->dst};
  ts_activity_end_call(a, failed ? NULL : &call);
  return failed;
}

/* Parts may be one tensor: it is given once. */
static bool is_first(TsTensor *const *from, int p) {
  for (int q = 0; q < p; q++)
    if (from[q] && from[q]->storage == from[p]->storage) return false;
  return true;
}

static int add_spread(Changes *w, TsTensor *dst, TsTensor *src, bool give) {
  TsContext *c = w->c;
  Spread *s = &w->spread[w->nspread++];
  *s = (Spread){.dst = dst};
  if (ts_mesh_plans(c, 1, &dst)) return 0;
  if (!ts_mesh_fitting(c, dst, src, &s->lying)) return -1;
  TsParts *to = ts_mesh_parts(dst), *from = to && s->lying ? ts_mesh_parts(s->lying) : NULL;
  int failed = !to || (s->lying && !from);
  for (int p = 0; !failed && p < to->n; p++)
    if (to->part[p])
      failed = add(w, to->part[p], from ? from->part[p] : src,
                   give && from && is_first(from->part, p));
  return failed ? -1 : 0;
}

static int add_any(Changes *w, TsTensor *dst, TsTensor *src, bool give) {
  TsContext *c = w->c;
  if (!ts_mesh_is(dst)) return add(w, dst, src, give);
  if (check(c, dst, src) || ts_write_check(c, dst) || ts_defer_force(src) ||
      ts_defer_force(dst) || ts_defer_touch(dst->storage))
    return -1;
  bool own = src->storage == dst->storage;
  TsTensor *from = own ? ts_tensor_copy(c, src) : without_gradients(src);
  TsRecord *record = NULL;
  int failed = !from || (is_taped(c, dst, from) && !(record = begin_taped(c, dst, from)));
  int k = w->nspread;
  if (!failed) failed = add_spread(w, dst, from, give && from == src);
  if (w->nspread > k)
    w->spread[k].record = record;
  else
    ts_record_free(record);
  ts_tensor_unref(from);
  return failed ? -1 : 0;
}

static int begin(Changes *w, TsContext *c, int n) {
  *w = (Changes){.c = c, .spread = calloc((size_t)n + 1, sizeof *w->spread)};
  return w->spread ? 0 : ts_error_memory(&c->err);
}

static void give(TsContext *c, Change *e) {
  if (c->watched) c->defer->wrote(e->dst);
  ts_tensor_exchange(e->dst, e->from);
  c->exchanged++;
}

static int run(Changes *w) {
  TsContext *c = w->c;
  int held = ts_cpu_hold_interrupts(), failed = 0;
  for (int i = 0; i < w->nspread && c->watched; i++) c->defer->wrote(w->spread[i].dst);
  for (int here = 0; here < 2; here++)
    for (int i = 0; i < w->n && !failed; i++) {
      Change *e = &w->change[i];
      if (!e->given && here == !ts_offload_on(c, e->dst->meta.device)) failed = put(c, e);
    }
  for (int i = 0; i < w->n && !failed; i++)
    if (w->change[i].given) give(c, &w->change[i]);
  for (int i = 0; i < w->nspread && !failed; i++) {
    Spread *s = &w->spread[i];
    s->dst->storage->version++;
    if (!ts_tensor_is_planned(s->dst)) s->dst->storage->valid = 1u << TS_DEVICE_MESH;
    if (s->record) ts_tape_end_write(s->record, s->dst);
    s->record = NULL;
  }
  ts_cpu_let_interrupts(held);
  return failed;
}

static int end(Changes *w, int failed) {
  for (int i = 0; i < w->n; i++) {
    ts_tensor_unref(w->change[i].from);
    ts_record_free(w->change[i].record);
  }
  for (int i = 0; i < w->nspread; i++) {
    ts_tensor_unref(w->spread[i].lying);
    ts_record_free(w->spread[i].record);
  }
  free(w->change);
  free(w->spread);
  return failed ? -1 : 0;
}

static int copy_into_mesh(TsContext *c, TsTensor *dst, TsTensor *src) {
  Changes w;
  return end(&w, begin(&w, c, 1) || add_spread(&w, dst, src, false) || run(&w));
}

static int change_all(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src,
                      bool give) {
  Changes w;
  int failed = begin(&w, c, n);
  for (int i = 0; i < n && !failed; i++) failed = add_any(&w, dst[i], src[i], give);
  if (end(&w, failed || run(&w))) return -1;
  c->commits++;
  return 0;
}

int ts_vm_assign_all(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src) {
  return change_all(c, n, dst, src, false);
}

int ts_vm_replace_all(TsContext *c, int n, TsTensor *const *dst, TsTensor *const *src) {
  return change_all(c, n, dst, src, true);
}
