/* The commands of a debugger's prompt: where a run stops, and what is shown there. A run stops before
 * a statement. Steps are those of one role, which others may interrupt only when it waits. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/tile/debug/state.h"

enum { MOST_BREAKS = 32, CONTEXT = 4 };

typedef struct Break {
  int number, line, ncoord;                  /* line 0: any */
  int64_t coord[TS_TILE_RANK], stage, block; /* -1: any */
  uint32_t in_block;                         /* where it was last, so that a tile stops once */
  bool inside[TS_DEBUG_AGENTS];
} Break;

typedef enum Going { GO, STEP, STAGE, TILE, OUT, ROLE } Going;

struct TsDebugTalking {
  TsTileDebugTalk talk;
  Break stop[MOST_BREAKS];
  int nstop, number;
  Going going;
  int agent, line; /* from where it went; agent -1: any */
  int listed;
  const TsTileStmt *at, *loop, *owner;
  int64_t round;
  uint32_t block;
  char role[64];
  bool found, ended;
  char last[64]; /* the command that an empty line repeats */
};

typedef TsDebugTalking Talking;

/* ---- saying */
static void say(TsTileDebug *d, TsText *t) {
  const Talking *k = d->talking;
  if (t->at) k->talk.say(k->talk.with, t->at);
  ts_text_free(t);
}

static void say_text(TsTileDebug *d, const char *text) {
  d->talking->talk.say(d->talking->talk.with, text);
}

static const TsTileStmt *around(const TsTileStmt *s) {
  return s->in_region ? s->in_region->owner : NULL;
}

static bool is_loop(const TsTileStmt *s) {
  return s->op == TS_TILE_repeat || (s->op == TS_TILE_for && !ts_tile_attr(s, "parallel")->i);
}

static const TsTileStmt *innermost(const TsTileStmt *s) {
  const TsTileStmt *o = around(s);
  while (o && !is_loop(o)) o = around(o);
  return o;
}

static const TsTileStmt *outermost(const TsTileStmt *s) {
  const TsTileStmt *loop = NULL;
  for (const TsTileStmt *o = around(s); o; o = around(o))
    if (is_loop(o)) loop = o;
  return loop;
}

static int64_t round_of(const TsTileDebug *d, const TsTileStmt *loop) {
  return loop && loop->region[0]->nparam ? d->at_round[loop->region[0]->param[0]->id] : 0;
}

static void say_position(TsTileDebug *d, const TsTileStmt *s) {
  TsText t = {0};
  int64_t coord[TS_TILE_RANK];
  int a = ts_debug_agent(d), n = ts_debug_find_tiles(d) ? 0 : ts_debug_tile_here(d, s, coord);
  if (a == TS_DEBUG_SELF)
    ts_text_format(&t, "block %u", d->block - d->first_block);
  else
    ts_text_format(&t, "block %u, role %s", d->block - d->first_block,
                   ts_debug_agent_name(d, a));
  for (int i = 0; i < n; i++)
    ts_text_format(&t, "%s%lld", i ? ", " : ", tile (", (long long)coord[i]);
  if (n) ts_text_char(&t, ')');
  if (innermost(s)) ts_text_format(&t, ", stage %lld", (long long)round_of(d, innermost(s)));
  ts_text_char(&t, '\n');
  say(d, &t);
}

static void say_lines(TsTileDebug *d, int from, int to, int here) {
  TsText t = {0};
  for (int i = from < 1 ? 1 : from; i <= to && i <= d->nline; i++)
    ts_text_format(&t, "%s%4d  %s\n", i == here ? "->" : "  ", i, d->line[i]);
  say(d, &t);
}

static void say_stop(TsTileDebug *d, const TsTileStmt *s) {
  TsText t = {0};
  int line = ts_debug_line(d, s);
  const char *source = ts_debug_source(d, s);
  say_position(d, s);
  ts_text_format(&t, "->%4d  %s%s%s\n", line, ts_debug_line_text(d, line),
                 source ? "  // " : "", source ? source : "");
  say(d, &t);
  d->talking->listed = line;
}

