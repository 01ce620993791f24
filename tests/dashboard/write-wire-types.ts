/** `bun run wire-types`: writes the types of the dashboard's requests and answers. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderWireTypes, WIRE_TYPES } from "./wire-types.ts";

writeFileSync(join(import.meta.dir, "../..", WIRE_TYPES), await renderWireTypes());
process.exit(0);
