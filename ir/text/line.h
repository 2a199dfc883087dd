/* What the readers of graphs and of kernels share about lines: stacks of what a line names, and
 * the places behind lines. */
#ifndef TS_IR_TEXT_LINE_H
#define TS_IR_TEXT_LINE_H

#include "ir/text/lex.h"
#include "ir/text/map.h"

/* Lists of the lines being read: a line inside a region comes on top of the line around it. */
typedef struct TsTextStack {
  void *at;
  int n, cap;
} TsTextStack;

/* Room for one more of `size` bytes; NULL and a failed reader without memory. */
void *ts_text_push(TsReader *r, TsTextStack *s, size_t size);

/* The comment behind the line if it is a place, "file.lua:12": its slot, whose count is the
 * reader's number of it, or NULL. *text is the place, kept in the arena, where it has no number
 * yet; else NULL. Whoever numbers places walks over them, so a text can enter 10000. */
TsMapSlot *ts_text_place(TsReader *r, TsTextMap *places, TsArena *keep, const char **text);

#endif
