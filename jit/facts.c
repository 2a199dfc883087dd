/* What became of the groups of a function, and why: facts for commands and scripts, as JSON.
 * Text for people is made of them in lib/lua/explain. */
#include <stdlib.h>
#include <string.h>

#include "devices/device.h"
#include "ir/graph/names.h"
#include "ir/lower/lower.h"
#include "ir/sched/why.h"
#include "ir/tile/sequence.h"
#include "jit/build/build.h"
#include "jit/build/instruction.h"
#include "jit/build/patched.h"
#include "jit/device/kernel.h"
#include "jit/facts.h"
#include "lib/facts.h"

/* ---- why the VM has a group */
static const char *vm_reason(const TsNode *n) {
  if (n->nregion) return "it runs functions; see their groups";
  if (n->op >= TS_OP_COUNT) return "it has no kernel";
  switch (ts_op_info((TsOp)n->op)->cls) {
  case TS_CLASS_RANDOM:
    return "it draws what kernels do not, or from a stream that is not known";
  case TS_CLASS_REDUCE: return "it does not reduce the first or last axes of floats";
  case TS_CLASS_POINTWISE: return "its types have no kernel";
  default: return "the VM's own kernel is used";
  }
}

/* Of a group that a GPU has no kernel of in the function: its call may have some. */
static void gpu_reason(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, TsText *text) {
  TsSchedKernel k;
  TsError err = {0};
  if (g->node[0]->nregion || g->node[0]->op >= TS_OP_COUNT) {
    ts_text_str(text, vm_reason(g->node[0]));
  } else if (!ts_build_tile(b, f, g, &k, &err)) {
    ts_text_str(text, "its call launches it, with others of its kind");
    ts_tile_free(k.tile);
  } else {
    ts_text_format(text, "its call has copies, or the CPU runs it: %s", err.message);
  }
}

static void tell_kernel(const TsFusion *f, const TsGroup *g, const char *is, TsText *text) {
  const char *why = ts_lower_without(f->sched, g);
  ts_text_format(text, "%s of %d operator%s", is, g->nnode, g->nnode == 1 ? "" : "s");
  if (why) ts_text_format(text, ", without the matrix unit: %s", why);
  why = ts_lower_factors_become(g);
  if (why) ts_text_format(text, ", factors become %s first", why);
  if (g->node[0]->op != TS_OP_paged_attention) return;
  why = ts_lower_pages_together(f->sched, g);
  ts_text_str(text, why ? ", pages are brought together: " : ", pages are read in place");
  if (why) ts_text_str(text, why);
}

/* Of a GPU that is not here. */
static const char *would_be(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                            TsText *text) {
  TsSchedKernel k;
  TsError err = {0};
  if (g->node[0]->nregion || g->node[0]->op >= TS_OP_COUNT) {
    ts_text_str(text, vm_reason(g->node[0]));
    return "operator";
  }
  if (ts_build_tile(b, f, g, &k, &err)) {
    ts_text_format(text, "its call has copies, or the CPU runs it: %s", err.message);
    return "call";
  }
  ts_tile_free(k.tile);
  tell_kernel(f, g, "would be a kernel", text);
  return "would be";
}

/* A concat whose parts a kernel writes into its result (jit/build/join.h). */
static bool is_joined(const TsFusion *f, const TsGroup *g) {
  for (int i = 0; i < f->sched->ngroup; i++)
    if (f->of[i].into && f->of[i].into == g->node[0]) return true;
  return false;
}

/* What runs the group: a word, and a sentence. */
static const char *state_of(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                            TsText *text) {
  const TsFusedGroup *u = &f->of[g->index];
  if (is_joined(f, g)) {
    ts_text_str(text, "it does not run: its parts are written where it has them");
    return "in place";
  }
  if (u->fused) {
    tell_kernel(f, g, "kernel", text);
    return "kernel";
  }
  if (ts_target_gpu(ts_build_target(b)) && !ts_build_worth_on(b, g)) {
    gpu_reason(b, f, g, text);
    return "call";
  }
  if (u->usec > 0) {
    ts_text_format(text, "returned to the VM: %.1f us by its kernel, %.1f us without", u->usec,
                   u->usec_without);
    return "returned";
  }
  if (g->kind == TS_GROUP_vm && ts_target_gpu(ts_build_target(b)))
    return would_be(b, f, g, text);
  if (g->kind == TS_GROUP_vm) {
    ts_text_str(text, vm_reason(g->node[0]));
    return "operator";
  }
  if (!ts_build_worth(g)) {
    ts_text_str(text, "one operator: the VM's own kernel is as good");
    return "operator";
  }
  tell_kernel(f, g, "would be a kernel", text);
  return "would be";
}

