/** Column types that several tables share, as drizzle sees them. */
import { bigint, customType, text, timestamp } from "drizzle-orm/pg-core";
import type { Hex } from "../../core/domain/networks.ts";

export const bytea = customType<{ data: Uint8Array }>({ dataType: () => "bytea" });
/** `0x…` in TypeScript (db/postgres/hex-bytes.ts). */
export const bytesOfHex = customType<{ data: Hex }>({ dataType: () => "bytea" });
export const time = (name: string) => timestamp(name, { withTimezone: true, mode: "date" });
export const int8 = (name: string) => bigint(name, { mode: "bigint" });
export const hex = (name: string) => text(name).$type<Hex>();
