/** Payments and claims that were made after the block that settles them was read. */
import type { Term } from "./term.ts";

export async function settleLate(_term: Term): Promise<void> {}
