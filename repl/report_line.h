/* Lines of a report: the message in lines of the terminal's width, a line of source with a
 * mark under the place that the message is about. Columns are counted as terminals show
 * characters. */
#ifndef TS_REPL_REPORT_LINE_H
#define TS_REPL_REPORT_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/text.h"

/* The columns of the terminal that reports go to; 0 where they go elsewhere. */
int ts_report_columns(void);
/* Does the terminal's line have text to which nobody has added an end yet, as the bar of a program
 * that goes on? _set says so; a report begins on the next line. */
void ts_report_set_open_line(bool open);
bool ts_report_open_line(void);
/* A message or a hint of n bytes: its lines as they are, or, with columns, broken between
 * words, which are further right on the lines that follow. */
void ts_report_words(TsText *out, const char *text, size_t n, int columns);
/* "\n    line\n      ^": the line without what it begins with, and the mark under its byte `mark`.
 * Of a line that is too wide the part around the mark. */
void ts_report_source(TsText *out, const char *line, size_t mark, int columns);

#endif
