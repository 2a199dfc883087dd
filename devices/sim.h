/* The simulated GPU's memory, for whoever runs its kernels. */
#ifndef TS_DEVICES_SIM_H
#define TS_DEVICES_SIM_H

/* The host's address of one of the device's, inside of a block as well. */
void *ts_sim_host(void *at);

#endif
