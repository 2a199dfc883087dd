/* Checkpoints that are being written when the program ends. */
#ifndef TS_REPL_CHECKPOINT_H
#define TS_REPL_CHECKPOINT_H

#include <stdbool.h>

/* Waits for the one that is being written; stderr gets its error. */
void ts_checkpoint_finish(void);
/* Whether an error was told there alone. */
bool ts_checkpoint_lost(void);

#endif
