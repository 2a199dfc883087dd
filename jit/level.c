/* Levels, and words that are none. See jit/level.h. */
#include "jit/level.h"

#include <stddef.h>
#include <string.h>

#include "lib/text.h"

enum {
  F = TS_LEVEL_function,
  L = TS_LEVEL_loop,
  K = TS_LEVEL_kernel,
  C = TS_LEVEL_call,
  P = TS_LEVEL_part
};

static const TsLevel level_row[] = {
#define LEVEL(name, of, targets, help) {#name, help, of, targets},
#include "jit/level.def"
#undef LEVEL
};
enum { LEVELS = sizeof level_row / sizeof *level_row };

const TsLevel *ts_level_at(int i) { return i >= 0 && i < LEVELS ? &level_row[i] : NULL; }

static const TsLevel *find(const char *name) {
  for (int i = 0; i < LEVELS; i++)
    if (!strcmp(level_row[i].name, name)) return &level_row[i];
  return NULL;
}

typedef struct Words {
  int n;
  const char *word[LEVELS > 32 ? LEVELS : 32];
} Words;

static const char *nth(const void *words, int i) { return ((const Words *)words)->word[i]; }

static Words levels_of(int of, bool targets) {
  Words w = {0};
  for (int i = 0; i < LEVELS; i++)
    if (level_row[i].of & of && (!targets || level_row[i].targets))
      w.word[w.n++] = level_row[i].name;
  return w;
}

static Words all_targets(void) {
  Words w = {0};
  for (int i = 0; ts_target_at(i) && i < 32; i++) w.word[w.n++] = ts_target_at(i)->name;
  return w;
}

static int list(const Words *w, TsText *text) {
  for (int i = 0; i < w->n; i++) ts_text_format(text, "%s%s", i ? ", " : "", w->word[i]);
  return text->at ? 0 : -1;
}

/* The word that begins as this one does: sm_90a for sm_99, whose ends say little. */
static const char *begins_alike(const char *given, const Words *known) {
  size_t best = 3, n;
  const char *word = NULL;
  for (int i = 0; i < known->n; i++) {
    for (n = 0; given[n] && given[n] == known->word[i][n];) n++;
    if (n > best) best = n, word = known->word[i];
  }
  return word;
}

/* "there is no level 'tlie'; levels are ..", and the nearest. */
static int no_word(const char *kind, const char *given, const Words *known, const char *other,
                   TsError *err) {
  char shown[60];
  TsText all = {0};
  if (list(known, &all)) return ts_error_memory(err);
  ts_error_set(err, TS_ERR_argument, "there is no %s '%s'; %ss are %s", kind,
               ts_text_shown(given, shown, sizeof shown), kind, all.at);
  ts_text_free(&all);
  const char *guess = ts_text_closest(given, known->n, nth, known);
  if (!guess) guess = begins_alike(given, known);
  if (other) return ts_error_hint(err, "%s", other);
  return guess ? ts_error_hint(err, "did you mean '%s'?", guess) : -1;
}

/* A level of the whole function, where one of its kernels is meant. */
static int of_whole(const char *level, TsError *err) {
  Words known = levels_of(P, false);
  TsText all = {0};
  if (list(&known, &all)) return ts_error_memory(err);
  ts_error_set(err, TS_ERR_argument, "level '%s' is of a whole function, not of one kernel",
               level);
  ts_error_hint(err, "kernels have %s", all.at);
  ts_text_free(&all);
  return -1;
}

int ts_level_check(TsLevelOf of, const char *level, const TsTarget *target, TsError *err) {
  const TsLevel *row = find(level);
  if (row && of == TS_LEVEL_part && row->of & F && !(row->of & P)) return of_whole(level, err);
  if (!row || !(row->of & of)) {
    Words known = levels_of(of, false);
    return no_word("level", level, &known,
                   ts_target(level) ? "it is a target, and stands behind the level" : NULL,
                   err);
  }
  if (!target || row->targets) return 0;
  Words known = levels_of(of, true);
  TsText all = {0};
  if (list(&known, &all)) return ts_error_memory(err);
  ts_error_set(err, TS_ERR_argument, "level '%s' is of what runs here, not of %s", level,
               target->name);
  ts_error_hint(err, "targets have %s", all.at);
  ts_text_free(&all);
  return -1;
}

const TsTarget *ts_level_target(const char *name, TsError *err) {
  const TsTarget *t = ts_target(name);
  if (t) return t;
  Words known = all_targets();
  no_word("target", name, &known,
          find(name) ? "it is a level, and stands in front of the target" : NULL, err);
  return NULL;
}
