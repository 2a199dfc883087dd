/* Frames: bytecode bound to tensors. Everything that does not change between runs is done
 * once: the call of each instruction stands ready with its types, and registers of the slab
 * are tensors of one storage whose address is set when a run begins. Registers that change
 * (arguments, results, views of them) are put where their readers look.
 *
 * With an argument on a device that has kernels, a sibling of the frame runs, whose slab is memory
 * of the device. There each register is a storage of its own at a place of the slab: instructions
 * without a kernel run on the CPU over fetched bytes, register by register.
 *
 * Functions that call functions, and themselves, are run by one C loop over frames: a frame
 * keeps its own place and who called it, so that the depth of a recursion costs memory of
 * frames and no C stack. Loops (vm/control.c) run their functions by a C call each, which
 * bounds how often a recursion may pass through loops. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu_pool.h"
#include "devices/memory.h"
#include "ir/recursion.h"
#include "vm/bytecode.h"
#include "vm/control.h"
#include "vm/defer.h"
#include "vm/fused.h"
#include "vm/memo.h"
#include "vm/offload.h"
#include "vm/optim.h"
#include "vm/profile.h"
#include "vm/trap.h"

typedef struct Step {
  TsHandler *run;
  TsCall call;
  const TsInstr *instr;
  bool fresh, sets; /* outputs are allocated before; outputs are registers that change */
  bool into;        /* outputs are in rooms that change */
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
  TsFrame **sub; /* made when they are first called */
  TsStorage slab;
  int device;     /* whose memory the slab is; 0: the CPU's */
  void *slab_at;  /* there, while it runs */
  TsFrame *there; /* the same code on a device, once it was needed */
  void *launches; /* what the device remembers of runs (vm/offload.h) */
  bool busy;
  /* while it runs */
  Step *at;
  TsFrame *caller;
  uint64_t stream_base;
  int stream_depth;
  /* recursion */
  TsFrame *owner;      /* whose code recur runs again: the body around, or itself */
  TsFrame *deeper;     /* of a body: the frame of its inner calls */
  int64_t level, most; /* of a body: calls so far, and how many there may be */
  bool saves;          /* of a body: a gradient will ask for the results of inner calls */
};

enum {
  MOST_RUNS = 1000, /* some 500 bytes of C stack each, through a loop */
  MOST_KEPT = 64,   /* frames of inner calls that stay bound between runs */
};

static int no_memory(TsContext *c) {
  return ts_error_set(&c->err, TS_ERR_memory, "out of memory");
}

static void keep(void *arg) { (void)arg; }

