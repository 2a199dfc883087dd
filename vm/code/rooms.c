/* A room is a register of the whole's type that an instruction without inputs begins; a part's
 * place is a slice of it, and what makes the part writes into that register. So the memory plan
 * and frames know nothing of parts: a whole lives from its room on. */
#include "vm/code/rooms.h"

#include <stdlib.h>
#include <string.h>

#include "vm/core/capture.h"
#include "vm/core/vm.h"

static int64_t used_bytes(const TsRooms *r, const TsNode *whole, bool *must, const int *may) {
  int64_t sum = 0;
  for (int i = 0; i < r->parts.n; i++) {
    if (r->parts.part[i].whole != whole || !may[i]) continue;
    sum += ts_meta_nbytes(&r->parts.part[i].v->meta);
    *must |= may[i] == 2;
  }
  return sum;
}

int ts_rooms_open(TsRooms *r, TsContext *c, const TsGraph *g,
                  int (*may)(void *arg, const TsPart *p), void *arg) {
  *r = (TsRooms){.c = c};
  if (ts_parts_find(g, &r->parts)) return ts_error_memory(&c->err);
  size_t n = (size_t)r->parts.n + 1;
  int *how = malloc(sizeof *how * n);
  r->used = calloc(n, sizeof *r->used);
  r->room = malloc(sizeof *r->room * n);
  if (!how || !r->used || !r->room) {
    free(how);
    ts_rooms_close(r);
    return ts_error_memory(&c->err);
  }
  for (int i = 0; i < r->parts.n; i++) {
    r->room[i] = TS_CODE_NONE;
    how[i] = may(arg, &r->parts.part[i]);
  }
  for (int i = 0; i < r->parts.n; i++) {
    const TsNode *whole = r->parts.part[i].whole;
    bool must = false;
    int64_t sum = used_bytes(r, whole, &must, how);
    r->used[i] = how[i] && (must || 2 * sum >= ts_meta_nbytes(&whole->out[0].meta));
  }
  free(how);
  return 0;
}

void ts_rooms_close(TsRooms *r) {
  ts_parts_free(&r->parts);
  free(r->used);
  free(r->room);
  *r = (TsRooms){.c = NULL};
}

static uint32_t put_room(TsRooms *r, TsCode *code, const TsNode *whole, int line) {
  uint32_t room = ts_code_register(code, &whole->out[0].meta);
  ts_code_add(code, TS_VM_room, 0, NULL, 0, NULL, 1, &room, line);
  for (int i = 0; i < r->parts.n; i++)
    if (r->parts.part[i].whole == whole) r->room[i] = room;
  return room;
}

/* Appends a view of register `from`, which lies as *layout does; both become the view's. */
static int put_view(TsRooms *r, TsCode *code, int op, const TsAttr *attr, int nattr,
                    const TsMeta *m, uint32_t *from, TsTensor **layout, int line) {
  TsTensor *out = NULL, *base = *layout;
  TsCall call = {.ctx = r->c,
                 .op = (TsOp)op,
                 .nin = 1,
                 .nout = 1,
                 .in = layout,
                 .out = &out,
                 .attr = attr};
  int failed = !base || ts_vm_handler[op](&call);
  *layout = failed ? NULL : out;
  if (!failed && out->storage != base->storage) TS_BUG("a part of a whole is no view of it");
  ts_tensor_unref(base);
  uint32_t to = ts_code_register(code, m);
  if (!code->failed) {
    code->reg[to].kind = TS_REG_view;
    code->reg[to].of = *from;
  }
  ts_code_add(code, op, 1, from, nattr, attr, 1, &to, line);
  *from = to;
  if (failed) code->failed = true; /* of memory: nothing else can be wrong with it */
  return failed ? -1 : 0;
}

static uint32_t put_part(TsRooms *r, TsCode *code, int k, int line, TsTensor **layout) {
  const TsPart *p = &r->parts.part[k];
  const TsMeta *whole = &p->whole->out[0].meta, *as = &p->as->meta, *own = &p->v->meta;
  int64_t stop[TS_MAX_RANK], start[TS_MAX_RANK], dim[TS_MAX_RANK];
  TsAttr slice[TS_MAX_ATTR], shape[TS_MAX_ATTR];
  TsMeta part = *as;
  part.weak = 0;
  for (int i = 0; i < as->ndim; i++) start[i] = p->start[i], stop[i] = start[i] + as->dim[i];
  for (int i = 0; i < own->ndim; i++) dim[i] = own->dim[i];
  ts_op_defaults(TS_OP_slice, slice);
  slice[0] = (TsAttr){.type = TS_ATTR_ints, .n = as->ndim, .ints = start};
  slice[1] = (TsAttr){.type = TS_ATTR_ints, .n = as->ndim, .ints = stop};
  uint32_t at = r->room[k] == TS_CODE_NONE ? put_room(r, code, p->whole, line) : r->room[k];
  *layout = ts_tensor_symbol(r->c, whole, NULL);
  if (put_view(r, code, TS_OP_slice, slice, ts_op_info(TS_OP_slice)->nattr, &part, &at, layout,
               line))
    return at;
  if (ts_meta_same_shape(as, own)) return at;
  ts_op_defaults(TS_OP_reshape, shape);
  shape[0] = (TsAttr){.type = TS_ATTR_ints, .n = own->ndim, .ints = dim};
  put_view(r, code, TS_OP_reshape, shape, ts_op_info(TS_OP_reshape)->nattr, own, &at, layout,
           line);
  return at;
}

uint32_t ts_rooms_of(TsRooms *r, TsCode *code, TsVal v, int line, TsTensor **layout) {
  int k = r->parts.n ? r->parts.of[v->node->id] : -1;
  *layout = NULL;
  if (k >= 0 && r->used[k]) return put_part(r, code, k, line, layout);
  for (int i = 0; i < r->parts.n; i++)
    if (r->used[i] && r->parts.part[i].whole == v->node) return r->room[i];
  return TS_CODE_NONE;
}
