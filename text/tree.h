/* A JSON text as a tree, for what reads files of models. */
#ifndef TS_TEXT_TREE_H
#define TS_TEXT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/arena.h"
#include "lib/error.h"

typedef enum TsTreeKind {
  TS_TREE_null,
  TS_TREE_boolean,
  TS_TREE_number,
  TS_TREE_string,
  TS_TREE_list,
  TS_TREE_object
} TsTreeKind;

typedef struct TsTree {
  TsTreeKind kind;
  uint32_t n;       /* bytes of a string; values of a list or an object */
  uint32_t len;     /* of the name */
  bool yes;         /* the boolean */
  const char *name; /* in an object, else NULL */
  struct TsTree *next;
  union {
    double number;
    const char *s; /* without a NUL behind it; it may have some in it */
    struct TsTree *first;
  };
} TsTree;

/* Of n bytes with a NUL behind them, which the tree refers to as long as it lives, as its
 * nodes are in the arena. NULL with the error: the byte and what is wrong there. */
TsTree *ts_tree_read(TsArena *a, const char *text, size_t n, TsError *err);

/* The value of this name in an object (of several the last), or NULL: it is missing, or
 * null. */
const TsTree *ts_tree_get(const TsTree *object, const char *name);

/* The same, of one kind: -1 with the error where it is another, or missing though `needed`. */
int ts_tree_find(const TsTree *object, const char *name, TsTreeKind kind, bool needed,
                 const TsTree **out, TsError *err);
/* These leave `to` as it is where the value is missing. */
int ts_tree_flag(const TsTree *object, const char *name, bool *to, TsError *err);
int ts_tree_whole(const TsTree *object, const char *name, int64_t *to, TsError *err);
/* A string, as the arena's own with a NUL behind it. */
int ts_tree_text(TsArena *a, const TsTree *object, const char *name, const char **to, size_t *n,
                 TsError *err);
bool ts_tree_is(const TsTree *string, const char *word);
/* The number as a whole one from 0 to `most`, or -1. */
int64_t ts_tree_count(const TsTree *number, int64_t most);
/* A string or a name for a message. */
const char *ts_tree_shown(const char *s, size_t n, char to[64]);

#endif