/* ---- binding */
static TsTensor *slab_tensor(TsFrame *f, const TsReg *g) {
  if (f->device) return ts_tensor_placed(f->ctx, &g->meta, f->device);
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

/* Instructions that are no operators and whose outputs have places before. */
static bool makes_outputs(const TsInstr *i) {
  return i->op == TS_VM_fused || i->op == TS_VM_room;
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

/* Written over something that a run makes: parameters are there before it. */
static bool in_room(const TsCode *code, uint32_t r) {
  return code->reg[r].kind == TS_REG_into && code->reg[r].of >= (uint32_t)code->nparam;
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

static TsFrame *frame_new(TsContext *c, const TsCode *code, int device) {
  TsFrame *f = calloc(1, sizeof *f);
  TS_ASSERT(code->planned);
  if (!f) return no_memory(c), NULL;
  f->ctx = c;
  f->code = code;
  f->device = device;
  f->slab = (TsStorage){
      .refs = 1, .valid = 1, .ctx = c, .release = keep, .nbytes = code->slab_nbytes};
  int failed = allocate(f) ? bind(f) : no_memory(c);
  if (!failed) return f;
  ts_frame_free(f);
  return NULL;
}

TsFrame *ts_frame_new(TsContext *c, const TsCode *code) { return frame_new(c, code, 0); }

/* Frames of inner calls below f, but for the first few; one after the other, as there may be
 * many. */
static void free_deeper(TsFrame *f, int kept) {
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
  free_deeper(f, 0);
  ts_frame_free(f->there);
  if (f->launches && f->ctx->offload) f->ctx->offload->forget(f->launches);
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
    TsMeta m = code->reg[r].meta;
    m.device = (uint8_t)f->device;
    TsTensor *t = ts_tensor_new(f->ctx, &m);
    if (!t) return -1;
    put(f, r, t);
  }
  return 0;
}

/* Outputs in rooms that are there by now. */
static void find_rooms(TsFrame *f, const Step *s) {
  const TsCode *code = f->code;
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t r = code->operand[s->instr->at + s->instr->nin + k];
    if (in_room(code, r) && f->changes[r]) put(f, r, f->reg[code->reg[r].of]);
  }
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

/* A kernel of the device, else the handler over fetched bytes. */
static int run_there(TsFrame *f, Step *s) {
  TsContext *c = f->ctx;
  if (ts_op_info(s->call.op)->cls == TS_CLASS_VIEW) return s->run(&s->call);
  int done = c->offload ? c->offload->call(&s->call, f->device, true) : 0;
  return done ? (done == 1 ? 0 : -1) : ts_offload_here(s->run, &s->call);
}

static int run_group_there(TsFrame *f, int n, Step *s, TsCall *const *call) {
  const TsOffload *o = f->ctx->offload;
  for (int i = 0; i < n;) {
    int done = o ? o->group(f->ctx, n - i, call + i, f->device) : 0;
    if (done < 0) return -1;
    i += done;
    if (!done && run_there(f, &s[i++])) return -1;
  }
  return 0;
}

static int run_group_here(int n, TsCall *const *call) {
  if (ts_optim_groups(call[0]->op)) return ts_optim_group(n, call);
  for (int i = 0; i < n; i++)
    if (ts_vm_handler[call[i]->op](call[i])) return -1;
  return 0;
}

/* The steps behind s as one. */
static int run_group(TsFrame *f, Step *s) {
  int n = (int)s->instr->sub;
  TsCall *few[64] = {NULL}, **call = n <= 64 ? few : malloc(sizeof *call * (size_t)n);
  if (!call) return no_memory(f->ctx);
  for (int i = 0; i < n; i++) call[i] = &s[1 + i].call;
  int failed = f->device ? run_group_there(f, n, s + 1, call) : run_group_here(n, call);
  if (call != few) free(call);
  return failed;
}

static int run_fused(TsFrame *f, Step *s) {
  if (s->fresh && allocate_fresh(f, s)) return -1;
  if (s->into) find_rooms(f, s);
  return ts_fused_run(f->code->fused[s->instr->sub], f->ctx, s->call.in, s->call.out);
}

/* Function k of the code, bound. */
static TsFrame *sub_frame(TsFrame *f, uint32_t k, bool body) {
  TsFrame *sub = f->sub[k];
  if (sub || !(sub = frame_new(f->ctx, f->code->sub[k], f->device))) return sub;
  sub->owner = body ? sub : f->owner;
  return f->sub[k] = sub;
}

static int bind_subs(TsFrame *f, const TsInstr *i) {
  if (i->op == TS_VM_custom) return 0;
  for (uint32_t k = 0; k < (i->op == TS_VM_while_loop ? 2 : 1); k++)
    if (!sub_frame(f, i->sub + k, false)) return -1;
  return 0;
}

static int run_control(TsFrame *f, Step *s) {
  switch (s->instr->op) {
  case TS_VM_fused: return run_fused(f, s);
  case TS_VM_update: return ts_vm_assign(f->ctx, s->call.in[0], s->call.in[1]);
  case TS_VM_group: return run_group(f, s);
  case TS_VM_room: return s->fresh ? allocate_fresh(f, s) : 0;
  default:
    if (bind_subs(f, s->instr)) return -1;
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
  if (s->into) find_rooms(f, s);
  if (f->device ? run_there(f, s) : s->run(&s->call)) return -1;
  if (s->sets) take_outputs(f, s);
  return 0;
}

/* The same under a profile: each step of a group by itself would be another run. */
static int run_timed(TsFrame *f, Step *s) {
  TsSpans *spans = f->ctx->spans;
  const TsCode *code = f->code;
  const TsInstr *i = s->instr;
  int64_t start = ts_spans_now();
  spans->depth++;
  int failed = run_step(f, s);
  spans->depth--;
  const TsFused *fused = i->op == TS_VM_fused ? code->fused[i->sub] : NULL;
  const char *what = fused ? (fused->what ? fused->what : fused->name) : ts_code_op_name(i->op);
  bool placed = !fused && i->line > 0 && i->line < code->nplace;
  bool nothing = i->op < TS_OP_COUNT && ts_op_info((TsOp)i->op)->cls == TS_CLASS_VIEW;
  if (!failed && !nothing)
    ts_spans_step(spans, &s->call, what, placed ? code->place[i->line] : NULL, start,
                  fused ? fused->flops : 0);
  return failed;
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

/* Arguments have their bytes, and nobody else needs the old ones of those that are written. */
static int prepare(const TsFrame *f, TsTensor *const *args) {
  const TsCode *code = f->code;
  for (int i = 0; i < code->nparam; i++)
    if (!code->bound[i] && ts_defer_force(args[i])) return -1;
  for (int r = 0; r < code->nreg; r++) {
    if (code->reg[r].kind != TS_REG_into || in_room(code, (uint32_t)r)) continue;
    uint32_t p = code->reg[r].of;
    if (ts_defer_touch((code->bound[p] ? code->bound[p] : args[p])->storage)) return -1;
  }
  return 0;
}

/* ---- the slab's memory */
static void place_registers(TsFrame *f, char *base) {
  const TsCode *code = f->code;
  for (int r = 0; r < code->nreg; r++)
    if (code->reg[r].kind == TS_REG_slab && f->reg[r])
      ts_tensor_place(f->reg[r], base ? base + code->reg[r].offset : NULL);
}

static int64_t slab_room(const TsFrame *f) {
  return f->code->slab_nbytes ? f->code->slab_nbytes : 64;
}

static int take_slab(TsFrame *f) {
  static _Alignas(64) char nothing[64]; /* where values without elements lie */
  if (f->device) {
    if (!(f->slab_at = ts_tensor_room(f->ctx, f->device, slab_room(f)))) return -1;
    place_registers(f, f->slab_at);
  } else {
    f->slab.host = f->code->slab_nbytes ? ts_memory_alloc(f->code->slab_nbytes) : nothing;
    if (!f->slab.host) return no_memory(f->ctx);
  }
  f->ctx->live_bytes += f->code->slab_nbytes;
  if (f->device) f->ctx->live_there += f->code->slab_nbytes;
  return 0;
}

static void give_slab(TsFrame *f) {
  TsDevice *d = ts_device_at(f->device);
  f->ctx->live_bytes -= f->code->slab_nbytes;
  if (f->device) {
    f->ctx->live_there -= f->code->slab_nbytes;
    place_registers(f, NULL);
    d->free(d, f->slab_at, slab_room(f));
  } else if (f->code->slab_nbytes) {
    ts_memory_free(f->slab.host, f->code->slab_nbytes);
  }
  f->slab.host = f->slab_at = NULL;
}

/* Bytes that a device made: handlers look at the host's. */
static int fetch_arguments(TsFrame *f, TsTensor *const *args) {
  const TsCode *code = f->code;
  for (int i = 0; i < code->nparam; i++) {
    TsTensor *t = code->bound[i] ? code->bound[i] : args[i];
    if (!(t->storage->valid & 1) && !ts_tensor_read(t)) return -1;
  }
  return 0;
}

/* From here on f runs, on these arguments; its random calls are those of a call by itself at
 * this site, unless that is negative. */
static int enter(TsFrame *f, TsTensor *const *args, int64_t site) {
  const TsCode *code = f->code;
  TsContext *c = f->ctx;
  if ((!f->device && fetch_arguments(f, args)) || take_slab(f)) return -1;
  f->stream_base = c->stream_base;
  f->stream_depth = c->stream_depth;
  if (site >= 0) ts_control_move_streams(c, site);
  if (!code->region) {
    c->stream_depth = 0;
    c->stream_base = c->stream;
    c->stream += (uint64_t)code->nrandom;
  }
  for (int i = 0; i < code->nparam; i++)
    if (!code->bound[i]) put(f, (uint32_t)i, args[i]);
  for (int t = 0; t < code->ninstr; t++) { /* parameters written in place */
    const TsInstr *i = &code->instr[t];
    for (uint32_t k = 0; k < i->nout; k++) {
      uint32_t r = code->operand[i->at + i->nin + k];
      if (code->reg[r].kind == TS_REG_into && f->changes[r] && !in_room(code, r))
        put(f, r, f->reg[code->reg[r].of]);
    }
  }
  f->at = f->step;
  c->no_grad++;
  c->inside++;
  return 0;
}

static int leave(TsFrame *f, int failed, TsTensor **results) {
  const TsCode *code = f->code;
  TsContext *c = f->ctx;
  c->inside--;
  c->no_grad--;
  for (int i = 0; i < code->nresult && !failed; i++)
    results[i] = ts_tensor_ref(f->reg[code->result[i]]);
  forget(f);
  c->stream_base = f->stream_base;
  c->stream_depth = f->stream_depth;
  give_slab(f);
  return failed ? -1 : 0;
}

/* ---- calls */
static bool is_call(const TsInstr *i) {
  return i->op == TS_VM_call || i->op == TS_VM_cond || i->op == TS_VM_recursive ||
         i->op == TS_VM_recur;
}

/* The frame of a call of the body within itself. */
static TsFrame *deeper_frame(TsFrame *f) {
  TsFrame *body = f->owner;
  if (body->level >= body->most) {
    ts_error_set(&f->ctx->err, TS_ERR_value, "recursive: recursion deeper than %lld calls",
                 (long long)body->most);
    ts_error_hint(&f->ctx->err, "does it come to an end? {max = n} allows n calls");
    return NULL;
  }
  if (!body->deeper && !(body->deeper = frame_new(f->ctx, body->code, f->device))) return NULL;
  body->deeper->owner = body->deeper;
  body->deeper->level = body->level + 1;
  body->deeper->most = body->most;
  body->deeper->saves = body->saves;
  return body->deeper;
}

/* The call at f's place, of a body with this code at this site, for the memo. */
static TsMemoKey key_of(const TsFrame *f, const TsCode *code, int64_t site) {
  return (TsMemoKey){code, f->ctx->stream_base, f->ctx->stream_depth, site};
}

static bool is_known(TsFrame *f, const TsFrame *body, int64_t site, bool take) {
  const Step *s = f->at;
  TsMemoKey key = key_of(f, body->code, site);
  return body->saves && ts_memo_find(f->ctx->memo, &key, s->call.nin, s->call.in, s->call.nout,
                                     s->call.out, take);
}

/* A recursive node with a site, in the body of a recursion, stands for an inner call of what
 * this is the gradient of: the next levels will ask for what is inside. */
static TsFrame *recursive_frame(TsFrame *f, int64_t *site) {
  const Step *s = f->at;
  const TsAttr *a = s->call.attr;
  TsFrame *to = sub_frame(f, s->instr->sub, true);
  if (!to) return NULL;
  bool sited = a[TS_RECURSIVE_site].type == TS_ATTR_int;
  if (sited) *site = a[TS_RECURSIVE_site].i;
  to->level = 1;
  to->most = a[TS_RECURSIVE_max].i;
  to->saves = sited && f->owner;
  return to;
}

/* Begins the call that stands at f's place. callee is the frame that runs now, or NULL if the
 * results are there. */
static int begin_call(TsFrame *f, TsFrame **callee) {
  const Step *s = f->at;
  const TsInstr *i = s->instr;
  TsTensor *const *args = s->call.in;
  TsFrame *to = NULL;
  int64_t site = -1;
  *callee = NULL;
  if (i->op == TS_VM_cond) {
    to = sub_frame(f, i->sub + (ts_tensor_get_int(args[0], 0) == 0), false);
    args++;
  } else if (i->op == TS_VM_recursive) {
    if ((to = recursive_frame(f, &site)) && is_known(f, to, site, true)) return 0;
  } else if (i->op == TS_VM_recur) {
    site = s->call.attr[TS_RECUR_site].i;
    if (is_known(f, f->owner, site, false)) return 0;
    to = deeper_frame(f);
  } else {
    to = sub_frame(f, i->sub, false);
  }
  if (!to || enter(to, args, site)) return -1;
  to->caller = f;
  *callee = to;
  return 0;
}

static void forget_inner(TsContext *c) {
  ts_memo_free(c->memo);
  c->memo = NULL;
}

static int interrupted(TsFrame *f) {
  if (!ts_cpu_interrupted()) return 0;
  return ts_error_set(&f->ctx->err, TS_ERR_interrupt, "%s: interrupted", f->code->name);
}

/* The call at f's place has come back with its results, or has failed. */
static int end_call(TsFrame *f, int failed) {
  Step *s = f->at;
  bool inner = s->instr->op == TS_VM_recur;
  if (s->instr->op == TS_VM_recursive) {
    free_deeper(f->sub[s->instr->sub], MOST_KEPT);
    if (!f->owner) forget_inner(f->ctx);
  }
  if (failed) return explain(f, s);
  if (inner && f->owner->saves) {
    TsMemoKey key = key_of(f, f->owner->code, s->call.attr[TS_RECUR_site].i);
    ts_memo_keep(f->ctx, &f->ctx->memo, &key, s->call.nin, s->call.in, s->call.nout,
                 s->call.out);
  }
  take_results(f, s);
  f->at++;
  return interrupted(f);
}

/* Runs f to its end, or to a call: then callee is the frame to go on with. */
static int advance(TsFrame *f, TsFrame **callee) {
  TsContext *c = f->ctx;
  for (Step *s = f->at, *end = f->step + f->code->ninstr; s < end; s++) {
    f->at = s;
    if (is_call(s->instr)) {
      if (begin_call(f, callee)) return explain(f, s);
      if (*callee) return 0;
      take_results(f, s);
      continue;
    }
    if (c->spans ? run_timed(f, s) : run_step(f, s)) return explain(f, s);
    if (interrupted(f)) return -1;
    uint32_t more = s->instr->op == TS_VM_group ? s->instr->sub : 0;
    for (uint32_t k = 0; c->trap && k <= more; k++)
      if (s[k].run && ts_trap_check(&s[k].call, s[k].instr->backward)) return explain(f, s + k);
    s += more;
  }
  return 0;
}

static int run_bound(TsFrame *top, TsTensor *const *args, TsTensor **results) {
  TsFrame *f = top;
  if (enter(top, args, -1)) return -1;
  for (int failed = 0;;) {
    TsFrame *callee = NULL;
    if (!failed) failed = advance(f, &callee);
    if (callee) {
      f = callee;
      continue;
    }
    failed = leave(f, failed, f == top ? results : f->caller->at->call.out);
    if (f == top) return failed;
    f = f->caller;
    failed = end_call(f, failed);
  }
}

/* Donated arguments whose bytes somebody else looks at, or that are not row-major, are copied
 * first: the caller's tensor then stays as it is. */
static int own_donated(TsFrame *f, TsTensor *const *args, TsTensor **own) {
  const TsCode *code = f->code;
  for (int i = 0; i < code->nparam; i++) {
    own[i] = NULL;
    if (code->bound[i]) continue;
    bool alone = args[i]->contiguous && args[i]->storage->refs == 1 &&
                 !args[i]->storage->release &&
                 (!args[i]->storage->held || args[i]->storage->held == TS_HELD_NEVER);
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

static int run_again(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  TsFrame *own = frame_new(f->ctx, f->code, f->device);
  if (own) own->owner = f->owner;
  int failed = own ? ts_frame_run(own, args, results) : -1;
  ts_frame_free(own);
  return failed;
}

int ts_frame_place(TsContext *c, const TsCode *code, TsTensor *const *args) {
  int device = 0;
  for (int i = 0; i < code->nparam; i++) {
    const TsTensor *t = code->bound[i] ? code->bound[i] : args[i];
    int own = t->meta.device;
    if (!ts_offload_on(c, own) || own == device) continue;
    if (device) {
      ts_error_set(&c->err, TS_ERR_device, "%s: inputs on %s and %s", code->name,
                   ts_device_at(device)->name, ts_device_at(own)->name);
      return ts_error_hint(&c->err, "move one with x:to(\"%s\")", ts_device_at(device)->name);
    }
    device = own;
  }
  return device;
}

TsFrame *ts_frame_there(TsFrame *f, int device) {
  if (f->there && f->there->device != device && !f->there->busy) {
    ts_frame_free(f->there);
    if (f->launches && f->ctx->offload) f->ctx->offload->forget(f->launches);
    f->there = NULL;
  }
  if (!f->there && (f->there = frame_new(f->ctx, f->code, device))) f->there->owner = f->owner;
  return f->there;
}

static int run_frame(TsFrame *f, TsTensor *const *args, TsTensor **results);

int ts_frame_device(const TsFrame *f) { return f->device; }

static int drop_results(const TsFrame *f, TsTensor **results) {
  for (int i = 0; i < f->code->nresult; i++) ts_tensor_unref(results[i]);
  return -1;
}

/* Results of a frame that was moved belong where its arguments do. */
static void give_back(const TsFrame *f, TsTensor **results) {
  for (int i = 0; i < f->code->nresult; i++)
    if (results[i]->refs == 1) results[i]->meta.device = 0;
}

int ts_frame_run(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  TsContext *c = f->ctx;
  int device = ts_frame_place(c, f->code, args);
  if (device < 0) return -1;
  bool moved = f->device && !device;
  if (device && !f->device && !(f = ts_frame_there(f, device))) return -1;
  bool outermost = f->device && c->offload && !c->replaying && !f->busy;
  c->on_host += !f->device;
  if (outermost) c->offload->enter(c, f->device, &f->launches);
  int failed = run_frame(f, args, results);
  if (outermost && c->offload->leave(c) && !failed) failed = drop_results(f, results);
  c->on_host -= !f->device;
  if (moved && !failed) give_back(f, results);
  return failed ? -1 : 0;
}

static int run_frame(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  TsContext *c = f->ctx;
  if ((c->npending || c->watched) && prepare(f, args)) return -1;
  if (f->busy) return run_again(f, args, results);
  if (c->runs == MOST_RUNS)
    return ts_error_set(&c->err, TS_ERR_value,
                        "recursion through loops or functions from outside: more than %d deep",
                        MOST_RUNS);
  TsMemo *memo = c->memo;
  if (!f->owner) c->memo = NULL; /* a function of its own, called from outside */
  f->busy = true;
  c->runs++;
  int failed = run_owned(f, args, results);
  c->runs--;
  f->busy = false;
  if (!f->owner) {
    forget_inner(c);
    c->memo = memo;
  }
  return failed;
}
