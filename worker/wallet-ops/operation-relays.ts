/** The sender's handler for relays that carry operations. */
import { findEmptyRelays } from "../../db/wallet-ops/retired-keys.ts";
import type { RelayKind } from "../sender/relay-kind.ts";

/** One whose operations another relay carries is not needed: while it is pending they cannot fail. */
export const OPERATION_RELAYS: RelayKind = { findObsolete: findEmptyRelays };