/* ---- why nodes are together, and kernels apart */
static void put_why(const TsWhy *w, TsText *text) {
  const TsWhyRow *row = w ? ts_why_row(w->name) : NULL;
  TsText sentence = {0};
  if (!row) return ts_facts_none(text, "reason", "nothing was decided about it");
  ts_facts_text(text, "reason", row->name);
  ts_why_text(w, &sentence);
  ts_facts_take(text, "text", &sentence);
  if (*row->a) ts_facts_number(text, row->a, (double)w->a);
  if (*row->b) ts_facts_number(text, row->b, (double)w->b);
}

static void put_members(const TsSched *s, const TsGroup *g, TsText *text) {
  ts_facts_list(text, "members");
  for (int i = 0; i < g->nnode; i++) {
    const char *where = ts_graph_where(g->node[i]);
    ts_facts_object(text, NULL);
    ts_facts_text(text, "operator", ts_node_name(g->node[i]));
    if (*where)
      ts_facts_text(text, "where", where);
    else
      ts_facts_none(text, "where", "it comes from no line of the program");
    put_why(ts_why_of(s, g->node[i]), text);
    ts_facts_end(text, '}');
  }
  ts_facts_end(text, ']');
}

static void put_reads(const TsNames *names, const TsWhyPair *p, const TsWhyPair *end,
                      TsText *text) {
  ts_facts_list(text, "reads");
  for (; p < end; p++) {
    TsText name = {0};
    ts_facts_object(text, NULL);
    ts_facts_number(text, "from", p->from);
    ts_text_format(&name, "%%%s", ts_names_of(names, p->value));
    ts_facts_take(text, "value", &name);
    ts_facts_number(text, "values", p->nvalue);
    ts_facts_number(text, "bytes", p->bytes);
    ts_facts_flag(text, "together", p->why && !ts_why_row(p->why->name)->rank);
    put_why(p->why, text);
    ts_facts_end(text, '}');
  }
  ts_facts_end(text, ']');
}

static void put_head(const TsGroup *g, TsText *text) {
  TsText what = {0}, where = {0};
  ts_facts_number(text, "group", g->index);
  ts_facts_text(text, "kind", ts_group_kind_name(g->kind));
  ts_sched_what(g, &what);
  ts_facts_take(text, "what", &what);
  ts_sched_where(g, &where);
  if (where.at)
    ts_facts_take(text, "where", &where);
  else
    ts_facts_none(text, "where", "it comes from no line of the program");
}

/* What was chosen for its kernel, and what of the program's wishes could not be had, a line
 * each. */
static void put_choice(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, TsText *text) {
  TsText choice = {0}, remarks = {0};
  if (ts_build_is_patched(b, f, g)) {
    ts_facts_none(text, "choice", "it was edited by the user: its text says what it has");
  } else if (f->of[g->index].fused) {
    ts_build_choice_text(g, &choice);
    ts_facts_take(text, "choice", &choice);
  } else {
    ts_facts_none(text, "choice", "no kernel runs");
  }
  ts_build_remarks_text(g, &remarks);
  ts_build_patch_lost(b, f, g, &remarks);
  if (remarks.len)
    ts_facts_take(text, "remarks", &remarks);
  else
    ts_text_free(&remarks);
}

static void put_group(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                      const TsNames *names, const TsWhyPair *p, const TsWhyPair *end,
                      TsText *text) {
  TsText sentence = {0};
  ts_facts_object(text, NULL);
  put_head(g, text);
  ts_facts_text(text, "state", state_of(b, f, g, &sentence));
  ts_facts_take(text, "state_text", &sentence);
  ts_facts_flag(text, "edited", ts_build_is_patched(b, f, g));
  ts_facts_number(text, "expected_ns", g->usec * 1000);
  ts_facts_number(text, "bytes", g->bytes);
  ts_facts_number(text, "flops", g->flops);
  if (g->kind != TS_GROUP_vm)
    ts_facts_numbers(text, "space", g->naxis, g->axis);
  else
    ts_facts_none(text, "space", "it is no kernel");
  put_choice(b, f, g, text);
  put_members(f->sched, g, text);
  put_reads(names, p, end, text);
  ts_facts_end(text, '}');
}

static int put_function(const TsBuildJob *b, const TsFusion *f, TsText *text, TsError *err) {
  TsNames names;
  int n = 0, at = 0, failed = ts_names_open(&names, f->g);
  TsWhyPair *pair = failed ? NULL : ts_why_pairs(f->sched, &n);
  if (pair) {
    ts_facts_object(text, NULL);
    ts_facts_text(text, "name", f->g->name);
    ts_facts_list(text, "groups");
    for (int i = 0; i < f->sched->ngroup; i++) {
      int end = at;
      while (end < n && pair[end].to == i) end++;
      put_group(b, f, f->sched->group[i], &names, pair + at, pair + end, text);
      at = end;
    }
    ts_facts_end(text, ']');
    ts_facts_end(text, '}');
  }
  ts_names_close(&names);
  failed = !pair;
  free(pair);
  return failed ? ts_error_memory(err) : 0;
}

