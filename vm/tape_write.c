/* Writes in place on the tape.
 *
 * A storage of which elements were written that depend on what requires gradients is taped: it has
 * a value, the output of a record "write" that says what the whole storage holds, made from the
 * value before and what was written. Its tensors are views of that value. Those that the write did
 * not go through learn of it when they are next asked for (ts_tape_refresh): their origin becomes
 * a record "look". So a base, its views, and views of views agree whoever is written.
 *
 * Values that are overwritten are not kept. Whatever a gradient needs of them is computed once
 * more by backward(), as their calls stand in its graph anyway; only of a storage that was filled
 * before it was taped a copy is made, if somebody has seen it.
 *
 * The tape's own tensors count apart (TsStorage.recorded): a storage whose others are gone forgets
 * its value, which holds records, which hold it.
 *
 * Rejected: refusing it as far as a saved value is overwritten (a recurrence that fills a tensor
 * step by step reads what it has written); a list of all views of a storage. */
#include <stdlib.h>

#include "vm/core/capture.h"
#include "vm/tape_state.h"

struct TsTaped {
  struct TsTaped *next;
  TsStorage *s;
  TsOutput *value;  /* with a reference to its record */
  TsTensor *before; /* all elements of `version`, before it was taped; or NULL */
  uint32_t before_version;
};

struct TsTapedTable {
  TsTaped **bucket;
  size_t nbucket, n;
};

/* ---- the values of storages */
static TsTaped **place_of(const struct TsTapedTable *k, const TsStorage *s) {
  size_t h = ((size_t)s >> 6) * 0x9e3779b97f4a7c15u >> 24;
  TsTaped **at = &k->bucket[h & (k->nbucket - 1)];
  while (*at && (*at)->s != s) at = &(*at)->next;
  return at;
}

static TsTaped *taped_of(const TsStorage *s) { return *place_of(s->ctx->taped, s); }

/* More buckets if there is memory for them. */
static void widen(struct TsTapedTable *k) {
  struct TsTapedTable more = {calloc(2 * k->nbucket, sizeof *more.bucket), 2 * k->nbucket,
                              k->n};
  if (!more.bucket) return;
  for (size_t i = 0; i < k->nbucket; i++)
    for (TsTaped *t = k->bucket[i], *next; t; t = next) {
      next = t->next;
      t->next = NULL;
      *place_of(&more, t->s) = t;
    }
  free(k->bucket);
  *k = more;
}

static bool open_table(TsContext *c) {
  if (c->taped) return true;
  struct TsTapedTable *k = calloc(1, sizeof *k);
  if (k) k->bucket = calloc(k->nbucket = 64, sizeof *k->bucket);
  if (k && !k->bucket) free(k), k = NULL;
  return (c->taped = k) != NULL;
}

void ts_tape_close(TsContext *c) {
  if (c->taped) free(c->taped->bucket);
  free(c->taped);
  c->taped = NULL;
}

void ts_taped_free(TsTaped *t) {
  if (!t) return;
  if (t->value) ts_record_unref(t->value);
  ts_tensor_unref(t->before);
  free(t);
}

void ts_tape_forget(TsStorage *s) {
  TsTaped **at = place_of(s->ctx->taped, s), *t = *at;
  *at = t->next;
  s->ctx->taped->n--;
  s->taped = 0;
  ts_taped_free(t); /* and s with it */
}

static void enter(TsTaped *t) {
  struct TsTapedTable *k = t->s->ctx->taped;
  if (k->n >= 2 * k->nbucket) widen(k);
  t->next = NULL;
  *place_of(k, t->s) = t;
  k->n++;
  t->s->taped = 1;
}

TsTensor *ts_tape_kept(TsTensor *t, uint32_t version, bool *failed) {
  const TsTaped *w = t->storage->taped ? taped_of(t->storage) : NULL;
  if (!w || !w->before || w->before_version != version) return NULL;
  TsTensor *v = ts_tensor_view(w->before, &t->meta, t->stride, t->offset);
  *failed |= !v;
  return v;
}

/* ---- looking */
static bool same_place(const TsTensor *a, const TsTensor *b) {
  return a->contiguous && b->contiguous && a->offset == b->offset &&
         a->meta.dtype == b->meta.dtype && ts_meta_same_shape(&a->meta, &b->meta);
}

