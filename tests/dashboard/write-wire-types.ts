/** `bun run wire-types`: writes the types of the dashboard's and the SDK's requests and answers. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { renderSdkTypes, SDK_TYPES } from "../sdk/wire-types.ts";
import { renderWireTypes, WIRE_TYPES } from "./wire-types.ts";

const ROOT = join(import.meta.dir, "../..");
writeFileSync(join(ROOT, WIRE_TYPES), await renderWireTypes());
writeFileSync(join(ROOT, SDK_TYPES), await renderSdkTypes());
process.exit(0);
