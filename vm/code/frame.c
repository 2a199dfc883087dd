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
 * frames and no C stack. Loops (vm/code/control.c) run their functions by a C call each, which
 * bounds how often a recursion may pass through loops.
 *
 * Instructions that change parameters stand at the end, behind all that may fail
 * (vm/code/lower_late.c): they run as a whole, without interrupts.
 *
 * vm/code/frame_bind.c binds, vm/code/frame_call.c has what a run and a call begin and end with. */
#include <stdlib.h>

#include "lib/mesh.h"
#include "vm/code/control.h"
#include "vm/core/defer.h"
#include "vm/code/frame_state.h"
#include "vm/code/fused.h"
#include "vm/core/mapped.h"
#include "vm/code/memo.h"
#include "vm/core/offload.h"
#include "vm/drive/optim.h"
#include "vm/core/profile.h"
#include "vm/core/trap.h"
#include "lib/clock.h"

enum { MOST_RUNS = 1000 /* some 500 bytes of C stack each, through a loop */ };

/* ---- steps */
static int allocate_fresh(TsFrame *f, TsStep *s) {
  const TsCode *code = f->code;
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t r = code->operand[s->instr->at + s->instr->nin + k];
    if (code->reg[r].kind != TS_REG_fresh || f->reg[r]) continue;
    TsMeta m = code->reg[r].meta;
    m.device = (uint8_t)f->device;
    TsTensor *t = ts_tensor_new(f->ctx, &m);
    if (!t) return -1;
    put(f, r, t);
  }
  return 0;
}

/* Outputs in rooms that are there by now. */
static void find_rooms(TsFrame *f, const TsStep *s) {
  const TsCode *code = f->code;
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t r = code->operand[s->instr->at + s->instr->nin + k];
    if (in_room(code, r) && f->changes[r]) put(f, r, f->reg[code->reg[r].of]);
  }
}

/* Outputs that a handler or a control instruction made. */
static void take_outputs(TsFrame *f, TsStep *s) {
  const TsCode *code = f->code;
  for (uint32_t k = 0; k < s->instr->nout; k++) {
    uint32_t at = s->instr->at + s->instr->nin + k, r = code->operand[at];
    if (!f->changes[r] || code->reg[r].kind == TS_REG_fresh) continue;
    if (code->reg[r].kind == TS_REG_into) continue;
    put(f, r, f->slot[at]);
  }
}

/* A kernel of the device, else the handler over fetched bytes. */
static int run_there(TsFrame *f, TsStep *s) {
  TsContext *c = f->ctx;
  if (ts_op_info(s->call.op)->cls == TS_CLASS_VIEW) return s->run(&s->call);
  int done = c->offload ? c->offload->call(&s->call, f->device, true) : 0;
  return done ? (done == 1 ? 0 : -1) : ts_offload_here(s->run, &s->call);
}

