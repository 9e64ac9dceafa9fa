/* Where the user of this process is at home. */
#ifndef KODA_HOST_MACHINE_HOME_H
#define KODA_HOST_MACHINE_HOME_H

/* HOME, or what the user database says; canonical if it is there, "" if there is none. The caller's to free; NULL when
 * memory is short. */
char *home_find(void);

#endif