/* Of the same storage, so its origin and the storage's value count alike. */
int ts_tape_look(TsTensor *t) {
  TsOutput *value = taped_of(t->storage)->value, *o = t->origin;
  if (!ts_dtype_is(ts_tensor_dtype(t), TS_KIND_F | TS_KIND_C)) return 0;
  if (o && o->version >= value->version) return 0;
  if (same_place(t, value->saved)) {
    ts_record_made(value->record, (int)(value - value->record->out), t);
    return 0;
  }
  TsRecord *r = ts_record_new(t->storage->ctx, TS_RECORD_look, 1, 1);
  if (!r) return -1;
  ts_record_from(r, 0, value);
  int failed = ts_record_give(r, 0, t);
  r->out[0].version = value->version;
  if (!failed) ts_record_made(r, 0, t);
  ts_record_free(r);
  return failed;
}

/* ---- writing */
static bool is_whole(const TsTensor *t) {
  return t->contiguous && t->offset == 0 && ts_meta_nbytes(&t->meta) == t->storage->nbytes;
}

/* What made the whole storage that t is a view of, or NULL. */
static TsOutput *root_of(const TsTensor *t) {
  TsOutput *o = t->origin;
  while (o && !is_whole(o->saved)) {
    const TsRecord *r = o->record;
    bool view = r->kind == TS_RECORD_look ||
                (r->kind == TS_RECORD_call && ts_op_info(r->op)->cls == TS_CLASS_VIEW);
    if (!view || r->in[0].t->storage != t->storage) return NULL;
    o = r->in[0].from;
  }
  return o;
}

static TsRecord *refuse_leaf(TsContext *c, const TsTensor *dst) {
  bool view = dst->origin || !dst->requires_grad;
  ts_error_set(&c->err, TS_ERR_value,
               view ? "a view of a tensor whose requires_grad is set is changed in place"
                    : "a tensor whose requires_grad is set is changed in place by what has "
                      "gradients");
  ts_error_hint(&c->err,
                "change its elements by tessera.no_grad(function() ... end), or a copy of it, "
                "y = x:clone(), which passes gradients on");
  return NULL;
}

static TsRecord *refuse_apart(TsContext *c) {
  ts_error_set(&c->err, TS_ERR_value,
               "what has gradients is written into a tensor that shows the elements of a "
               "computed one without its gradients");
  ts_error_hint(&c->err,
                "detach(), no_grad and stop_gradient give such views: write into the tensor "
                "itself, or into a copy, x:detach():clone()");
  return NULL;
}

static TsRecord *refuse_part(TsContext *c) {
  ts_error_set(&c->err, TS_ERR_value,
               "what has gradients is written into a part of what a function gave");
  ts_error_hint(&c->err, "write into a copy: y = f(x):clone()");
  return NULL;
}

static TsRecord *refuse_unrecorded(TsContext *c) {
  ts_error_set(&c->err, TS_ERR_value,
               "a tensor that was computed from others that require gradients was changed by "
               "tessera.no_grad, and is written in part now");
  ts_error_hint(&c->err,
                "change it outside of no_grad, or go on with a copy: y:detach():clone()");
  return NULL;
}

/* Elements of one type, or numbers of the parts of complex ones (x:real_view()). */
static bool reads_as(TsDtype a, TsDtype b) {
  return a == b || a == ts_dtype_real(b) || ts_dtype_real(a) == b;
}

/* All elements of t's storage in a row. */
static TsTensor *all_of(TsTensor *t) {
  TsMeta m = {.dtype = t->meta.dtype, .ndim = 1, .device = t->meta.device};
  int64_t one = 1;
  m.dim[0] = t->storage->nbytes / ts_dtypes[m.dtype].nbytes;
  return ts_tensor_view(t, &m, &one, 0);
}

/* The value before, of a storage that was filled without gradients: a copy, if it is read in the
 * value after, or may be read by what saw it. */
static int keep_before(TsContext *c, TsRecord *w, TsTensor *dst, bool whole, bool seen) {
  TsTaped *t = w->taped;
  if (whole && !seen) return 0;
  TsTensor *all = whole ? ts_tensor_ref(dst) : all_of(dst);
  t->before = all ? ts_tensor_copy(c, all) : NULL;
  t->before_version = dst->storage->version;
  int failed = !t->before || (!whole && ts_record_take(w, 0, t->before));
  if (!failed) failed = !(w->out[0].saved = ts_record_alias(all));
  ts_tensor_unref(all);
  return failed;
}

