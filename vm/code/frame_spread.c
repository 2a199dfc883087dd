/* A run of bytecode whose tensors are spread over a mesh: one instruction after the other, as the
 * calls that they are, on registers that are tensors of their own. Layouts of results follow from
 * those of operands at each call (vm/mesh/call.c), so nothing is bound beforehand. */
#include <stdlib.h>

#include "lib/clock.h"
#include "lib/mesh.h"
#include "vm/code/control.h"
#include "vm/code/frame_state.h"
#include "vm/core/profile.h"
#include "vm/core/spread.h"
#include "vm/core/trap.h"

typedef struct Spread {
  TsFrame *f;
  TsTensor **reg, **in, **out; /* by register; of one instruction */
} Spread;

static bool writes_param(const TsCode *code, uint32_t r) {
  return code->reg[r].kind == TS_REG_into && code->reg[r].of < (uint32_t)code->nparam;
}

/* Results go into their registers; over parameters too, where they are new values of these. */
static int give(Spread *s, const TsInstr *i) {
  const TsCode *code = s->f->code;
  int failed = 0;
  for (uint32_t k = 0; k < i->nout; k++) {
    uint32_t r = code->operand[i->at + i->nin + k];
    ts_tensor_unref(s->reg[r]);
    s->reg[r] = s->out[k];
    if (!failed && writes_param(code, r) && !s->f->ctx->planning)
      failed = ts_vm_assign(s->f->ctx, s->reg[code->reg[r].of], s->out[k]);
  }
  return failed;
}

static int run_operator(Spread *s, const TsInstr *i) {
  const TsAttr *attr = i->attr == TS_CODE_NONE ? NULL : s->f->code->attr + i->attr;
  int n = 0;
  return ts_vm_call(s->f->ctx, (TsOp)i->op, (int)i->nin, s->in, attr, (int)i->nout, &n, s->out);
}

/* A function of this one: where leaves are declared it runs call by call too, though nothing of it lies on the
 * mesh, since kernels of its code add up in one. */
static TsFrame *sub_of(Spread *s, uint32_t k) {
  TsFrame *to = ts_frame_sub(s->f, k, false);
  if (to) to->by_calls = s->f->ctx->leaves > 1;
  return to;
}

/* A plan does not know which: it has both. */
static int plan_branches(Spread *s, const TsInstr *i) {
  TsContext *c = s->f->ctx;
  const char *before = c->step_if;
  int failed = 0;
  for (uint32_t k = 0; k < 2 && !failed; k++) {
    TsFrame *to = sub_of(s, i->sub + k);
    for (uint32_t o = 0; o < i->nout && k; o++) ts_tensor_unref(s->out[o]);
    c->step_if = k ? "where a cond is false" : "where a cond is true";
    failed = !to || ts_frame_run(to, s->in + 1, s->out);
  }
  c->step_if = before;
  return failed ? -1 : 0;
}

/* Functions that are called once. */
static int run_call(Spread *s, const TsInstr *i) {
  TsFrame *f = s->f, *to;
  TsTensor **args = s->in;
  uint32_t k = i->sub;
  if (i->op == TS_VM_cond && f->ctx->planning && ts_tensor_is_planned(args[0]))
    return plan_branches(s, i);
  if (i->op == TS_VM_cond) {
    if (!ts_tensor_read(args[0])) return -1;
    k += ts_tensor_get_int(args[0], 0) == 0;
    args++;
  } else if (i->op != TS_VM_call) {
    return ts_error_set(&f->ctx->err, TS_ERR_layout,
                        "%s: a recursion does not run on tensors that are spread over a mesh",
                        f->code->name);
  }
  return (to = sub_of(s, k)) ? ts_frame_run(to, args, s->out) : -1;
}

static int run_control(Spread *s, const TsInstr *i) {
  TsFrame *f = s->f;
  switch (i->op) {
  case TS_VM_update: return f->ctx->planning ? 0 : ts_vm_assign(f->ctx, s->in[0], s->in[1]);
  case TS_VM_group:
  case TS_VM_room: return 0;
  case TS_VM_call:
  case TS_VM_cond:
  case TS_VM_recursive:
  case TS_VM_recur: return run_call(s, i);
  case TS_VM_fused: TS_BUG("a kernel of one device in code of a mesh");
  case TS_VM_custom: break;
  default:
    for (uint32_t k = 0; k < (i->op == TS_VM_while_loop ? 2 : 1); k++)
      if (!sub_of(s, i->sub + k)) return -1;
  }
  return ts_control_run(f->ctx, i, f->code, f->sub, s->in, s->out);
}

/* Parts are made apart, and not in a room of their whole: so nothing looks into it. */
static bool makes_nothing(const Spread *s, const TsInstr *i) {
  if (i->op < TS_OP_COUNT)
    return ts_op_info((TsOp)i->op)->cls == TS_CLASS_VIEW && i->nin && !s->in[0];
  return i->op == TS_VM_update || i->op == TS_VM_group || i->op == TS_VM_room;
}

static int64_t bytes_of(uint32_t n, TsTensor *const *t) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < n; k++) sum += t[k] ? ts_meta_nbytes(&t[k]->meta) : 0;
  return sum;
}

