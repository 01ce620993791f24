import { availableParallelism } from "node:os";

/** Whether background work may keep one core busy, and start more of it, without other requests waiting for a core. */
export const HAS_SPARE_CORES = availableParallelism() > 2;