/* ---- words of a command */
static const char *skip(const char *p) {
  while (isspace((unsigned char)*p) || *p == ',' || *p == '(' || *p == ')') p++;
  return p;
}

static int word_of(const char *p) {
  int n = 0;
  while (isalpha((unsigned char)p[n])) n++;
  return n;
}

static bool number(const char **p, int64_t *to) {
  char *end;
  const char *at = skip(*p);
  if (!isdigit((unsigned char)*at)) return false;
  *to = strtoll(at, &end, 10);
  *p = end;
  return true;
}

static bool takes(const char **p, const char *word) {
  const char *at = skip(*p);
  size_t n = (size_t)word_of(at);
  if (!n || n != strlen(word) || memcmp(at, word, n)) return false;
  *p = at + n;
  return true;
}

/* ---- commands. 1: the run goes on */
typedef int Command(TsTileDebug *d, const TsTileStmt *s, const char *p);

static int go(TsTileDebug *d, const TsTileStmt *s, Going how) {
  Talking *k = d->talking;
  k->going = how;
  k->agent = ts_debug_agent(d);
  k->line = ts_debug_line(d, s);
  k->block = d->block;
  k->loop = how == TILE ? outermost(s) : innermost(s);
  k->round = round_of(d, k->loop);
  k->owner = around(s);
  return 1;
}

static int c_step(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)p;
  return go(d, s, STEP);
}
static int c_stage(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)p;
  if (innermost(s)) return go(d, s, STAGE);
  say_text(d, "no loop is around this line\n");
  return 0;
}
static int c_tile(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)p;
  return go(d, s, TILE);
}
static int c_out(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)p;
  return go(d, s, OUT);
}
static int c_continue(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)p;
  return go(d, s, GO);
}
static int c_quit(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)s, (void)p;
  d->quit = true;
  return 1;
}

static bool has_role(const TsTileRegion *r, const char *name) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    const TsAttr *own = s->op == TS_TILE_role ? ts_tile_attr(s, "name") : NULL;
    if (own && own->str && !strcmp(own->str, name)) return true;
    for (int i = 0; i < s->nregion; i++)
      if (has_role(s->region[i], name)) return true;
  }
  return false;
}

static int c_role(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  Talking *k = d->talking;
  p = skip(p);
  if (!*p) return say_text(d, "role NAME: stops when it goes on\n"), 0;
  if (!has_role(d->k->body, p)) return say_text(d, "the kernel has no role of this name\n"), 0;
  snprintf(k->role, sizeof k->role, "%s", p);
  go(d, s, ROLE);
  return 1;
}

static void say_break(TsTileDebug *d, const Break *b) {
  TsText t = {0};
  ts_text_format(&t, "%d:", b->number);
  if (b->line) ts_text_format(&t, " line %d", b->line);
  for (int i = 0; i < b->ncoord; i++)
    ts_text_format(&t, "%s%lld", i ? ", " : " tile (", (long long)b->coord[i]);
  if (b->ncoord) ts_text_char(&t, ')');
  if (b->stage >= 0) ts_text_format(&t, " stage %lld", (long long)b->stage);
  if (b->block >= 0) ts_text_format(&t, " block %lld", (long long)b->block);
  ts_text_char(&t, '\n');
  say(d, &t);
}

static bool has_line(const TsTileDebug *d, const TsTileRegion *r, int line) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    if (ts_debug_line(d, s) == line) return true;
    for (int i = 0; i < s->nregion; i++)
      if (has_line(d, s->region[i], line)) return true;
  }
  return false;
}

static bool has_tile(const TsTileDebug *d, const Break *b) {
  for (int i = 0; i < d->ntile; i++)
    if (!memcmp(d->tile[i].coord, b->coord, sizeof *b->coord * (size_t)b->ncoord)) return true;
  return false;
}