/* The value before by what made it. */
static TsRecord *begin_on(TsContext *c, TsRecord *w, TsTensor *dst, TsOutput *base,
                          bool whole) {
  if (whole) return w;
  if (!base) return ts_record_free(w), refuse_part(c);
  if (base->version != dst->storage->version) return ts_record_free(w), refuse_unrecorded(c);
  if (!reads_as(ts_tensor_dtype(base->saved), ts_tensor_dtype(dst)))
    return ts_record_free(w), refuse_part(c);
  ts_record_from(w, 0, base);
  if ((w->out[0].saved = ts_record_alias(base->saved))) return w;
  ts_record_free(w);
  return NULL;
}

TsRecord *ts_tape_begin_write(TsContext *c, TsTensor *dst) {
  TsStorage *s = dst->storage;
  bool whole = is_whole(dst), seen = s->refs > 1;
  if (s->leaf) return refuse_leaf(c, dst);
  if (ts_tape_refresh(dst)) return NULL;
  if (!dst->origin && s->computed) return refuse_apart(c);
  TsRecord *w = ts_record_new(c, TS_RECORD_write, 2, 1);
  if (!w) return NULL;
  w->onto = ts_record_alias(dst);
  if (!s->taped && open_table(c) && (w->taped = calloc(1, sizeof *w->taped))) w->taped->s = s;
  bool fine = w->onto && (s->taped || w->taped);
  if (!fine) ts_error_memory(&c->err);
  if (fine && !dst->origin) fine = !keep_before(c, w, dst, whole, seen);
  if (!fine) return ts_record_free(w), NULL;
  TsOutput *base = s->taped ? taped_of(s)->value : dst->origin ? root_of(dst) : NULL;
  if (dst->origin && !(w = begin_on(c, w, dst, base, whole))) return NULL;
  if (w->out[0].saved || (w->out[0].saved = ts_record_alias(dst))) return w;
  ts_record_free(w);
  return NULL;
}

int ts_tape_take_write(TsRecord *w, TsTensor *src) { return ts_record_take(w, 1, src); }

void ts_tape_end_write(TsRecord *w, TsTensor *dst) {
  TsStorage *s = dst->storage;
  TsOutput *value = &w->out[0];
  w->serial = s->ctx->next_id++;
  value->version = s->version;
  TsTaped *t = s->taped ? taped_of(s) : w->taped;
  if (s->taped) {
    if (w->in[0].t && w->in[0].from != t->value) { /* another part was written meanwhile */
      ts_record_leave(w, 0);
      ts_record_from(w, 0, t->value);
    }
    ts_record_unref(t->value);
  } else {
    w->taped = NULL;
    enter(t);
  }
  t->value = value; /* with the reference of whoever began it */
  s->computed = 1;
  dst->apart = 0;
  /* Out of memory: it looks for it when it is asked. */
  if (ts_tape_look(dst)) ts_error_clear(&s->ctx->err);
}

void ts_tape_end_write_of(TsRecord *w, TsTensor *dst, TsRecord *made, int k) {
  ts_record_from(w, 1, &made->out[k]);
  ts_tape_end_write(w, dst);
}

/* ---- as nodes */
/* Where elements lie among all of the storage: every step-th from start on, or by index. */
typedef struct Where {
  int64_t start, n, step;
  TsVal index; /* [n], or NULL */
} Where;

static TsVal index_of(TsContext *c, TsGraph *g, const TsTensor *t, int64_t start) {
  TsMeta m = {.dtype = TS_DT_i64, .ndim = 1};
  m.dim[0] = ts_tensor_numel(t);
  TsTensor *index = ts_tensor_new(c, &m);
  int64_t *at = index ? ts_tensor_write(index) : NULL, i[TS_MAX_RANK] = {0};
  for (int64_t k = 0; at && k < m.dim[0]; k++) {
    at[k] = start;
    for (int a = 0; a < t->meta.ndim; a++) at[k] += i[a] * t->stride[a];
    for (int a = t->meta.ndim; a-- > 0 && ++i[a] == t->meta.dim[a];) i[a] = 0;
  }
  m.device = 0;
  TsVal v = at ? ts_graph_param(g, &m, NULL, index) : NULL;
  if (!v) ts_tensor_unref(index);
  return v;
}

