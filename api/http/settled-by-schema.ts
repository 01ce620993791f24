/** The schema of `settledBy` in links and history rows. The values: core/domain/settled-by.ts. */
import { z } from "zod";
import { SETTLED_BY } from "../../core/domain/settled-by.ts";
import { documentedAs } from "./json-schema.ts";

/** Written out: OpenAPI's `nullable` alone would not add null to the list of values. */
export const settledBy = documentedAs(z.enum(SETTLED_BY).nullable(), {
  type: ["string", "null"],
  enum: [...SETTLED_BY, null],
  description: "What decided which link it pays; null while none does",
});