/* What is no line of any text stays none. */
static int line_of(int64_t n) { return n > INT_MAX ? INT_MAX : (int)n; }

/* A sentence, or NULL: it is a break. */
static const char *read_break(TsTileDebug *d, const char *p, Break *b) {
  int64_t line = 0;
  *b = (Break){.stage = -1, .block = -1};
  if (number(&p, &line)) b->line = line_of(line);
  for (;;) {
    if (takes(&p, "line")) {
      if (!number(&p, &line)) return "line takes a number\n";
      b->line = line_of(line);
    } else if (takes(&p, "tile")) {
      while (b->ncoord < TS_TILE_RANK && number(&p, &b->coord[b->ncoord])) b->ncoord++;
      if (!b->ncoord) return "tile takes its coordinates: tile (1, 0)\n";
    } else if (takes(&p, "stage")) {
      if (!number(&p, &b->stage)) return "stage takes a number\n";
    } else if (takes(&p, "block")) {
      if (!number(&p, &b->block)) return "block takes a number\n";
    } else {
      break;
    }
  }
  if (*skip(p)) return "break takes a line, tile (i, j), stage n, block n\n";
  if (!b->line && !b->ncoord && b->stage < 0 && b->block < 0)
    return "break takes a line, tile (i, j), stage n, block n\n";
  if (b->line && !has_line(d, d->k->body, b->line)) return "no statement is on this line\n";
  if (b->ncoord && ts_debug_find_tiles(d)) return "out of memory\n";
  if (b->ncoord && !has_tile(d, b)) return "the first result has no such tile\n";
  return NULL;
}

static int c_break(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  Talking *k = d->talking;
  Break b;
  (void)s;
  if (!*skip(p)) {
    for (int i = 0; i < k->nstop; i++) say_break(d, &k->stop[i]);
    if (!k->nstop) say_text(d, "no breaks\n");
    return 0;
  }
  const char *wrong = k->nstop == MOST_BREAKS ? "32 breaks are enough\n" : read_break(d, p, &b);
  if (wrong) return say_text(d, wrong), 0;
  b.number = ++k->number;
  k->stop[k->nstop++] = b;
  say_break(d, &b);
  return 0;
}

static int c_delete(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  Talking *k = d->talking;
  int64_t which = 0;
  bool all = !number(&p, &which);
  int left = 0;
  (void)s;
  for (int i = 0; i < k->nstop; i++)
    if (!all && k->stop[i].number != which) k->stop[left++] = k->stop[i];
  if (left == k->nstop) say_text(d, "no such break\n");
  k->nstop = left;
  return 0;
}

static int c_where(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  int line = ts_debug_line(d, s);
  (void)p;
  say_position(d, s);
  say_lines(d, line - CONTEXT, line + CONTEXT, line);
  for (const TsTileStmt *o = around(s); o; o = around(o)) {
    TsText t = {0};
    int at = ts_debug_line(d, o);
    ts_text_format(&t, "  in line %d: %s\n", at, ts_debug_line_text(d, at));
    say(d, &t);
  }
  return 0;
}

static int c_list(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  Talking *k = d->talking;
  int64_t from = k->listed + 1;
  bool given = number(&p, &from);
  if (!given && k->listed == ts_debug_line(d, s)) from = k->listed - CONTEXT;
  if (from < 1 || from > d->nline) from = 1;
  k->listed = (int)from + 2 * CONTEXT + 1;
  say_lines(d, (int)from, k->listed, ts_debug_line(d, s));
  return 0;
}

static void say_barriers(TsTileDebug *d, TsTileVal v) {
  TsTileRunPlace *p = &d->run->place[v->id];
  int64_t count = v->type.count ? v->type.count : 1;
  for (int64_t i = 0; i < p->n; i++) {
    const TsTileRunBarrier *b = (TsTileRunBarrier *)(void *)p->at + i;
    TsText t = {0};
    ts_text_format(&t, "[%lld] phase %u, %lld of %lld arrivals, %lld bytes are due\n",
                   (long long)i, ts_debug_phases(d, ts_debug_slot(d, v, i)),
                   (long long)b->arrived, (long long)count, (long long)b->bytes);
    say(d, &t);
  }
}

