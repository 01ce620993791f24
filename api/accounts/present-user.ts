/** A user on the wire. */
import { z } from "zod";
import { USER_STATUSES } from "../../core/domain/user.ts";
import type { User, Wallet } from "../../db/schema.ts";
import { isoTime } from "../http/envelope.ts";

export const userSchema = z
  .object({
    id: z.string(),
    email: z.string(),
    status: z.enum(USER_STATUSES),
    createdAt: isoTime,
    updatedAt: isoTime,
    hasWallet: z.boolean(),
    walletAddress: z.string().optional(),
  })
  .meta({ id: "User" });

export type PresentedUser = z.infer<typeof userSchema>;

export function presentUser(user: User, wallets: readonly Wallet[]): PresentedUser {
  const [wallet] = wallets;
  return {
    id: user.id,
    email: user.email,
    status: user.status,
    createdAt: user.createdAt.toISOString(),
    updatedAt: user.updatedAt.toISOString(),
    hasWallet: wallet !== undefined,
    ...(wallet ? { walletAddress: wallet.address } : {}),
  };
}
