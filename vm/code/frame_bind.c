/* Frames bound: registers and calls of a code made ready, and what is freed with them. See
 * vm/code/frame.c. */
#include <stdlib.h>

#include "lib/mesh.h"
#include "vm/code/frame_state.h"
#include "vm/core/offload.h"
#include "vm/core/spread.h"

static void keep(void *arg) { (void)arg; }

static TsTensor *slab_tensor(TsFrame *f, const TsReg *g) {
  if (f->device) return ts_tensor_placed(f->ctx, &g->meta, f->device);
  TsMeta nothing = {.dtype = TS_DT_u8, .ndim = 1};
  int64_t stride[TS_MAX_RANK];
  TsTensor *base = ts_tensor_wrap(f->ctx, &nothing, NULL, keep, NULL), *t;
  if (!base) return NULL;
  ts_meta_strides(&g->meta, stride);
  /* A view of nothing, moved to the slab's storage. */
  t = ts_tensor_view(base, &g->meta, stride, g->offset);
  if (t) {
    t->storage->refs--;
    t->storage = &f->slab;
    f->slab.refs++;
    t->meta.device = 0;
  }
  ts_tensor_unref(base);
  return t;
}

/* A view of something that stays is made now, if it is one: a copy would be stale. */
static int bind_view(TsFrame *f, const TsInstr *i, uint32_t out) {
  const uint32_t *v = f->code->operand + i->at;
  TsTensor *in[TS_MAX_IN], *made = NULL;
  for (uint32_t k = 0; k < i->nin; k++) in[k] = v[k] == TS_CODE_NONE ? NULL : f->reg[v[k]];
  TsCall call = {.ctx = f->ctx,
                 .op = (TsOp)i->op,
                 .nin = (int)i->nin,
                 .nout = 1,
                 .in = in,
                 .out = &made,
                 .attr = f->code->attr + i->attr};
  if (f->changes[v[0]]) {
    f->changes[out] = true;
    return 0;
  }
  if (ts_vm_handler[i->op](&call)) return -1;
  bool view = made->storage == in[0]->storage;
  f->changes[out] = !view;
  if (view)
    f->reg[out] = made;
  else
    ts_tensor_unref(made);
  return 0;
}

static int bind_register(TsFrame *f, const TsInstr *i, uint32_t r) {
  const TsReg *g = &f->code->reg[r];
  switch (g->kind) {
  case TS_REG_slab: return (f->reg[r] = slab_tensor(f, g)) ? 0 : -1;
  case TS_REG_view: return bind_view(f, i, r);
  case TS_REG_into:
    f->changes[r] = f->changes[g->of];
    if (!f->changes[r]) f->reg[r] = ts_tensor_ref(f->reg[g->of]);
    return 0;
  default: f->changes[r] = true; return 0;
  }
}

/* Instructions that are no operators and whose outputs have places before. */
static bool makes_outputs(const TsInstr *i) {
  return i->op == TS_VM_fused || i->op == TS_VM_room;
}

TsTensor *ts_frame_follow(const TsFrame *f, TsTensor *t) {
  if (!f->device || t->meta.device || t->meta.weak) return ts_tensor_ref(t);
  TsTensor *own = ts_tensor_view(t, &t->meta, t->stride, t->offset);
  if (own) own->meta.device = (uint8_t)f->device;
  return own;
}

/* A constant is of no device: it goes along with what the frame computes. */
static int bind_registers(TsFrame *f) {
  const TsCode *code = f->code;
  for (int r = 0; r < code->nreg; r++) {
    TsTensor *bound = r < code->nparam ? code->bound[r] : NULL;
    bool constant = code->reg[r].kind == TS_REG_const;
    if (constant && !(f->reg[r] = ts_frame_follow(f, code->constant[r]))) return -1;
    if (!constant && bound) f->reg[r] = ts_tensor_ref(bound);
    f->changes[r] = !constant && !bound && r < code->nparam;
  }
  for (int t = 0; t < code->ninstr; t++) {
    const TsInstr *i = &code->instr[t];
    for (uint32_t k = 0; k < i->nout; k++) {
      uint32_t r = code->operand[i->at + i->nin + k];
      if (i->op >= TS_OP_COUNT && !makes_outputs(i))
        f->changes[r] = true;
      else if (bind_register(f, i, r))
        return -1;
    }
  }
  return 0;
}