static int c_print(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  Talking *k = d->talking;
  TsTileVal v;
  TsTileSeen seen;
  void *copy = NULL;
  TsText t = {0};
  p = skip(p);
  p += *p == '%';
  int n = (int)strcspn(p, " \t");
  if (!n) return say_text(d, "print takes a value: print %acc\n"), 0;
  if (ts_debug_value(d, s, p, n, &v)) {
    ts_text_format(&t, "%%%.*s has no value yet, or is no value of the text\n", n, p);
    say(d, &t);
    return 0;
  }
  if (v->type.space == TS_SPACE_barrier) return say_barriers(d, v), 0;
  if (ts_debug_see(d, v, &seen, &copy)) return say_text(d, "it cannot be shown\n"), 0;
  k->talk.show(k->talk.with, &seen, &t);
  ts_text_char(&t, '\n');
  say(d, &t);
  free(copy);
  return 0;
}

static int c_findings(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  (void)s, (void)p;
  for (int i = 0; i < d->nfinding; i++) say_text(d, d->finding[i].text);
  if (!d->nfinding) say_text(d, "none\n");
  return 0;
}

static Command c_help;
static const struct {
  const char *name, *help;
  Command *run;
  bool again; /* an empty line repeats it */
} command[] = {
    {"step", "s: to the next line of this role", c_step, true},
    {"stage", "to the next round of the innermost loop", c_stage, true},
    {"tile", "to the next tile: a round of the outermost loop, or a block", c_tile, true},
    {"out", "behind the loop, branch or role around this line", c_out, true},
    {"role", "role NAME: to where it goes on", c_role, false},
    {"break", "b: break 12, break 12 tile (1, 0) stage 3, break block 2; alone: the list",
     c_break, false},
    {"delete", "delete 1, or all breaks", c_delete, false},
    {"print", "p: print %acc: a value, memory, a barrier", c_print, false},
    {"where", "w: the line, its block, role, tile, and the lines around", c_where, false},
    {"list", "l: list, list 12: the text", c_list, true},
    {"findings", "what was found so far", c_findings, false},
    {"continue", "c: to the next break or finding", c_continue, false},
    {"quit", "q: ends the run", c_quit, false},
    {"help", "h: this", c_help, false},
};
enum { COMMANDS = sizeof command / sizeof *command };

static int c_help(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  TsText t = {0};
  (void)s, (void)p;
  for (int i = 0; i < COMMANDS; i++)
    ts_text_format(&t, "  %-9s %s\n", command[i].name, command[i].help);
  say(d, &t);
  return 0;
}

static const char *nth_command(const void *arg, int i) {
  (void)arg;
  return command[i].name;
}

/* Whole words, or the letters that their help begins with. */
static int find_command(const char *p, int n) {
  for (int i = 0; i < COMMANDS; i++)
    if ((int)strlen(command[i].name) == n && !memcmp(command[i].name, p, (size_t)n)) return i;
  for (int i = 0; i < COMMANDS && n == 1; i++)
    if (command[i].help[1] == ':' && command[i].help[0] == *p) return i;
  return -1;
}

static int obey(TsTileDebug *d, const TsTileStmt *s, const char *p) {
  Talking *k = d->talking;
  TsText t = {0};
  char word[64];
  while (isspace((unsigned char)*p)) p++;
  if (!*p) p = k->last;
  if (!*p) return 0;
  int n = word_of(p), i = find_command(p, n);
  if (i >= 0) {
    snprintf(word, sizeof word, "%.*s", n, p);
    if (p != k->last) snprintf(k->last, sizeof k->last, "%s", command[i].again ? word : "");
    return command[i].run(d, s, p + n);
  }
  snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " \t\n"), p);
  const char *guess = ts_text_closest(word, COMMANDS, nth_command, NULL);
  ts_text_format(&t, "there is no command '%s'", word);
  ts_text_format(&t, guess ? "; did you mean '%s'?\n" : "; help lists them%s\n",
                 guess ? guess : "");
  say(d, &t);
  return 0;
}

