/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on a plant, by its kind and its content; what does harm is taken away. */
#ifndef KODA_WORKER_SCAN_PLANT_JUDGE_H
#define KODA_WORKER_SCAN_PLANT_JUDGE_H

#include "worker/scan/plant.h"

enum plant_end plant_judge(struct scan *sc, struct plant *p);

#endif
