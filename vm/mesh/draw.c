/* See vm/mesh/draw.h. */
#include "vm/mesh/draw.h"

#include <stdlib.h>
#include <string.h>

#include "vm/drive/random.h"
#include "vm/mesh/parts.h"

/* The option of sizes, or -1: a row without one (arange, permutation) is not made in parts. */
static int shape_option(const TsOpInfo *o) {
  for (int i = 0; i < o->nattr; i++)
    if (o->attr[i].namelen == 5 && !memcmp(o->attr[i].name, "shape", 5)) return i;
  return -1;
}

static TsTensor *one_part(TsContext *c, TsOp op, const TsAttr *attr, const TsMeta *whole,
                          const TsLayout *l, int p) {
  TsAttr own[TS_MAX_ATTR];
  TsMeta part = ts_layout_part(l, whole, p);
  if (ts_mesh_away(l->mesh, p)) return ts_tensor_new(c, &part);
  TsRandomBox box = {l, whole, p};
  int shape = shape_option(ts_op_info(op)), device = c->device;
  memcpy(own, attr, sizeof *own * ts_op_info(op)->nattr);
  own[shape] = (TsAttr){.type = TS_ATTR_ints, .n = part.ndim, .ints = part.dim};
  c->box = &box, c->device = part.device;
  c->inside++; /* not put off */
  TsTensor *t = ts_vm_call1(c, op, 0, NULL, own);
  c->inside--;
  c->box = NULL, c->device = device;
  return t;
}

static TsTensor *whole_moved(TsContext *c, TsOp op, const TsAttr *attr, const TsLayout *l) {
  TsTensor *t = ts_vm_call1(c, op, 0, NULL, attr),
           *y = t ? ts_mesh_move(c, t, l, TS_MESH_SHARE_none) : NULL;
  ts_tensor_unref(t);
  return y;
}

static TsTensor *draw(TsContext *c, TsOp op, const TsAttr *attr, const TsLayout *l) {
  const TsOpInfo *o = ts_op_info(op);
  TsInfer inf = {.op = op, .attr = attr, .err = &c->err};
  TsAttr own[TS_MAX_ATTR];
  if (o->nin || ts_op_check_attrs(op, attr, &c->err)) return NULL;
  if (ts_class_composed(o->cls) || shape_option(o) < 0) return whole_moved(c, op, attr, l);
  if (ts_op_infer(&inf)) return NULL;
  if (inf.out[0].ndim != l->ndim) {
    char text[TS_META_TEXT];
    ts_error_set(&c->err, TS_ERR_layout, "%s: a layout of %d axes for %s", o->name, l->ndim,
                 ts_meta_text(&inf.out[0], text));
    return NULL;
  }
  memcpy(own, attr, sizeof *own * o->nattr);
  if (o->cls == TS_CLASS_RANDOM) ts_random_pin(c, own + o->nattr - 2);
  TsTensor **part = calloc((size_t)l->mesh->n, sizeof *part);
  int failed = part ? 0 : ts_error_memory(&c->err);
  for (int p = 0; p < l->mesh->n && !failed; p++)
    failed = ts_layout_has(l, p) && !(part[p] = one_part(c, op, own, &inf.out[0], l, p));
  for (int p = 0; part && p < l->mesh->n && failed; p++) ts_tensor_unref(part[p]);
  inf.out[0].layout = l->id;
  TsTensor *t = failed ? NULL : ts_mesh_tensor(c, &inf.out[0], part);
  free(part);
  return t;
}

TsTensor *ts_mesh_draw(TsContext *c, TsOp op, const TsAttr *attr, const TsLayout *l) {
  uint64_t stream = c->stream;
  TsTensor *t = draw(c, op, attr, l);
  if (!t) c->stream = stream;
  return t;
}
