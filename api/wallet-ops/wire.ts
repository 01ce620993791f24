/** The wire format of sends: request and response schemas, and how rows map to them. */
import { z } from "zod";
import { formatUnits } from "../../core/domain/money.ts";
import { CONTRACTS, NETWORK_IDS, NETWORKS } from "../../core/domain/networks.ts";
import {
  isStillPossible,
  NOTE_MAX_CHARS,
  OPERATION_FAILURES,
  OPERATION_STATES,
  OPERATION_WARNINGS,
  type OperationState,
  PAYOUT_RECIPIENTS_MAX,
} from "../../core/domain/wallet-operation.ts";
import type { OperationView } from "../../db/wallet-ops/operations.ts";
import { assertionSchema, challengeIdSchema, credentialSchema } from "../auth/passkey-wire.ts";
import type { ApiConfig } from "../config.ts";
import { isoTime } from "../http/envelope.ts";
import { documentedAs } from "../http/json-schema.ts";
import { pageLimit } from "../http/list-pages.ts";
import { knownQuery, queryNumber } from "../http/query.ts";
import { transactionSchema } from "../transactions/wire.ts";
import { toUserOperation } from "./to-user-operation.ts";

const PROMPT_TIMEOUT_MS = 60_000;

export const text = (maxChars: number) =>
  z
    .string()
    .refine((given) => Array.from(given).length <= maxChars, `must have at most ${maxChars} characters`)
    .refine((given) => given.isWellFormed() && !given.includes("\0"), "must be text");

export const amount = z
  .union([z.number(), z.string().max(40)], { error: "must be decimal text or a number" })
  .describe("USDC, greater than 0, at most 6 decimals");

/** Strict, because with a misspelt field another network's money would be sent, or a note lost. */
const payment = z.strictObject({
  to: z.string().max(100).optional().describe("0x and 40 hex digits; mixed case must be a correct checksum"),
  amount: amount.optional(),
  note: text(NOTE_MAX_CHARS).optional(),
});

export const prepareBody = payment.extend({
  network: z.enum(NETWORK_IDS).optional(),
  payments: z
    .array(payment)
    .min(1)
    .max(PAYOUT_RECIPIENTS_MAX)
    .optional()
    .describe("Several recipients for one signature, instead of to and amount"),
});

export const signedBody = z.object({ challengeId: challengeIdSchema, passkeyResponse: assertionSchema });
export const confirmBody = signedBody.extend({ sendId: z.string().max(100) });
export const operationParams = z.object({ id: z.string().max(100) });

const WAIT_MAX_S = 20;

/** For long polling: each response has the status to pass to the next request. */
export const waitQuery = z.object({
  known: z
    .enum(OPERATION_STATES)
    .optional()
    .describe("The status you know: with wait, the response is sent as soon as the status differs"),
  wait: queryNumber({ min: 0, max: WAIT_MAX_S, fallback: 0 }).describe("Seconds to wait for a change"),
});

export const listQuery = knownQuery({
  limit: pageLimit(20),
  cursor: z.string().min(1).max(200).optional(),
  status: z.enum(OPERATION_STATES).optional(),
});

/** A null among an enum's values, which zod's JSON Schema omits. */
export const failureReason = documentedAs(z.enum(OPERATION_FAILURES).nullable(), {
  type: ["string", "null"],
  enum: [...OPERATION_FAILURES, null],
  description: "Why it failed; null unless it is FAILED",
});

const status = z.enum(OPERATION_STATES);
const warning = z.object({ code: z.enum(OPERATION_WARNINGS), message: z.string() }).meta({ id: "Warning" });
export const warnings = z.array(warning);
const shownPayment = z.object({ to: z.string(), amount: z.string(), note: z.string() });

const passkeyRequest = z
  .object({
    challenge: z.string().describe("The 32 bytes of userOpHash, base64url"),
    timeout: z.int(),
    rpId: z.string(),
    userVerification: z.literal("required"),
    allowCredentials: z.array(credentialSchema),
  })
  .meta({ id: "PasskeyRequest" });
const userOperation = z
  .object({
    sender: z.string(),
    nonce: z.string(),
    initCode: z.string(),
    callData: z.string(),
    callGasLimit: z.string(),
    verificationGasLimit: z.string(),
    preVerificationGas: z.string(),
    maxFeePerGas: z.string(),
    maxPriorityFeePerGas: z.string(),
    paymasterAndData: z.string(),
  })
  .describe("The unsigned user operation (EntryPoint v0.6): its hash can be recomputed")
  .meta({ id: "UserOperation" });

/** What a browser needs to sign an operation, and to check what it signs. */
export const signingFields = {
  userOpHash: z.string(),
  challengeId: z.string(),
  passkeyChallenge: passkeyRequest,
  userOperation,
  chainId: z.int(),
  entryPoint: z.string(),
  warnings,
  expiresAt: isoTime,
};

export const preparedSchema = z
  .object({
    success: z.literal(true),
    sendId: z.string(),
    status,
    ...signingFields,
    summary: z.object({
      network: z.enum(NETWORK_IDS),
      from: z.string(),
      payments: z.array(shownPayment),
      total: z.string(),
      fee: z.string(),
      currency: z.literal("USDC"),
      deploysWallet: z.boolean(),
      balanceAfter: z.string(),
    }),
  })
  .meta({ id: "PreparedSend" });

