/** Everything beyond the first screens, in one chunk, which compresses better than several; loaded when any of it is first needed. */
import { Invitations } from "./account/invitations.tsx";
import { Members } from "./account/members.tsx";
import { Security } from "./account/security.tsx";
import { Settings } from "./account/settings.tsx";
import { ApiKeys } from "./developers/api-keys.tsx";
import { Webhooks } from "./developers/webhooks.tsx";
import { Documents } from "./exports/documents.tsx";
import { ExportList } from "./exports/export-list.tsx";
import { Rates } from "./exports/rates.tsx";
import { SavedExports } from "./exports/saved-exports.tsx";
import { Statements } from "./exports/statements.tsx";
import type { LaterPath, ScreenComponent } from "./frame/screen-props.ts";
import { Recover } from "./recover/recover.tsx";
import { Payout } from "./send/payout.tsx";
import { Refund } from "./send/refund.tsx";
import { Send } from "./send/send.tsx";
import { TransactionList } from "./transactions/transaction-list.tsx";
import { Wallet } from "./wallet/wallet.tsx";

export const screens: Readonly<Record<LaterPath, ScreenComponent>> = {
  "/transactions": TransactionList,
  "/documents": Documents,
  "/exports": ExportList,
  "/saved-exports": SavedExports,
  "/exchange-rates": Rates,
  "/statements": Statements,
  "/wallet": Wallet,
  "/send": Send,
  "/payout": Payout,
  "/developers/keys": ApiKeys,
  "/developers/webhooks": Webhooks,
  "/members": Members,
  "/invitations": Invitations,
  "/security": Security,
  "/settings": Settings,
};

/** A dialog of a link's screen, and the page of a lost passkey. */
export const others = { Recover, Refund };
