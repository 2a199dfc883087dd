/* The reader of schedules; the grammar stands in ir/sched/sched.h. It is given the graph, whose
 * values the text names as the graph's own text does, and builds what the text says: whether
 * that is legal, ts_sched_check says. */
#include <stdlib.h>
#include <string.h>

#include "ir/graph/names.h"
#include "ir/sched/sched.h"
#include "ir/text/map.h"
#include "ir/text/value.h"
#include "ir/tile/pairs.h"

typedef struct Parser {
  TsReader r;
  TsArena scratch;
  TsNames names;
  TsTextMap values; /* by name: a TsVal */
  TsSched *s;
} Parser;

static int enter(Parser *p, TsVal v) {
  const char *name = ts_names_of(&p->names, v);
  TsMapSlot *slot = ts_text_map_enter(&p->values, name, (int)strlen(name));
  if (!slot) return ts_read_no_memory(&p->r);
  slot->value = v;
  return 0;
}

static int enter_values(Parser *p) {
  const TsGraph *g = p->s->g;
  for (int i = 0; i < g->nnode; i++)
    for (int k = 0; k < g->node[i]->nout; k++)
      if (enter(p, &g->node[i]->out[k])) return -1;
  return 0;
}

/* ---- lists of values */
typedef struct List {
  int n, cap;
  TsVal *at;
} List;

static int add(Parser *p, List *l, TsVal v) {
  if (l->n == l->cap) {
    int cap = l->cap ? 2 * l->cap : 8;
    TsVal *more = ts_arena_alloc(&p->s->arena, sizeof *more * (size_t)cap);
    if (!more) return ts_read_no_memory(&p->r);
    if (l->n) memcpy(more, l->at, sizeof *more * (size_t)l->n);
    l->at = more;
    l->cap = cap;
  }
  l->at[l->n++] = v;
  return 0;
}

static int value(Parser *p, List *l) {
  TsToken t = p->r.now;
  if (ts_read_expect(&p->r, TS_TOKEN_value, "a value")) return -1;
  TsMapSlot *slot = ts_text_map_find(&p->values, t.at + 1, t.len - 1);
  if (!slot) return ts_read_fail(&p->r, t.at, "the graph has no value %.*s", t.len, t.at);
  return add(p, l, (TsVal)(uintptr_t)slot->value);
}

static int values(Parser *p, List *l) {
  if (p->r.now.kind != TS_TOKEN_value) return 0;
  do
    if (value(p, l)) return -1;
  while (ts_read_accept(&p->r, ','));
  return 0;
}

/* ---- groups */
static int kind_of(Parser *p, uint8_t *out) {
  TsToken t = p->r.now;
  for (int k = 0; t.kind == TS_TOKEN_word && ts_group_kind_name(k); k++) {
    if (!ts_read_is_word(&p->r, ts_group_kind_name(k))) continue;
    *out = (uint8_t)k;
    return ts_read_next(&p->r);
  }
  return ts_read_unexpected(&p->r, "the kind of a group");
}

static int space(Parser *p, TsGroup *g) {
  TsReader *r = &p->r;
  if (!ts_read_is_word(r, "space")) return ts_read_unexpected(r, "'space'");
  int64_t all = 1;
  ts_read_next(r);
  if (ts_read_expect(r, '[', "'['")) return -1;
  while (r->now.kind != ']') {
    if (g->naxis && ts_read_expect(r, ',', "','")) return -1;
    if (g->naxis == TS_TILE_RANK) return ts_read_unexpected(r, "no more axes");
    if (ts_read_int(r, "the size of an axis", &g->axis[g->naxis])) return -1;
    if (g->axis[g->naxis] < 1 || __builtin_mul_overflow(all, g->axis[g->naxis], &all))
      return ts_read_fail(r, r->before.at,
                          "an axis has at least one element, the space a size");
    g->naxis++;
  }
  ts_read_next(r);
  if (!ts_read_is_word(r, "row")) return 0;
  int64_t n = 0;
  ts_read_next(r);
  if (ts_read_int(r, "how many axes make a row", &n)) return -1;
  if (n < 1 || n > g->naxis)
    return ts_read_fail(r, r->before.at, "a row has 1 to %d axes", g->naxis);
  g->nrow = (int)n;
  return 0;
}

