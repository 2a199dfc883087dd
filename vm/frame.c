/* Frames: bytecode bound to tensors. Everything that does not change between runs is done
 * once: the call of each instruction stands ready with its types, and registers of the slab
 * are tensors of one storage whose address is set when a run begins. Registers that change
 * (arguments, results, views of them) are put where their readers look. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "vm/bytecode.h"
#include "vm/control.h"
#include "vm/fused.h"
#include "vm/optim.h"
#include "vm/trap.h"

typedef struct Step {
  TsHandler *run;
  TsCall call;
  const TsInstr *instr;
  bool fresh, sets; /* outputs are allocated before; outputs are registers that change */
} Step;

struct TsFrame {
  TsContext *ctx;
  const TsCode *code;
  TsTensor **reg;  /* by register: those that stay are owned */
  bool *changes;   /* by register */
  TsTensor **slot; /* by operand: what calls read and write */
  int *reader;     /* chains of operands that read a changing register */
  int *first_reader;
  Step *step;
  TsFrame **sub;
  TsStorage slab;
  bool busy;
};

static int no_memory(TsContext *c) {
  return ts_error_set(&c->err, TS_ERR_memory, "out of memory");
}

static void keep(void *arg) { (void)arg; }

/* ---- binding */
static TsTensor *slab_tensor(TsFrame *f, const TsReg *g) {
  TsMeta nothing = {.dtype = TS_DT_u8, .ndim = 1};
  int64_t stride[TS_MAX_RANK];
  TsTensor *base = ts_tensor_wrap(f->ctx, &nothing, NULL, keep, NULL), *t;
  if (!base) return NULL;
  ts_strides_rowmajor(&g->meta, stride);
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

static void put(TsFrame *f, uint32_t r, TsTensor *t) {
  f->reg[r] = t;
  for (int k = f->first_reader[r]; k >= 0; k = f->reader[k]) f->slot[k] = t;
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

static int bind_registers(TsFrame *f) {
  const TsCode *code = f->code;
  for (int r = 0; r < code->nreg; r++) {
    TsTensor *t = code->reg[r].kind == TS_REG_const ? code->constant[r]
                  : r < code->nparam                ? code->bound[r]
                                                    : NULL;
    if (t) f->reg[r] = ts_tensor_ref(t);
    f->changes[r] = !t && r < code->nparam;
  }
  for (int t = 0; t < code->ninstr; t++) {
    const TsInstr *i = &code->instr[t];
    for (uint32_t k = 0; k < i->nout; k++) {
      uint32_t r = code->operand[i->at + i->nin + k];
      if (i->op >= TS_OP_COUNT && i->op != TS_VM_fused)
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
static int bind_call(TsFrame *f, Step *s, const TsInstr *i) {
  const TsCode *code = f->code;
  const uint32_t *v = code->operand + i->at;
  const TsMeta **m = malloc(sizeof *m * (i->nin + 1));
  if (!m) return no_memory(f->ctx);
  for (uint32_t k = 0; k < i->nin; k++)
    m[k] = v[k] == TS_CODE_NONE ? NULL : &code->reg[v[k]].meta;
  TsInfer inf = {.op = (TsOp)i->op,
                 .nin = (int)i->nin,
                 .in = m,
                 .attr = s->call.attr,
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
    Step *s = &f->step[t];
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
      s->fresh |= code->reg[r].kind == TS_REG_fresh &&
                  (i->op < TS_OP_COUNT || i->op == TS_VM_fused);
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

TsFrame *ts_frame_new(TsContext *c, const TsCode *code) {
  TsFrame *f = calloc(1, sizeof *f);
  TS_ASSERT(code->planned);
  if (!f) return no_memory(c), NULL;
  f->ctx = c;
  f->code = code;
  f->slab = (TsStorage){
      .refs = 1, .valid = 1, .ctx = c, .release = keep, .nbytes = code->slab_nbytes};
  int failed = allocate(f) ? bind_registers(f) : no_memory(c);
  if (!failed) bind_slots(f);
  if (!failed) failed = bind_steps(f);
  for (int i = 0; i < code->nsub && !failed; i++)
    failed = !(f->sub[i] = ts_frame_new(c, code->sub[i]));
  if (!failed) return f;
  ts_frame_free(f);
  return NULL;
}

void ts_frame_free(TsFrame *f) {
  if (!f) return;
  for (int r = 0; f->reg && r < f->code->nreg; r++)
    if (!f->changes[r]) ts_tensor_unref(f->reg[r]);
  for (int i = 0; f->sub && i < f->code->nsub; i++) ts_frame_free(f->sub[i]);
  free(f->reg);
  free(f->changes);
  free(f->first_reader);
  free(f->slot);
  free(f->reader);
  free(f->step);
  free(f->sub);
  free(f);
}

/* ---- running */
static int allocate_fresh(TsFrame *f, Step *s) {
  const TsCode *code = f->code;
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t r = code->operand[s->instr->at + s->instr->nin + k];
    if (code->reg[r].kind != TS_REG_fresh) continue;
    TsTensor *t = ts_tensor_new(f->ctx, &code->reg[r].meta);
    if (!t) return -1;
    put(f, r, t);
  }
  return 0;
}

/* Outputs that a handler or a control instruction made. */
static void take_outputs(TsFrame *f, Step *s) {
  const TsCode *code = f->code;
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t at = s->instr->at + s->instr->nin + k, r = code->operand[at];
    if (!f->changes[r] || code->reg[r].kind == TS_REG_fresh) continue;
    if (code->reg[r].kind == TS_REG_into) continue;
    put(f, r, f->slot[at]);
  }
}

/* Results of control instructions are new tensors, whatever their kind. */
static void take_results(TsFrame *f, Step *s) {
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t at = s->instr->at + s->instr->nin + k;
    put(f, f->code->operand[at], f->slot[at]);
  }
}

/* The steps behind s as one. */
static int run_group(TsFrame *f, Step *s) {
  int n = (int)s->instr->sub;
  TsCall *few[64] = {NULL}, **call = n <= 64 ? few : malloc(sizeof *call * (size_t)n);
  if (!call) return no_memory(f->ctx);
  for (int i = 0; i < n; i++) call[i] = &s[1 + i].call;
  int failed = ts_optim_group(n, call);
  if (call != few) free(call);
  return failed;
}

static int run_fused(TsFrame *f, Step *s) {
  if (s->fresh && allocate_fresh(f, s)) return -1;
  return ts_fused_run(f->code->fused[s->instr->sub], f->ctx, s->call.in, s->call.out);
}

static int run_control(TsFrame *f, Step *s) {
  switch (s->instr->op) {
  case TS_VM_fused: return run_fused(f, s);
  case TS_VM_update: return ts_vm_assign(f->ctx, s->call.in[0], s->call.in[1]);
  case TS_VM_group: return run_group(f, s);
  default:
    if (ts_control_run(f->ctx, s->instr, f->code, f->sub, s->call.in, s->call.out)) return -1;
    take_results(f, s);
    return 0;
  }
}

/* Errors inside say where the operator stands. */
static int explain(TsFrame *f, const Step *s) {
  const TsCode *code = f->code;
  if (s->instr->line <= 0 || s->instr->line >= code->nplace) return -1;
  return ts_error_where(&f->ctx->err, code->name, code->place[s->instr->line]);
}

static int run_step(TsFrame *f, Step *s) {
  if (!s->run) return s->instr->op < TS_OP_COUNT ? 0 : run_control(f, s);
  if (s->fresh && allocate_fresh(f, s)) return -1;
  if (s->run(&s->call)) return -1;
  if (s->sets) take_outputs(f, s);
  return 0;
}

static int loop(TsFrame *f) {
  TsContext *c = f->ctx;
  for (Step *s = f->step, *end = s + f->code->ninstr; s < end; s++) {
    if (run_step(f, s)) return explain(f, s);
    if (ts_cpu_interrupted())
      return ts_error_set(&c->err, TS_ERR_interrupt, "%s: interrupted", f->code->name);
    uint32_t more = s->instr->op == TS_VM_group ? s->instr->sub : 0;
    for (uint32_t k = 0; c->trap && k <= more; k++)
      if (s[k].run && ts_trap_check(&s[k].call, s[k].instr->backward)) return explain(f, s + k);
    s += more;
  }
  return 0;
}

/* What a run made is let go; those that leave have references of their own. */
static void forget(TsFrame *f) {
  const TsCode *code = f->code;
  for (int r = code->nparam; r < code->nreg; r++) {
    if (!f->changes[r] || !f->reg[r]) continue;
    if (code->reg[r].kind != TS_REG_into) ts_tensor_unref(f->reg[r]);
    f->reg[r] = NULL;
  }
  for (int k = 0; k < code->noperand; k++)
    if (code->operand[k] != TS_CODE_NONE && f->changes[code->operand[k]]) f->slot[k] = NULL;
}

static int run_bound(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  const TsCode *code = f->code;
  TsContext *c = f->ctx;
  if (code->slab_nbytes && !(f->slab.host = ts_memory_alloc(code->slab_nbytes)))
    return no_memory(c);
  uint64_t base = c->stream_base;
  int depth = c->stream_depth;
  if (!code->region) {
    c->stream_depth = 0;
    c->stream_base = c->stream;
    c->stream += (uint64_t)code->nrandom;
  }
  c->live_bytes += code->slab_nbytes;
  for (int i = 0; i < code->nparam; i++)
    if (!code->bound[i]) put(f, (uint32_t)i, args[i]);
  for (int t = 0; t < code->ninstr; t++) { /* parameters written in place */
    const TsInstr *i = &code->instr[t];
    for (uint32_t k = 0; k < i->nout; k++) {
      uint32_t r = code->operand[i->at + i->nin + k];
      if (code->reg[r].kind == TS_REG_into && f->changes[r]) put(f, r, f->reg[code->reg[r].of]);
    }
  }
  c->no_grad++;
  int failed = loop(f);
  c->no_grad--;
  for (int i = 0; i < code->nresult && !failed; i++)
    results[i] = ts_tensor_ref(f->reg[code->result[i]]);
  forget(f);
  c->stream_base = base;
  c->stream_depth = depth;
  c->live_bytes -= code->slab_nbytes;
  if (code->slab_nbytes) ts_memory_free(f->slab.host, code->slab_nbytes);
  f->slab.host = NULL;
  return failed ? -1 : 0;
}

/* Donated arguments whose bytes somebody else looks at, or that are not row-major, are copied
 * first: the caller's tensor then stays as it is. */
static int own_donated(TsFrame *f, TsTensor *const *args, TsTensor **own) {
  const TsCode *code = f->code;
  for (int i = 0; i < code->nparam; i++) {
    own[i] = NULL;
    if (code->bound[i]) continue;
    bool alone =
        args[i]->contiguous && args[i]->storage->refs == 1 && !args[i]->storage->release;
    for (int k = 0; k < code->nparam; k++) alone &= k == i || args[k] != args[i];
    bool copy = code->donated && code->donated[i] && !alone;
    if (!(own[i] = copy ? ts_tensor_copy(f->ctx, args[i]) : ts_tensor_ref(args[i]))) return -1;
  }
  return 0;
}

static int run_owned(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  const TsCode *code = f->code;
  bool any = false;
  for (int i = 0; code->donated && i < code->nparam; i++) any |= code->donated[i];
  if (!any) return run_bound(f, args, results);
  TsTensor **own = calloc((size_t)code->nparam + 1, sizeof *own);
  int failed = own ? own_donated(f, args, own) : no_memory(f->ctx);
  if (!failed) failed = run_bound(f, own, results);
  for (int i = 0; own && i < code->nparam; i++) {
    if (own[i] && code->donated[i]) own[i]->storage->version++;
    ts_tensor_unref(own[i]);
  }
  free(own);
  return failed;
}

int ts_frame_run(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  if (f->busy) {
    TsFrame *own = ts_frame_new(f->ctx, f->code);
    int failed = own ? ts_frame_run(own, args, results) : -1;
    ts_frame_free(own);
    return failed;
  }
  f->busy = true;
  int failed = run_owned(f, args, results);
  f->busy = false;
  return failed;
}