/* In a profile: an instruction with all that its devices did and sent. */
static void add_span(const Spread *s, const TsInstr *i, int64_t start) {
  const TsCode *code = s->f->code;
  TsSpans *spans = s->f->ctx->spans;
  bool known = i->line > 0 && i->line < code->nplace;
  if (i->op < TS_OP_COUNT && ts_op_info((TsOp)i->op)->cls == TS_CLASS_VIEW) return;
  ts_spans_add(spans, &(TsSpan){.start = start,
                                .end = ts_clock_nsec(),
                                .what = i->op == TS_VM_custom
                                            ? ts_control_custom_name(code->ref[i->sub])
                                            : ts_code_op_name(i->op),
                                .place = known ? code->place[i->line] : NULL,
                                .phase = -1,
                                .depth = spans->depth,
                                .nbytes = bytes_of(i->nin, s->in) + bytes_of(i->nout, s->out)});
}

static int run_instruction(Spread *s, const TsInstr *i) {
  const TsCode *code = s->f->code;
  for (uint32_t k = 0; k < i->nin; k++) {
    uint32_t r = code->operand[i->at + k];
    s->in[k] = r == TS_CODE_NONE ? NULL : s->reg[r];
  }
  TsContext *c = s->f->ctx;
  bool nothing = makes_nothing(s, i);
  if (nothing && i->op < TS_OP_COUNT) return 0;
  const char *place = c->step_place;
  bool known = i->line > 0 && i->line < code->nplace;
  if (known) c->step_place = code->place[i->line];
  int64_t start = c->spans ? ts_clock_nsec() : 0;
  if (c->spans) c->spans->depth++;
  bool settles = i->op < TS_OP_COUNT && (i->as || i->backward);
  c->settles += settles;
  int failed = i->op < TS_OP_COUNT ? run_operator(s, i) : run_control(s, i);
  c->settles -= settles;
  if (c->spans) c->spans->depth--;
  if (!failed && c->spans && !nothing) add_span(s, i, start);
  c->step_place = place;
  if (failed) return -1;
  return nothing ? 0 : give(s, i);
}

/* Values that no later instruction reads. */
static void drop(Spread *s, int t) {
  const TsCode *code = s->f->code;
  const TsInstr *i = &code->instr[t];
  for (uint32_t k = 0; k < i->nin; k++) {
    uint32_t r = code->operand[i->at + k];
    if (r == TS_CODE_NONE || r < (uint32_t)code->nparam || code->reg[r].last > t) continue;
    bool kept = false;
    for (int j = 0; j < code->nresult && !kept; j++) kept = code->result[j] == r;
    for (int q = 0; q < code->nreg && !kept; q++) /* a view outlives what it shows */
      kept = (code->reg[q].kind == TS_REG_view || code->reg[q].kind == TS_REG_into) &&
             code->reg[q].of == r && code->reg[q].last > t;
    if (kept) continue;
    ts_tensor_unref(s->reg[r]);
    s->reg[r] = NULL;
  }
}

static int run_all(Spread *s) {
  TsFrame *f = s->f;
  const TsCode *code = f->code;
  int failed = 0, held = 0;
  bool committing = false;
  for (int t = 0; t < code->ninstr && !failed; t++) {
    if (!committing && interrupted(f, &f->step[t])) failed = -1;
    if (!failed && t == code->commit) held = ts_cpu_hold_interrupts(), committing = true;
    if (!failed && run_instruction(s, &code->instr[t]))
      failed = ts_frame_explain(f, &f->step[t]);
    if (!failed) drop(s, t);
  }
  if (committing) ts_cpu_let_interrupts(held), f->ctx->commits += !failed;
  return failed;
}

static int begin(Spread *s, TsTensor *const *args) {
  const TsCode *code = s->f->code;
  uint32_t most = 1;
  for (int t = 0; t < code->ninstr; t++) {
    if (code->instr[t].nin > most) most = code->instr[t].nin;
    if (code->instr[t].nout > most) most = code->instr[t].nout;
  }
  s->reg = calloc((size_t)code->nreg + 2 * (size_t)most, sizeof *s->reg);
  if (!s->reg) return ts_error_memory(&s->f->ctx->err);
  s->in = s->reg + code->nreg, s->out = s->in + most;
  for (int r = 0; r < code->nreg; r++) {
    TsTensor *t =
        r < code->nparam ? (code->bound[r] ? code->bound[r] : args[r]) : code->constant[r];
    if (t) s->reg[r] = ts_tensor_ref(t);
  }
  return 0;
}

int ts_frame_run_spread(TsFrame *f, TsTensor *const *args, TsTensor **results) {
  TsContext *c = f->ctx;
  const TsCode *code = f->code;
  Spread s = {.f = f};
  int done =
      code->graph && c->spread ? c->spread->run(c, &f->pieces, code->graph, args, results) : 0;
  if (done < 0 || done == 1) return done < 0 ? -1 : 0;
  if (begin(&s, args)) return -1;
  c->step_told += done == 2;
  uint64_t base = c->stream_base;
  int depth = c->stream_depth;
  if (!code->region) {
    c->stream_depth = 0;
    c->stream_base = c->stream;
    c->stream += (uint64_t)code->nrandom;
  }
  c->no_grad++;
  c->inside++;
  c->mixes++;
  int failed = run_all(&s);
  c->mixes--;
  c->inside--;
  c->no_grad--;
  c->step_told -= done == 2;
  c->stream_base = base, c->stream_depth = depth;
  for (int i = 0; i < code->nresult && !failed; i++)
    results[i] = ts_tensor_ref(s.reg[code->result[i]]);
  for (int r = 0; r < code->nreg; r++) ts_tensor_unref(s.reg[r]);
  free(s.reg);
  return failed ? -1 : 0;
}
