/* Names in IR text: letters, digits, _ and dots between those, beginning with a letter or _. */
#ifndef TS_IR_TEXT_NAME_H
#define TS_IR_TEXT_NAME_H

#include "ir/text/map.h"
#include "lib/arena.h"

/* All give NULL when memory runs out. _legal: the name with _ for what cannot stand in it. */
char *ts_name_legal(TsArena *a, const char *name);
/* name, or name.1, name.2, ... : the first one that the scope does not have, which gets it. */
const char *ts_name_unique(TsArena *a, TsTextMap *scope, const char *name);
/* The name of a value that has none: a number. */
const char *ts_name_numbered(TsArena *a, int n);

#endif
