/** The screens and dialogs that sign, loaded together when one of them is first needed. */
import { Payout } from "../send/payout.tsx";
import { Refund } from "../send/refund.tsx";
import { Send } from "../send/send.tsx";
import { AddMember } from "./add-member.tsx";
import { Wallet } from "./wallet.tsx";

export const screens = { "/payout": Payout, "/send": Send, "/wallet": Wallet };
export const dialogs = { AddMember, Refund };
