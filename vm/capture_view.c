/* Changes in place while a function is captured, of what others look at: a view, or what has views.
 *
 * A memory has a value, and its symbols are views of a value that it had: their nodes say which. A
 * change through a view makes a new value of the whole, by what undoes the view's nodes one after
 * the other (`put`), so that a part of a row becomes one slice_update. Symbols that know of older
 * values find out when they are next used: their nodes are entered once more over the new one
 * (`again`).
 *
 * Rejected: places among all elements, as the tape has them (vm/tape_write.c): a graph is compiled,
 * and a scatter by an index that only restates a slice is slow. */
#include "vm/capture_state.h"
#include "vm/write.h"

#include <stdlib.h>

int ts_capture_refuse_view(TsContext *c, const char *what) {
  ts_error_set(&c->err, TS_ERR_value, "%s while a function is captured", what);
  return ts_error_hint(&c->err,
                       "build the new value: x = op.slice_update(x, part, {0}, {1}) puts "
                       "a part in, others are op.where, op.concat and op.scatter");
}

int ts_capture_changed(TsContext *c, uint32_t m, TsVal v) {
  TsCapture *k = c->capture;
  if (k->npast == k->cappast) {
    int cap = k->cappast ? k->cappast * 2 : 16;
    TsPast *past = realloc(k->past, (size_t)cap * sizeof *past);
    if (!past) return ts_error_memory(&c->err);
    k->past = past;
    k->cappast = cap;
  }
  k->past[k->npast++] = (TsPast){v, m};
  k->memory[m - 1].now = v;
  k->memory[m - 1].changed = c->next_id++;
  return 0;
}

static bool was_value(const TsCapture *k, uint32_t m, TsVal v) {
  if (k->memory[m - 1].first == v) return true;
  for (int i = k->npast; i-- > 0;)
    if (k->past[i].m == m && k->past[i].v == v) return true;
  return false;
}

bool ts_capture_shows(const TsCapture *k, uint32_t m, TsVal v) {
  while (ts_node_is_view(v->node)) {
    v = v->node->in[0];
    if (was_value(k, m, v)) return true;
  }
  return false;
}

/* Whether n is a view as the caller's argument lies, whose strides nobody knows yet
 * (vm/code/alias.c). */
static bool may_copy(const TsCapture *k, uint32_t m, const TsNode *n) {
  bool argument = k->memory[m - 1].param >= 0 && !k->memory[m - 1].outside;
  bool bits = n->op == TS_OP_bitcast &&
              ts_dtypes[n->out[0].meta.dtype].nbytes != ts_dtypes[n->in[0]->meta.dtype].nbytes;
  return argument && (bits || n->op == TS_OP_reshape || n->op == TS_OP_flatten ||
                      n->op == TS_OP_contiguous);
}

/* The views that v is of a value that memory m had, of its value now. NULL: there is another way
 * from one to the other, or the error. */
static TsVal again(TsCapture *k, uint32_t m, TsVal v) {
  const TsNode *n = v->node;
  TsVal in[TS_MAX_IN];
  if (was_value(k, m, v)) return ts_graph_import(k->g, k->memory[m - 1].now);
  if (!ts_node_is_view(n) || may_copy(k, m, n)) return NULL;
  if (!(in[0] = again(k, m, n->in[0]))) return NULL;
  for (int i = 1; i < n->nin; i++)
    if (!(in[i] = ts_graph_import(k->g, n->in[i]))) return NULL;
  TsNode *made = ts_graph_again(k->g, n, in, NULL, NULL);
  return made ? &made->out[0] : NULL;
}

static TsVal lost(TsContext *c, const char *what) {
  if (!c->err.code) ts_capture_refuse_view(c, what);
  return NULL;
}

TsVal ts_capture_seen(TsContext *c, TsTensor *t) {
  TsCapture *k = c->capture;
  const TsMemory *m = ts_capture_memory(k, t);
  uint64_t knows = t->id > t->known ? t->id : t->known;
  if (knows >= m->changed) return ts_graph_import(k->g, t->origin);
  k->g->b.failed = false;
  TsVal v = again(k, t->storage->version, t->origin);
  if (!v) return lost(c, "a view of a tensor that was changed in place is used");
  if (m->home == k->g) t->origin = v, t->known = m->changed;
  return v;
}

/* ---- what undoes a view: v in its place among the elements x of what it looks at */
static TsVal put_slice(TsBuild *b, TsVal x, TsVal v, int axis, int64_t start, int64_t length) {
  int64_t from[TS_MAX_RANK], to[TS_MAX_RANK];
  int nd = x->meta.ndim;
  for (int i = 0; i < nd; i++) from[i] = to[i] = INT64_MIN;
  from[axis] = start, to[axis] = start + length;
  return ts_build(b, TS_OP_slice_update, TS_IN(x, v),
                  TS_ATTRS({"start", ts_b_ints(from, nd)}, {"stop", ts_b_ints(to, nd)}), NULL);
}