static int put_functions(const TsBuildJob *b, TsText *text, TsError *err) {
  ts_facts_list(text, "functions");
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    if (put_function(b, f, text, err)) return -1;
  ts_facts_end(text, ']');
  return 0;
}

/* ---- kernels that were refused: the lines of the build */
static void put_refused(const TsBuildJob *b, TsText *text) {
  ts_facts_list(text, "refused");
  for (const char *s = b->why.at; s && *s;) {
    const char *end = strchr(s, '\n');
    TsText line = {0};
    ts_text_add(&line, s, end ? (size_t)(end - s) : strlen(s));
    ts_facts_take(text, NULL, &line);
    s = end ? end + 1 : NULL;
  }
  ts_facts_end(text, ']');
}

/* ---- tiles */
static void put_digests(const TsTile *k, TsText *text) {
  int n = k->sequence ? k->sequence->n : 1;
  ts_facts_list(text, "kernels");
  for (int i = 0; i < n; i++) {
    TsText digest = {0};
    ts_build_digest(k->sequence ? k->sequence->step[i].k : k, &digest);
    ts_facts_take(text, NULL, &digest);
  }
  ts_facts_end(text, ']');
}

static void put_code(const TsBuildJob *b, const TsFused *u, TsText *text) {
  const TsKernel *code = u && !b->device ? ts_instruction_kernel(u) : NULL;
  if (!code) {
    ts_facts_none(text, "code",
                  u ? b->device ? "the device has it" : "it is interpreted"
                    : "nothing is compiled");
    return;
  }
  ts_facts_object(text, "code");
  ts_facts_text(text, "target", code->target);
  ts_facts_number(text, "phases", code->nphase);
  ts_facts_number(text, "bytes", (double)code->object_bytes);
  ts_facts_flag(text, "from_disk", code->cached);
  ts_facts_end(text, '}');
}

static void put_tile(const TsBuildJob *b, const TsFusion *f, const TsGroup *g, TsText *text) {
  TsError err = {0};
  TsSchedKernel k;
  const TsFused *u = f->of[g->index].fused;
  ts_facts_object(text, NULL);
  ts_facts_text(text, "function", f->g->name);
  put_head(g, text);
  ts_facts_numbers(text, "space", g->naxis, g->axis);
  if (ts_build_tile(b, f, g, &k, &err)) {
    ts_facts_none(text, "tile", err.message);
    put_choice(b, f, g, text);
  } else {
    ts_facts_numbers(text, "tile", k.tile->ntile, k.tile->tile);
    if (u && b->device) ts_facts_text(text, "device", b->device->name);
    if (ts_target_gpu(ts_build_target(b))) put_digests(k.tile, text);
    put_code(b, u, text);
    put_choice(b, f, g, text);
    ts_facts_flag(text, "edited", ts_build_is_patched(b, f, g));
    ts_tile_free(k.tile);
  }
  ts_facts_end(text, '}');
}

/* ---- the levels below */
static void put_kernel(const TsBuildJob *b, const TsFusion *f, const TsGroup *g,
                       const char *level, TsText *text) {
  TsError err = {0};
  TsText kernel = {0};
  ts_facts_object(text, NULL);
  ts_facts_text(text, "function", f->g->name);
  put_head(g, text);
  if (ts_build_group_text(b, f, g, level, &kernel, &err)) {
    ts_facts_none(text, "text", err.message);
    ts_text_free(&kernel);
  } else {
    ts_facts_take(text, "text", &kernel);
  }
  ts_facts_end(text, '}');
}

static void put_kernels(const TsBuildJob *b, const char *level, TsText *text) {
  ts_facts_list(text, "kernels");
  for (const TsFusion *f = &b->fusion; f; f = f->next)
    for (int i = 0; i < f->sched->ngroup; i++) {
      const TsGroup *g = f->sched->group[i];
      if (!ts_build_worth_on(b, g)) continue;
      if (level)
        put_kernel(b, f, g, level, text);
      else
        put_tile(b, f, g, text);
    }
  ts_facts_end(text, ']');
}

int ts_build_facts(const TsBuildJob *b, const char *level, TsText *text, TsError *err) {
  bool tiles = !strcmp(level, "tiles");
  if (!strcmp(level, "why")) {
    if (put_functions(b, text, err)) return -1;
    put_refused(b, text);
  } else if (tiles || ts_build_has_level(level)) {
    put_kernels(b, tiles ? NULL : level, text);
  } else {
    return ts_error_set(err, TS_ERR_argument, "level '%s' is not of kernels", level);
  }
  return text->failed ? ts_error_memory(err) : 0;
}