static void bind_slots(TsFrame *f) {
  const TsCode *code = f->code;
  for (int r = 0; r < code->nreg; r++) f->first_reader[r] = -1;
  for (int k = code->noperand; k-- > 0;) {
    uint32_t r = code->operand[k];
    f->slot[k] = r == TS_CODE_NONE ? NULL : f->reg[r];
    if (r == TS_CODE_NONE || !f->changes[r]) continue;
    f->reader[k] = f->first_reader[r];
    f->first_reader[r] = k;
  }
}

/* The type in which a row computes, and its result types once more. */
static int bind_call(TsFrame *f, TsStep *s, const TsInstr *i) {
  const TsCode *code = f->code;
  const uint32_t *v = code->operand + i->at;
  const TsMeta **m = malloc(sizeof *m * (i->nin + 1));
  if (!m) return ts_error_memory(&f->ctx->err);
  for (uint32_t k = 0; k < i->nin; k++)
    m[k] = v[k] == TS_CODE_NONE ? NULL : &code->reg[v[k]].meta;
  TsInfer inf = {.op = (TsOp)i->op,
                 .nin = (int)i->nin,
                 .in = m,
                 .attr = s->call.attr,
                 .settles = i->as || i->backward,
                 .err = &f->ctx->err};
  int failed = ts_op_infer(&inf);
  free(m);
  if (failed) return -1;
  s->call.compute = inf.compute;
  for (uint32_t k = 0; k < i->nout; k++)
    if (!ts_meta_same_shape(&inf.out[k], &code->reg[v[i->nin + k]].meta) ||
        inf.out[k].dtype != code->reg[v[i->nin + k]].meta.dtype)
      TS_BUG("%s: instruction %d has another type than its register", code->name,
             (int)(i - code->instr));
  return 0;
}

static int bind_steps(TsFrame *f) {
  const TsCode *code = f->code;
  for (int t = 0; t < code->ninstr; t++) {
    const TsInstr *i = &code->instr[t];
    TsStep *s = &f->step[t];
    TsTensor **slot = f->slot + i->at;
    s->instr = i;
    s->call = (TsCall){.ctx = f->ctx,
                       .op = (TsOp)i->op,
                       .nin = (int)i->nin,
                       .nout = (int)i->nout,
                       .in = slot,
                       .out = slot + i->nin,
                       .attr = i->attr == TS_CODE_NONE ? NULL : code->attr + i->attr};
    for (uint32_t k = 0; k < i->nout; k++) {
      uint32_t r = code->operand[i->at + i->nin + k];
      s->sets |= f->changes[r];
      s->fresh |=
          code->reg[r].kind == TS_REG_fresh && (i->op < TS_OP_COUNT || makes_outputs(i));
      s->into |= in_room(code, r) && f->changes[r];
    }
    if (i->op >= TS_OP_COUNT) continue;
    s->run = ts_vm_handler[i->op];
    /* A view that stays has been made. */
    if (ts_op_info((TsOp)i->op)->cls == TS_CLASS_VIEW && !s->sets) s->run = NULL;
    if (bind_call(f, s, i)) return -1;
  }
  return 0;
}

static bool allocate(TsFrame *f) {
  const TsCode *code = f->code;
  size_t nreg = (size_t)code->nreg + 1, nop = (size_t)code->noperand + 1;
  f->reg = calloc(nreg, sizeof *f->reg);
  f->changes = calloc(nreg, sizeof *f->changes);
  f->first_reader = malloc(nreg * sizeof *f->first_reader);
  f->slot = calloc(nop, sizeof *f->slot);
  f->reader = malloc(nop * sizeof *f->reader);
  f->step = calloc((size_t)code->ninstr + 1, sizeof *f->step);
  f->sub = calloc((size_t)code->nsub + 1, sizeof *f->sub);
  return f->reg && f->changes && f->first_reader && f->slot && f->reader && f->step && f->sub;
}

/* Views are made of places without bytes, so nothing may run on the device for them. */
static int bind(TsFrame *f) {
  f->ctx->on_host += f->device != 0;
  int failed = bind_registers(f);
  f->ctx->on_host -= f->device != 0;
  if (!failed) bind_slots(f);
  return failed ? -1 : bind_steps(f);
}