/* Pieces that are done are not done again. */
static int run_group_there(TsFrame *f, int n, TsStep *s, TsCall *const *call) {
  TsContext *c = f->ctx;
  const TsOffload *o = c->offload;
  bool again = true;
  for (int i = 0; i < n;) {
    int done = o ? o->group(c, n - i, call + i, f->device) : 0;
    if (!done) done = run_there(f, &s[i]) ? -1 : 1;
    if (done < 0 && !(again && ts_context_once_more(c))) {
      if (i && c->err.code == TS_ERR_memory) c->err.code = TS_ERR_device;
      return -1;
    }
    again = done >= 0;
    if (done > 0) i += done;
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
static int run_group(TsFrame *f, TsStep *s) {
  int n = (int)s->instr->sub;
  TsCall *few[64] = {NULL}, **call = n <= 64 ? few : malloc(sizeof *call * (size_t)n);
  if (!call) return ts_error_memory(&f->ctx->err);
  int failed = 0;
  for (int i = 0; i < n; i++) call[i] = &s[1 + i].call;
  for (int i = 1; i <= n && !failed; i++) failed = s[i].fresh && allocate_fresh(f, &s[i]);
  if (!failed)
    failed = f->device ? run_group_there(f, n, s + 1, call) : run_group_here(n, call);
  if (call != few) free(call);
  return failed;
}

static int run_fused(TsFrame *f, TsStep *s) {
  if (s->fresh && allocate_fresh(f, s)) return -1;
  if (s->into) find_rooms(f, s);
  return ts_fused_run(f->code->fused[s->instr->sub], f->ctx, s->call.in, s->call.out);
}

static int bind_subs(TsFrame *f, const TsInstr *i) {
  for (uint32_t k = 0; k < (i->op == TS_VM_while_loop ? 2 : 1); k++)
    if (!ts_frame_sub(f, i->sub + k, false)) return -1;
  return 0;
}

/* A function from outside asks where its inputs are, as operators of a frame do not: in one that
 * was moved, arguments follow what was computed. */
static int run_outside(TsFrame *f, TsStep *s) {
  int n = s->call.nin, failed = 0;
  bool there = false;
  for (int i = 0; i < n; i++) there |= s->call.in[i]->meta.device == f->device;
  if (!f->moved || !there)
    return ts_control_run(f->ctx, s->instr, f->code, f->sub, s->call.in, s->call.out);
  TsTensor **in = calloc((size_t)n + 1, sizeof *in);
  if (!in) return ts_error_memory(&f->ctx->err);
  for (int i = 0; i < n && !failed; i++) failed = !(in[i] = ts_frame_follow(f, s->call.in[i]));
  failed = failed || ts_control_run(f->ctx, s->instr, f->code, f->sub, in, s->call.out);
  for (int i = 0; i < n; i++) ts_tensor_unref(in[i]);
  free(in);
  return failed ? -1 : 0;
}

static int run_control(TsFrame *f, TsStep *s) {
  switch (s->instr->op) {
  case TS_VM_fused: return run_fused(f, s);
  case TS_VM_update: return ts_vm_assign(f->ctx, s->call.in[0], s->call.in[1]);
  case TS_VM_group: return run_group(f, s);
  case TS_VM_room: return s->fresh ? allocate_fresh(f, s) : 0;
  case TS_VM_custom:
    if (run_outside(f, s)) return -1;
    take_results(f, s);
    return 0;
  default:
    if (bind_subs(f, s->instr)) return -1;
    if (ts_control_run(f->ctx, s->instr, f->code, f->sub, s->call.in, s->call.out)) return -1;
    take_results(f, s);
    return 0;
  }
}

int ts_frame_explain(TsFrame *f, const TsStep *s) {
  const TsCode *code = f->code;
  int as = s->instr->as;
  if (as) ts_op_error_of(&f->ctx->err, ts_op_info((TsOp)(as - 1))->name);
  if (s->instr->line <= 0 || s->instr->line >= code->nplace) return -1;
  return ts_error_where(&f->ctx->err, code->name, code->place[s->instr->line]);
}

int ts_frame_tell_interrupt(TsFrame *f, const TsStep *s) {
  const TsCode *code = f->code;
  int line = s->instr->line;
  bool placed = line > 0 && line < code->nplace && *code->place[line];
  return ts_error_set(&f->ctx->err, TS_ERR_interrupt, "%s%s%s: interrupted", code->name,
                      placed ? " at " : "", placed ? code->place[line] : "");
}

static int run_step(TsFrame *f, TsStep *s) {
  if (!s->run) return s->instr->op < TS_OP_COUNT ? 0 : run_control(f, s);
  if (s->fresh && allocate_fresh(f, s)) return -1;
  if (s->into) find_rooms(f, s);
  if (f->device ? run_there(f, s) : s->run(&s->call)) return -1;
  if (s->sets) take_outputs(f, s);
  return 0;
}

/* The same under a profile: each step of a group by itself would be another run. */
static int run_timed(TsFrame *f, TsStep *s) {
  TsSpans *spans = f->ctx->spans;
  const TsCode *code = f->code;
  const TsInstr *i = s->instr;
  const TsFused *fused = i->op == TS_VM_fused ? code->fused[i->sub] : NULL;
  const char *what = fused                   ? (fused->what ? fused->what : fused->name)
                     : i->op == TS_VM_custom ? ts_control_custom_name(code->ref[i->sub])
                                             : ts_code_op_name(i->op);
  bool placed = !fused && i->line > 0 && i->line < code->nplace;
  const char *place = placed ? code->place[i->line] : NULL;
  bool nothing = i->op < TS_OP_COUNT && ts_op_info((TsOp)i->op)->cls == TS_CLASS_VIEW;
  TsActivity *w = nothing ? NULL : ts_activity_begin(TS_ACTIVITY_instruction, what, place);
  int64_t start = ts_clock_nsec();
  if (spans) spans->depth++;
  int failed = run_step(f, s);
  if (spans) spans->depth--;
  double flops = fused ? fused->flops : 0;
  if (!failed && !nothing && spans) ts_spans_step(spans, &s->call, what, place, start, flops);
  if (w)
    ts_activity_end(w, failed ? 0 : ts_call_nbytes(&s->call),
                    failed      ? 0
                    : flops > 0 ? flops
                                : ts_call_flops(&s->call));
  return failed;
}

static int run_one(TsFrame *f, TsStep *s) {
  return f->ctx->spans || ts_activities ? run_timed(f, s) : run_step(f, s);
}

static int run_measured(TsFrame *f, TsStep *s) {
  int64_t start = ts_clock_nsec(), *shortest = &f->shortest[s - f->step];
  int failed = run_one(f, s);
  int64_t nsec = ts_clock_nsec() - start;
  if (!failed && nsec < *shortest) *shortest = nsec;
  return failed;
}

/* ---- frames */
static bool is_call(const TsInstr *i) {
  return i->op == TS_VM_call || i->op == TS_VM_cond || i->op == TS_VM_recursive ||
         i->op == TS_VM_recur;
}

static int check_trap(TsFrame *f, TsStep *s) {
  uint32_t more = s->instr->op == TS_VM_group ? s->instr->sub : 0;
  for (uint32_t k = 0; k <= more; k++)
    if (s[k].run && ts_trap_check(&s[k].call, s[k].instr->backward))
      return ts_frame_explain(f, s + k);
  return 0;
}

static TsStep *behind(TsStep *s) {
  return s + 1 + (s->instr->op == TS_VM_group ? s->instr->sub : 0);
}

static int run_and_time(TsFrame *f, TsStep *s) {
  return f->measured ? run_measured(f, s) : run_one(f, s);
}

static int run_surely(TsFrame *f, TsStep *s) {
  f->at = s;
  if (!run_and_time(f, s)) return 0;
  return ts_context_once_more(f->ctx) ? run_and_time(f, s) : -1;
}

/* What changes parameters, from s on: all of it or nothing. A trap is told when it is done. */
static int commit(TsFrame *f, TsStep *s) {
  TsContext *c = f->ctx;
  TsError trapped = {0};
  if (interrupted(f, f->at)) return -1;
  int held = ts_cpu_hold_interrupts(), failed = 0;
  TsStep *first = s;
  for (TsStep *end = f->step + f->code->ninstr; s < end && !failed; s = behind(s)) {
    if ((failed = run_surely(f, s))) continue;
    if (c->trap && !trapped.code && check_trap(f, s)) trapped = c->err;
  }
  ts_cpu_let_interrupts(held);
  if (failed) {
    if (f->at != first)
      ts_error_hint(&c->err, "some of what %s changes in place has changed, some has not",
                    f->code->name);
    return ts_frame_explain(f, f->at);
  }
  c->commits++;
  c->err = trapped;
  return trapped.code ? -1 : 0;
}

/* Runs f to its end, or to a call: then callee is the frame to go on with. */
static int advance(TsFrame *f, TsFrame **callee) {
  TsContext *c = f->ctx;
  const TsCode *code = f->code;
  TsStep *end = f->step + (code->commit < 0 ? code->ninstr : code->commit);
  for (TsStep *s = f->at; s < end; s = behind(s)) {
    f->at = s;
    if (is_call(s->instr)) {
      if (ts_frame_begin_call(f, callee)) return ts_frame_explain(f, s);
      if (*callee) return 0;
      take_results(f, s);
      continue;
    }
    int failed = run_and_time(f, s);
    if (interrupted(f, s)) return -1; /* and what failed, failed of that */
    if (failed) return ts_frame_explain(f, s);
    if (c->trap && check_trap(f, s)) return -1;
  }
  return code->commit < 0 ? 0 : commit(f, end);
}

static int run_bound(TsFrame *top, TsTensor *const *args, TsTensor **results) {
  TsFrame *f = top;
  if (ts_frame_enter(top, args, -1)) return -1;
  for (int failed = 0;;) {
    TsFrame *callee = NULL;
    if (!failed) failed = advance(f, &callee);
    if (callee) {
      f = callee;
      continue;
    }
    failed = ts_frame_leave(f, failed, f == top ? results : f->caller->at->call.out);
    if (f == top) return failed;
    f = f->caller;
    failed = ts_frame_end_call(f, failed);
  }
}

/* ---- runs from outside */
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
  for (int i = code->commit < 0 ? code->ninstr : code->commit; i < code->ninstr; i++) {
    if (code->instr[i].op != TS_VM_update) continue;
    uint32_t p = code->operand[code->instr[i].at];
    if (ts_defer_touch((code->bound[p] ? code->bound[p] : args[p])->storage)) return -1;
  }
  return 0;
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
  int failed = own ? own_donated(f, args, own) : ts_error_memory(&f->ctx->err);
  if (!failed) failed = run_bound(f, own, results);
  for (int i = 0; own && i < code->nparam; i++) {
    if (own[i] && code->donated[i]) own[i]->storage->version++;
    ts_tensor_unref(own[i]);
  }
  free(own);
  return failed;
}

static int run_again(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  TsFrame *own = ts_frame_bind(f->ctx, f->code, f->device);
  if (own) own->owner = f->owner, own->moved = f->moved, own->by_calls = f->by_calls;
  int failed = own ? ts_frame_run(own, args, results) : -1;
  ts_frame_free(own);
  return failed;
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
    ts_frame_forget_inner(c);
    c->memo = memo;
  }
  return failed;
}