/* Words and numbers, which are told from the next group by the number. */
static int choice(Parser *p, TsGroup *g) {
  TsReader *r = &p->r;
  TsText text = {0};
  const char *at = r->now.at;
  int bad = 0;
  while (r->now.kind == TS_TOKEN_word && !bad) {
    TsReader before = *r;
    TsSchedChoice c;
    ts_read_next(r);
    if (r->failed || r->now.kind != TS_TOKEN_number) {
      if (!r->failed) *r = before;
      break;
    }
    ts_text_format(&text, "%s%.*s %.*s", text.len ? " " : "", before.now.len, before.now.at,
                   r->now.len, r->now.at);
    if (text.failed) bad = ts_read_no_memory(r);
    if (!bad && !ts_sched_choice_parse(text.at, &c))
      bad = ts_read_fail(
          r, before.now.at,
          "no choice '%.*s %.*s': one word of those that a kernel has, and a whole "
          "number from 1, each once",
          before.now.len, before.now.at, r->now.len, r->now.at);
    if (!bad) ts_read_next(r);
  }
  if (!bad && !text.len && !r->failed)
    bad = ts_read_fail(r, at, "behind 'with' stand choices, as 'rows 64'");
  if (!bad && !r->failed) ts_sched_choice_parse(text.at, &g->choice);
  ts_text_free(&text);
  return bad || r->failed ? -1 : 0;
}

static int operands(Parser *p, TsGroup *g) {
  List in = {0}, out = {0};
  if (ts_read_is_word(&p->r, "in")) {
    ts_read_next(&p->r);
    if (values(p, &in)) return -1;
  }
  if (!ts_read_is_word(&p->r, "out")) return ts_read_unexpected(&p->r, "'out'");
  ts_read_next(&p->r);
  if (values(p, &out)) return -1;
  g->in = in.at, g->nin = in.n;
  g->out = out.at, g->nout = out.n;
  if (!ts_read_is_word(&p->r, "with")) return 0;
  ts_read_next(&p->r);
  return choice(p, g);
}

static int nodes(Parser *p, TsGroup *g, const List *l) {
  g->node = malloc(sizeof *g->node * (size_t)(l->n ? l->n : 1));
  if (!g->node) return ts_read_no_memory(&p->r);
  g->capnode = l->n;
  for (int i = 0; i < l->n; i++) {
    g->node[g->nnode++] = l->at[i]->node;
    p->s->of[l->at[i]->node->id] = g->index;
  }
  return 0;
}

static int group(Parser *p) {
  TsSched *s = p->s;
  List made = {0};
  TsGroup *g = ts_arena_alloc(&s->arena, sizeof *g);
  if (s->ngroup == s->capgroup) {
    int cap = s->capgroup ? 2 * s->capgroup : 32;
    TsGroup **more = realloc(s->group, sizeof *more * (size_t)cap);
    if (!more) return ts_read_no_memory(&p->r);
    s->group = more;
    s->capgroup = cap;
  }
  if (!g) return ts_read_no_memory(&p->r);
  g->index = s->ngroup;
  s->group[s->ngroup++] = g;
  if (kind_of(p, &g->kind)) return -1;
  if (p->r.now.kind != TS_TOKEN_value) return ts_read_unexpected(&p->r, "the group's values");
  if (values(p, &made) || nodes(p, g, &made)) return -1;
  if (g->kind == TS_GROUP_vm) return 0;
  if (g->kind != TS_GROUP_attention && space(p, g)) return -1;
  if (g->kind == TS_GROUP_attention && ts_read_is_word(&p->r, "transposed")) {
    g->transposed = true;
    ts_read_next(&p->r);
  }
  return operands(p, g);
}

