/* How many terminal columns a code point takes. */
#ifndef TS_EDIT_WIDTH_H
#define TS_EDIT_WIDTH_H

#include <stdint.h>

/* 0 for combining marks and joiners, 2 for wide East Asian characters and emoji, 1 for other
   printable ones, and -1 for what must not be sent to a terminal: controls, surrogates, and
   invisible format characters such as bidirectional overrides. Ambiguous widths count 1. */
int ts_edit_width(uint32_t code);

#endif