export const confirmedSchema = z
  .object({
    success: z.literal(true),
    sendId: z.string(),
    status,
    userOpHash: z.string(),
    statusUrl: z.string(),
    transaction: transactionSchema.optional().describe("The history row of a send to one recipient"),
    transactions: z.array(transactionSchema).optional().describe("The history rows of a payout"),
  })
  .meta({ id: "ConfirmedSend" });

export const sendSchema = z
  .object({
    sendId: z.string(),
    status,
    userOpHash: z.string(),
    network: z.enum(NETWORK_IDS),
    from: z.string(),
    payments: z.array(shownPayment.extend({ transactionId: z.string().nullable() })),
    total: z.string(),
    fee: z.string(),
    transactionHash: z.string().nullable(),
    blockNumber: z.int().nullable(),
    reason: failureReason,
    stillPossible: z
      .boolean()
      .describe("It has ended, but what was signed may still be executed until the wallet's next operation"),
    voidOf: z.string().nullable(),
    createdAt: isoTime,
    expiresAt: isoTime,
    confirmedAt: isoTime.nullable(),
  })
  .meta({ id: "Send" });

export const sendListSchema = z
  .object({
    sends: z.array(sendSchema),
    nextCursor: z.string().nullable(),
    pagination: z.object({ hasNextPage: z.boolean(), limit: z.int() }),
  })
  .meta({ id: "SendList" });

/** EXPIRED by the clock, even before the row is updated. */
export function statusOf({ state, isOver }: OperationView): OperationState {
  return state === "AWAITING_SIGNATURE" && isOver ? "EXPIRED" : state;
}

/** `transports` by credential id. */
export type Transports = ReadonlyMap<string, readonly string[]>;

export function presentSigning(
  operation: OperationView,
  { passkey }: Pick<ApiConfig, "passkey">,
  transports: Transports,
) {
  const { signature: _, ...unsigned } = toUserOperation(operation);
  return {
    userOpHash: operation.userOpHash,
    challengeId: operation.challengeId,
    passkeyChallenge: {
      challenge: Buffer.from(operation.userOpHash.slice(2), "hex").toString("base64url"),
      timeout: PROMPT_TIMEOUT_MS,
      rpId: passkey.rpId,
      userVerification: "required" as const,
      allowCredentials: operation.terms.owners.map(({ passkeyId }) => ({
        id: passkeyId,
        type: "public-key" as const,
        transports: [...(transports.get(passkeyId) ?? [])],
      })),
    },
    userOperation: {
      ...unsigned,
      nonce: unsigned.nonce.toString(),
      callGasLimit: unsigned.callGasLimit.toString(),
      verificationGasLimit: unsigned.verificationGasLimit.toString(),
      preVerificationGas: unsigned.preVerificationGas.toString(),
      maxFeePerGas: unsigned.maxFeePerGas.toString(),
      maxPriorityFeePerGas: unsigned.maxPriorityFeePerGas.toString(),
    },
    chainId: NETWORKS[operation.network].chainId,
    entryPoint: CONTRACTS.entryPointV06,
    warnings: operation.terms.warnings,
    expiresAt: operation.expiresAt.toISOString(),
  };
}

export function presentPrepared(
  operation: OperationView,
  config: Pick<ApiConfig, "passkey">,
  transports: Transports,
): z.infer<typeof preparedSchema> {
  return {
    success: true,
    sendId: operation.id,
    status: statusOf(operation),
    ...presentSigning(operation, config, transports),
    summary: {
      network: operation.network,
      from: operation.walletAddress,
      ...presentAmounts(operation),
      payments: paymentsOf(operation).map(presentPayment),
      currency: "USDC",
      deploysWallet: operation.terms.deploysWallet,
      balanceAfter: operation.terms.balanceAfter,
    },
  };
}

export function presentSend(operation: OperationView): z.infer<typeof sendSchema> {
  const state = statusOf(operation);
  return {
    sendId: operation.id,
    status: state,
    userOpHash: operation.userOpHash,
    network: operation.network,
    from: operation.walletAddress,
    payments: paymentsOf(operation).map((item) => ({
      ...presentPayment(item),
      transactionId: item.transactionId,
    })),
    ...presentAmounts(operation),
    transactionHash: operation.txHash,
    blockNumber: operation.blockNumber === null ? null : Number(operation.blockNumber),
    reason: operation.reason,
    stillPossible: isStillPossible({ state, isNonceSpent: operation.isNonceSpent }),
    voidOf: operation.voidOf,
    createdAt: operation.createdAt.toISOString(),
    expiresAt: operation.expiresAt.toISOString(),
    confirmedAt: operation.confirmedAt?.toISOString() ?? null,
  };
}

type Item = OperationView["items"][number];

function paymentsOf({ items }: OperationView): Item[] {
  return items.filter(({ isFee }) => !isFee);
}

function presentPayment({ to, units, note }: Item) {
  return { to, amount: formatUnits(BigInt(units)), note };
}

function presentAmounts({ items }: OperationView) {
  const sum = (of: readonly Item[]) => of.reduce((total, { units }) => total + BigInt(units), 0n);
  return { total: formatUnits(sum(items)), fee: formatUnits(sum(items.filter(({ isFee }) => isFee))) };
}