TsFrame *ts_frame_bind(TsContext *c, const TsCode *code, int device) {
  TsFrame *f = calloc(1, sizeof *f);
  TS_ASSERT(code->planned);
  if (!f) return ts_error_memory(&c->err), NULL;
  f->ctx = c;
  f->code = code;
  f->device = device;
  f->slab = (TsStorage){
      .refs = 1, .valid = 1, .ctx = c, .release = keep, .nbytes = code->slab_nbytes};
  int failed = allocate(f) ? bind(f) : ts_error_memory(&c->err);
  if (!failed) return f;
  ts_frame_free(f);
  return NULL;
}

TsFrame *ts_frame_new(TsContext *c, const TsCode *code) { return ts_frame_bind(c, code, 0); }

void ts_frame_free_deeper(TsFrame *f, int kept) {
  while (f && kept-- > 0) f = f->deeper;
  TsFrame *d = f ? f->deeper : NULL;
  if (f) f->deeper = NULL;
  while (d) {
    TsFrame *next = d->deeper;
    d->deeper = NULL;
    ts_frame_free(d);
    d = next;
  }
}

void ts_frame_free(TsFrame *f) {
  if (!f) return;
  ts_frame_free_deeper(f, 0);
  ts_frame_free(f->there);
  if (f->launches && f->ctx->offload) f->ctx->offload->forget(f->launches);
  if (f->pieces && f->ctx->spread) f->ctx->spread->forget(f->pieces);
  for (int r = 0; f->reg && f->changes && r < f->code->nreg; r++)
    if (!f->changes[r]) ts_tensor_unref(f->reg[r]);
  for (int i = 0; f->sub && i < f->code->nsub; i++) ts_frame_free(f->sub[i]);
  free(f->reg);
  free(f->changes);
  free(f->first_reader);
  free(f->slot);
  free(f->reader);
  free(f->step);
  free(f->shortest);
  free(f->sub);
  free(f);
}

TsFrame *ts_frame_sub(TsFrame *f, uint32_t k, bool body) {
  TsFrame *sub = f->sub[k];
  if (sub) sub->moved = f->moved, sub->by_calls = false;
  if (sub || !(sub = ts_frame_bind(f->ctx, f->code->sub[k], f->device))) return sub;
  sub->moved = f->moved;
  sub->owner = body ? sub : f->owner;
  return f->sub[k] = sub;
}

int ts_frame_place(TsContext *c, const TsCode *code, TsTensor *const *args) {
  int device = 0;
  bool backward = false,
       apart = false; /* parts that dist.map has given have their own devices */
  if (code->spread) return TS_DEVICE_MESH;
  for (int i = 0; i < code->nparam; i++) {
    const TsTensor *t = code->bound[i] ? code->bound[i] : args[i];
    int own = t->meta.device;
    if (own == TS_DEVICE_MESH || own == TS_DEVICE_AWAY) return TS_DEVICE_MESH;
    if (!ts_offload_on(c, own) || own == device) continue;
    if (device && !apart) {
      for (int k = 0; k < code->ninstr && !backward; k++) backward = code->instr[k].backward;
      apart = backward;
    }
    if (apart) continue;
    if (device) {
      ts_error_set(&c->err, TS_ERR_device, "%s: inputs on %s and %s", code->name,
                   ts_device_at(device)->name, ts_device_at(own)->name);
      return ts_error_hint(&c->err, "move one with x:to(\"%s\")", ts_device_at(device)->name);
    }
    device = own;
  }
  return apart ? TS_DEVICE_MESH : device;
}

TsFrame *ts_frame_there(TsFrame *f, int device) {
  if (f->there && f->there->device != device && !f->there->busy) {
    ts_frame_free(f->there);
    if (f->launches && f->ctx->offload) f->ctx->offload->forget(f->launches);
    f->there = NULL;
  }
  if (!f->there && (f->there = ts_frame_bind(f->ctx, f->code, device)))
    f->there->owner = f->owner;
  return f->there;
}

int ts_frame_device(const TsFrame *f) { return f->device; }
void *ts_frame_launches(const TsFrame *f) {
  return !f->launches && f->there ? f->there->launches : f->launches;
}