/* ---- the head */
static char *word(Parser *p, const char *what) {
  TsToken t = p->r.now;
  char *name = ts_arena_alloc(&p->s->arena, (size_t)t.len + 1);
  if (ts_read_expect(&p->r, TS_TOKEN_word, what)) return NULL;
  if (!name) return ts_read_no_memory(&p->r), NULL;
  memcpy(name, t.at, (size_t)t.len);
  return name;
}

static int target(Parser *p) {
  TsTarget *made = ts_arena_alloc(&p->s->arena, sizeof *made);
  const char *name = word(p, "the target's name");
  if (!name) return -1;
  if (!made) return ts_read_no_memory(&p->r);
  *made = (TsTarget){.name = name, .vector_bytes = 16};
  p->s->target = made;
  return 0;
}

/* The instruction for products of bf16 in the profile "fast". */
static int pairs(Parser *p) {
  TsTarget *t = (TsTarget *)(uintptr_t)p->s->target; /* made by this reader */
  const char *at = p->r.now.at, *name = word(p, "the name of an instruction for pairs");
  if (!name) return -1;
  if (!t) return ts_read_fail(&p->r, at, "a schedule without a target has no instructions");
  if (!ts_tile_pairs_named(name))
    return ts_read_fail(&p->r, at, "there is no instruction '%s' for pairs of bf16", name);
  t->pairs = name;
  p->s->profile = TS_PROFILE_fast;
  return 0;
}

static int head(Parser *p) {
  TsReader *r = &p->r;
  int64_t threads = 1;
  if (!ts_read_is_word(r, "schedule")) return ts_read_unexpected(r, "'schedule'");
  ts_read_next(r);
  const char *name = ts_names_of(&p->names, p->s->g);
  TsToken t = r->now;
  if (ts_read_expect(r, TS_TOKEN_symbol, "'@' and the graph's name")) return -1;
  if ((int)strlen(name) != t.len - 1 || memcmp(name, t.at + 1, (size_t)t.len - 1))
    return ts_read_fail(r, t.at, "the graph is @%s", name);
  if (ts_read_is_word(r, "target") && (ts_read_next(r) || target(p))) return -1;
  if (ts_read_is_word(r, "threads")) {
    ts_read_next(r);
    if (ts_read_int(r, "how many threads", &threads)) return -1;
    if (threads < 1 || threads > 1 << 20)
      return ts_read_fail(r, r->before.at, "no such number of threads");
  }
  p->s->threads = (int)threads;
  if (ts_read_is_word(r, "pairs") && (ts_read_next(r) || pairs(p))) return -1;
  return ts_read_expect(r, '{', "'{'");
}

static int schedule(Parser *p) {
  if (ts_names_open(&p->names, p->s->g)) return ts_read_no_memory(&p->r);
  if (enter_values(p) || head(p)) return -1;
  while (p->r.now.kind == TS_TOKEN_word)
    if (group(p)) return -1;
  if (ts_read_expect(&p->r, '}', "a group or '}'")) return -1;
  if (p->r.now.kind == TS_TOKEN_end) return 0;
  return ts_read_unexpected(&p->r, "the end behind the schedule");
}

TsSched *ts_sched_parse(const TsGraph *g, const char *text, TsError *err) {
  Parser p = {.s = ts_sched_open(g, NULL, 1, err)};
  if (!p.s) return NULL;
  ts_read_open(&p.r, text, &p.scratch, err);
  int bad = schedule(&p);
  ts_names_close(&p.names);
  ts_text_map_free(&p.values);
  ts_arena_free(&p.scratch);
  if (!bad) return p.s;
  ts_sched_free(p.s);
  return NULL;
}