static int axis_of(const TsNode *n, TsVal x) {
  return (int)(n->attr[0].i < 0 ? n->attr[0].i + x->meta.ndim : n->attr[0].i);
}

static TsVal put_select(TsBuild *b, const TsNode *n, TsVal x, TsVal v) {
  int axis = axis_of(n, x);
  int64_t index = n->attr[1].i < 0 ? n->attr[1].i + x->meta.dim[axis] : n->attr[1].i;
  v = ts_build(b, TS_OP_unsqueeze, TS_IN(v), TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
  return v ? put_slice(b, x, v, axis, index, 1) : NULL;
}

static TsVal put_permuted(TsBuild *b, const TsNode *n, TsVal v) {
  int64_t back[TS_MAX_RANK];
  for (int i = 0; i < n->attr[0].n; i++) {
    int64_t a = n->attr[0].ints[i];
    back[a < 0 ? a + n->attr[0].n : a] = i;
  }
  return ts_build_permute(b, v, back, n->attr[0].n);
}

static TsVal put_parts(TsBuild *b, TsVal v) {
  TsVal part[2];
  for (int i = 0; i < 2; i++)
    part[i] = ts_build(b, TS_OP_select, TS_IN(v),
                       TS_ATTRS({"axis", ts_b_int(-1)}, {"index", ts_b_int(i)}), NULL);
  return ts_build2(b, TS_OP_complex, part[0], part[1]);
}

/* NULL where that has no meaning: elements that lie one over the other, or are shown without
 * their gradients. */
static TsVal undone(TsGraph *g, const TsNode *n, TsVal x, TsVal v) {
  TsBuild *b = &g->b;
  switch (n->op) {
  case TS_OP_reshape:
  case TS_OP_squeeze:
  case TS_OP_unsqueeze:
  case TS_OP_flatten:
  case TS_OP_contiguous: return ts_build_reshape(b, v, x->meta.dim, x->meta.ndim);
  case TS_OP_broadcast_to:
  case TS_OP_expand:
    return ts_meta_numel(&x->meta) == ts_meta_numel(&v->meta)
               ? ts_build_reshape(b, v, x->meta.dim, x->meta.ndim)
               : NULL;
  case TS_OP_transpose:
    return ts_build(b, TS_OP_transpose, TS_IN(v),
                    TS_ATTRS({"axis0", n->attr[0]}, {"axis1", n->attr[1]}), NULL);
  case TS_OP_flip:
    return ts_build(b, TS_OP_flip, TS_IN(v), TS_ATTRS({"axis", n->attr[0]}), NULL);
  case TS_OP_permute: return put_permuted(b, n, v);
  case TS_OP_narrow: return put_slice(b, x, v, axis_of(n, x), n->attr[1].i, n->attr[2].i);
  case TS_OP_select: return put_select(b, n, x, v);
  case TS_OP_slice:
    return ts_build(b, TS_OP_slice_update, TS_IN(x, v),
                    TS_ATTRS({"start", n->attr[0]}, {"stop", n->attr[1]}, {"step", n->attr[2]}),
                    NULL);
  case TS_OP_real_view: return put_parts(b, v);
  case TS_OP_bitcast:
    v = ts_build(b, TS_OP_bitcast, TS_IN(v),
                 TS_ATTRS({"dtype", ts_b_dtype((TsDtype)x->meta.dtype)}), NULL);
    if (v) v->node->bytes = true;
    return v;
  default: return NULL;
  }
}

static TsVal put(TsCapture *k, uint32_t m, TsVal view, TsVal v) {
  const TsNode *n = view->node;
  if (was_value(k, m, view)) return v;
  if (!ts_node_is_view(n) || may_copy(k, m, n)) return NULL;
  TsVal x = again(k, m, n->in[0]);
  v = x ? undone(k->g, n, x, v) : NULL;
  return v ? put(k, m, n->in[0], v) : NULL;
}

/* Whether elements of the view lie one over the other: all that an expansion shows. */
static bool overlaps(const TsCapture *k, uint32_t m, TsVal v) {
  int64_t all = ts_meta_numel(&v->meta);
  for (; ts_node_is_view(v->node) && !was_value(k, m, v); v = v->node->in[0]) {
    const TsNode *n = v->node;
    if (ts_meta_numel(&v->meta) != all) return false;
    bool wider = all > ts_meta_numel(&n->in[0]->meta);
    if (wider && (n->op == TS_OP_expand || n->op == TS_OP_broadcast_to)) return true;
    if (n->op == TS_OP_unfold && n->attr[1].i > n->attr[2].i && wider) return true;
  }
  return false;
}

TsVal ts_capture_put(TsContext *c, TsTensor *view, TsVal v) {
  TsCapture *k = c->capture;
  uint32_t m = view->storage->version;
  v = put(k, m, view->origin, v);
  if (!v && !c->err.code && overlaps(k, m, view->origin)) ts_write_refuse_overlap(c, view);
  return v ? v : lost(c, "a view is changed in place");
}