static int drop_results(const TsFrame *f, TsTensor **results) {
  for (int i = 0; i < f->code->nresult; i++) ts_tensor_unref(results[i]);
  return -1;
}

/* Results of a frame that was moved belong where its arguments do. */
static void give_back(const TsFrame *f, TsTensor **results) {
  for (int i = 0; i < f->code->nresult; i++)
    if (results[i]->refs == 1) results[i]->meta.device = 0;
}

int ts_frame_measure(TsFrame *f, bool on) {
  int n = f->code->ninstr;
  f->measured = false;
  if (on && !f->shortest) {
    if (!(f->shortest = malloc(sizeof *f->shortest * ((size_t)n + 1)))) return -1;
    for (int i = 0; i < n; i++) f->shortest[i] = INT64_MAX;
  }
  f->measured = on;
  return 0;
}

int64_t ts_frame_shortest(const TsFrame *f, int node) {
  int64_t sum = 0;
  for (int i = 0; i < f->code->ninstr; i++) {
    if (f->code->instr[i].node != node) continue;
    if (!f->shortest || f->shortest[i] == INT64_MAX) return -1;
    sum += f->shortest[i];
  }
  return sum;
}

/* What lies over a file that another program has changed meanwhile. */
static int check_files(TsContext *c, const TsCode *code, TsTensor *const *args) {
  return ts_mapped_check(c, code->nparam, code->bound) ||
         ts_mapped_check(c, code->nparam, args);
}

int ts_frame_run(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  TsContext *c = f->ctx;
  int device = ts_frame_place(c, f->code, args);
  if (device < 0) return -1;
  if (device == TS_DEVICE_MESH || f->by_calls) return ts_frame_run_spread(f, args, results);
  bool moved = f->device && !device;
  if (device && !f->device && !(f = ts_frame_there(f, device))) return -1;
  bool outermost = f->device && c->offload && !c->replaying && !f->busy;
  c->on_host += !f->device;
  if (outermost) c->offload->enter(c, f->device, &f->launches);
  bool was = f->moved;
  f->moved |= moved;
  int failed = run_frame(f, args, results);
  f->moved = was;
  if (outermost && c->offload->leave(c) && !failed) failed = drop_results(f, results);
  c->on_host -= !f->device;
  if (moved && !failed) give_back(f, results);
  if (!failed && ts_mapped_changed() && check_files(c, f->code, args))
    failed = drop_results(f, results);
  return failed ? -1 : 0;
}
