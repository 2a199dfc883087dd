/* Runs of frames begin and end: memory of the slab, arguments and results, and calls of functions
 * by functions, without C stack. See vm/code/frame.c. */
#include "devices/memory.h"
#include "ir/graph/recursion.h"
#include "vm/code/control.h"
#include "vm/code/frame_state.h"
#include "vm/code/memo.h"
#include "vm/core/offload.h"

enum { MOST_KEPT = 64 /* frames of inner calls that stay bound between runs */ };

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
    if (!f->slab.host) return ts_error_memory(&f->ctx->err);
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

/* ---- runs */
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

/* Bytes that a device made, or the program: handlers look at the host's. */
static int fetch_arguments(TsFrame *f, TsTensor *const *args) {
  const TsCode *code = f->code;
  for (int i = 0; i < code->nparam; i++) {
    TsTensor *t = code->bound[i] ? code->bound[i] : args[i];
    if ((t->storage->valid & 1) && !t->storage->raw) continue;
    if (!ts_tensor_read(t)) return -1;
  }
  return 0;
}

int ts_frame_enter(TsFrame *f, TsTensor *const *args, int64_t site) {
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

int ts_frame_leave(TsFrame *f, int failed, TsTensor **results) {
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
/* The frame of a call of the body within itself. */
static TsFrame *deeper_frame(TsFrame *f) {
  TsFrame *body = f->owner;
  if (body->level >= body->most) {
    ts_error_set(&f->ctx->err, TS_ERR_value, "recursive: recursion deeper than %lld calls",
                 (long long)body->most);
    ts_error_hint(&f->ctx->err, "does it come to an end? {max = n} allows n calls");
    return NULL;
  }
  if (!body->deeper && !(body->deeper = ts_frame_bind(f->ctx, body->code, f->device)))
    return NULL;
  body->deeper->owner = body->deeper;
  body->deeper->level = body->level + 1;
  body->deeper->most = body->most;
  body->deeper->saves = body->saves;
  body->deeper->moved = body->moved;
  return body->deeper;
}

/* The call at f's place, of a body with this code at this site, for the memo. */
static TsMemoKey key_of(const TsFrame *f, const TsCode *code, int64_t site) {
  return (TsMemoKey){code, f->ctx->stream_base, f->ctx->stream_depth, site};
}

static bool is_known(TsFrame *f, const TsFrame *body, int64_t site, bool take) {
  const TsStep *s = f->at;
  TsMemoKey key = key_of(f, body->code, site);
  return body->saves && ts_memo_find(f->ctx->memo, &key, s->call.nin, s->call.in, s->call.nout,
                                     s->call.out, take);
}

/* A recursive node with a site, in the body of a recursion, stands for an inner call of what
 * this is the gradient of: the next levels will ask for what is inside. */
static TsFrame *recursive_frame(TsFrame *f, int64_t *site) {
  const TsStep *s = f->at;
  const TsAttr *a = s->call.attr;
  TsFrame *to = ts_frame_sub(f, s->instr->sub, true);
  if (!to) return NULL;
  bool sited = a[TS_RECURSIVE_site].type == TS_ATTR_int;
  if (sited) *site = a[TS_RECURSIVE_site].i;
  to->level = 1;
  to->most = a[TS_RECURSIVE_max].i;
  to->saves = sited && f->owner;
  return to;
}

/* Memory ran out in a recursion: it may be one without an end. */
static int too_deep(TsFrame *f) {
  TsError *err = &f->ctx->err;
  if (f->at->instr->op != TS_VM_recur || err->code != TS_ERR_memory || *err->hint) return -1;
  return ts_error_hint(err, "%lld calls stand inside each other: does it come to an end?",
                       (long long)f->owner->level);
}

int ts_frame_begin_call(TsFrame *f, TsFrame **callee) {
  const TsStep *s = f->at;
  const TsInstr *i = s->instr;
  TsTensor *const *args = s->call.in;
  TsFrame *to = NULL;
  int64_t site = -1;
  *callee = NULL;
  if (i->op == TS_VM_cond) {
    to = ts_frame_sub(f, i->sub + (ts_tensor_get_int(args[0], 0) == 0), false);
    args++;
  } else if (i->op == TS_VM_recursive) {
    if ((to = recursive_frame(f, &site)) && is_known(f, to, site, true)) return 0;
  } else if (i->op == TS_VM_recur) {
    site = s->call.attr[TS_RECUR_site].i;
    if (is_known(f, f->owner, site, false)) return 0;
    to = deeper_frame(f);
  } else {
    to = ts_frame_sub(f, i->sub, false);
  }
  if (!to || ts_frame_enter(to, args, site)) return too_deep(f);
  to->caller = f;
  *callee = to;
  return 0;
}

void ts_frame_forget_inner(TsContext *c) {
  ts_memo_free(c->memo);
  c->memo = NULL;
}

int ts_frame_end_call(TsFrame *f, int failed) {
  TsStep *s = f->at;
  bool inner = s->instr->op == TS_VM_recur;
  if (s->instr->op == TS_VM_recursive) {
    ts_frame_free_deeper(f->sub[s->instr->sub], MOST_KEPT);
    if (!f->owner) ts_frame_forget_inner(f->ctx);
  }
  if (failed) return too_deep(f), ts_frame_explain(f, s);
  if (inner && f->owner->saves) {
    TsMemoKey key = key_of(f, f->owner->code, s->call.attr[TS_RECUR_site].i);
    ts_memo_keep(f->ctx, &f->ctx->memo, &key, s->call.nin, s->call.in, s->call.nout,
                 s->call.out);
  }
  take_results(f, s);
  f->at++;
  return interrupted(f, s);
}