/* Whether t's elements are evenly apart in their order. */
static bool is_even(const TsTensor *t, int64_t *step) {
  *step = 1;
  for (int i = t->meta.ndim, inner = 0; i-- > 0;) {
    int64_t n = t->meta.dim[i];
    if (n == 1) continue;
    if (!inner) *step = t->stride[i];
    if (inner && t->stride[i] != *step * inner) return false;
    inner = inner ? (int)(inner * n) : (int)n;
  }
  return *step > 0;
}

static bool find_where(TsContext *c, TsGraph *g, const TsTensor *t, Where *w) {
  *w = (Where){.start = t->offset / ts_dtypes[t->meta.dtype].nbytes, .n = ts_tensor_numel(t)};
  if (w->n == 0) return w->start = 0, w->step = 1, true;
  return is_even(t, &w->step) || (w->index = index_of(c, g, t, w->start));
}

static TsVal line(TsGraph *g, TsVal v) {
  return v ? ts_build_reshape(&g->b, v, (const int64_t[]){ts_meta_numel(&v->meta)}, 1) : NULL;
}

/* All elements in a line, as numbers of type d: see reads_as. */
static TsVal line_as(TsGraph *g, TsVal v, TsDtype d) {
  TsBuild *b = &g->b;
  if (!v || v->meta.dtype == d) return line(g, v);
  if (!reads_as(d, (TsDtype)v->meta.dtype)) {
    ts_build_fail(b, TS_ERR_value,
                  "bitcast has no derivative: elements are written as %s and read as %s",
                  ts_dtype_name((TsDtype)v->meta.dtype), ts_dtype_name(d));
    return NULL;
  }
  if (!ts_dtype_is(d, TS_KIND_C)) return line(g, ts_build1(b, TS_OP_real_view, v));
  TsVal part[2], pair = ts_build_reshape(b, v, (const int64_t[]){-1, 2}, 2);
  for (int i = 0; i < 2; i++)
    part[i] = ts_build(b, TS_OP_select, TS_IN(pair),
                       TS_ATTRS({"axis", ts_b_int(1)}, {"index", ts_b_int(i)}), NULL);
  return ts_build2(b, TS_OP_complex, part[0], part[1]);
}

static TsVal shaped(TsGraph *g, TsVal v, const TsMeta *m) {
  return v ? ts_build_reshape(&g->b, v, m->dim, m->ndim) : NULL;
}

static TsVal look(TsContext *c, TsGraph *g, const TsTensor *t, TsVal all) {
  Where w;
  TsVal v = line_as(g, all, ts_tensor_dtype(t));
  if (!v || !find_where(c, g, t, &w)) return NULL;
  int64_t stop = w.n ? w.start + (w.n - 1) * w.step + 1 : 0;
  v = w.index
          ? ts_build2(&g->b, TS_OP_take, v, w.index)
          : ts_build(&g->b, TS_OP_slice, TS_IN(v),
                     TS_ATTRS({"start", ts_b_ints(&w.start, 1)}, {"stop", ts_b_ints(&stop, 1)},
                              {"step", ts_b_ints(&w.step, 1)}),
                     NULL);
  return shaped(g, v, &t->meta);
}

static TsVal put(TsContext *c, TsGraph *g, const TsTensor *t, TsVal all, TsVal v) {
  Where w;
  TsBuild *b = &g->b;
  all = line_as(g, all, ts_tensor_dtype(t));
  if (!all || !(v = line(g, v)) || !find_where(c, g, t, &w)) return NULL;
  int64_t stop = w.n ? w.start + (w.n - 1) * w.step + 1 : 0;
  if (w.index)
    return ts_build(b, TS_OP_scatter, TS_IN(all, w.index, v), TS_ATTRS({"axis", ts_b_int(0)}),
                    NULL);
  return ts_build(b, TS_OP_slice_update, TS_IN(all, v),
                  TS_ATTRS({"start", ts_b_ints(&w.start, 1)}, {"stop", ts_b_ints(&stop, 1)},
                           {"step", ts_b_ints(&w.step, 1)}),
                  NULL);
}

TsVal ts_tape_emit(TsContext *c, TsGraph *g, const TsRecord *r, const TsVal *in) {
  const TsTensor *out = r->out[0].saved;
  if (r->kind == TS_RECORD_look) return look(c, g, out, in[0]);
  TsVal v = ts_capture_fitted(g, in[1], &r->onto->meta);
  if (!v || !in[0]) return v; /* all of it */
  v = put(c, g, r->onto, in[0], v);
  return shaped(g, line_as(g, v, ts_tensor_dtype(out)), &out->meta);
}