/* ---- where it stops */
static bool is_inside(const TsTileStmt *s, const TsTileStmt *owner) {
  for (const TsTileStmt *o = around(s); o; o = around(o))
    if (o == owner) return true;
  return false;
}

static bool has_come(TsTileDebug *d, const TsTileStmt *s) {
  const Talking *k = d->talking;
  int a = ts_debug_agent(d), line = ts_debug_line(d, s);
  bool mine = a == k->agent || k->agent == TS_DEBUG_SELF || k->block != d->block ||
              d->run->now == &d->run->self;
  switch (k->going) {
  case STEP: return mine && (line != k->line || a != k->agent);
  case STAGE: return mine && (!is_inside(s, k->loop) || round_of(d, k->loop) != k->round);
  case TILE:
    return k->block != d->block ? a == k->agent || k->agent == TS_DEBUG_SELF
                                : a == k->agent && k->loop && round_of(d, k->loop) != k->round;
  case OUT: return mine && (!k->owner || (s != k->owner && !is_inside(s, k->owner)));
  case ROLE: return a != TS_DEBUG_SELF && !strcmp(ts_debug_agent_name(d, a), k->role);
  default: return false;
  }
}

/* A line each time; else when the place is reached, by each role. */
static bool is_at(TsTileDebug *d, const TsTileStmt *s, Break *b) {
  int a = ts_debug_agent(d);
  bool there = (!b->line || b->line == ts_debug_line(d, s)) &&
               (b->block < 0 || b->block == d->block - d->first_block) &&
               (b->stage < 0 || (innermost(s) && round_of(d, innermost(s)) == b->stage)) &&
               (!b->ncoord || ts_debug_at_tile(d, s, b->ncoord, b->coord) == 1);
  if (b->in_block != d->block) memset(b->inside, 0, sizeof b->inside), b->in_block = d->block;
  bool was = b->inside[a];
  b->inside[a] = there;
  const TsTileStmt *at = d->talking->at;
  bool again = b->line && (!at || at->line != s->line || at == s);
  return there && (again || !was);
}

int ts_debug_prompt_before(TsTileDebug *d, const TsTileStmt *s) {
  Talking *k = d->talking;
  if (!k || !ts_debug_line(d, s)) return 0;
  if (!k->talk.ask) {
    d->quit |= k->talk.interrupted && k->talk.interrupted(k->talk.with);
    return d->quit ? -1 : 0;
  }
  bool stops = k->found || has_come(d, s);
  for (int i = 0; i < k->nstop; i++) stops |= is_at(d, s, &k->stop[i]);
  if (k->talk.interrupted && k->talk.interrupted(k->talk.with)) stops = true;
  k->at = s;
  if (!stops) return 0;
  k->found = false;
  say_stop(d, s);
  for (;;) {
    const char *line = k->talk.ask(k->talk.with);
    if (!line) return go(d, s, GO), 0;
    if (obey(d, s, line)) return d->quit ? -1 : 0;
  }
}

void ts_debug_prompt_found(TsTileDebug *d, const TsTileFinding *f) {
  if (!d->talking || !d->talking->talk.ask) return;
  say_text(d, f->text);
  d->talking->found = true;
}

int ts_debug_prompt_open(TsTileDebug *d, const TsTileDebugTalk *talk) {
  d->talking = calloc(1, sizeof *d->talking);
  if (!d->talking) return -1;
  d->talking->talk = *talk;
  d->talking->going = STEP;
  d->talking->agent = TS_DEBUG_SELF;
  return 0;
}

void ts_debug_prompt_close(TsTileDebug *d) {
  free(d->talking);
  d->talking = NULL;
}
