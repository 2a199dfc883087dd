/* How many locks this thread has taken, and things it makes once, and has not given back
 * (devices/held.c). */
#ifndef TS_DEVICES_HELD_H
#define TS_DEVICES_HELD_H

extern _Thread_local int ts_held;

#endif
