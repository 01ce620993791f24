/** The wire format of a history row. */
import { z } from "zod";
import { NETWORK_IDS } from "../../core/domain/networks.ts";
import { TRANSACTION_STATUSES, TRANSACTION_TYPES } from "../../core/domain/payment.ts";
import { isoTime } from "../http/envelope.ts";
import { settledBy } from "../http/settled-by-schema.ts";

export const transactionSchema = z
  .object({
    id: z.string(),
    type: z.enum(TRANSACTION_TYPES),
    amount: z.string(),
    currency: z.string(),
    network: z.enum(NETWORK_IDS),
    status: z.enum(TRANSACTION_STATUSES),
    title: z.string(),
    description: z.string(),
    clientWalletAddress: z.string(),
    transactionHash: z.string().nullable(),
    blockNumber: z.int().nullable(),
    confirmedAt: isoTime.nullable(),
    detectedAt: isoTime,
    settledBy,
    candidates: z
      .array(z.string())
      .describe("Links that a received transfer fits, with no evidence to decide between them: assign one"),
    metadata: z.looseObject({
      txHash: z.string().nullable(),
      logIndex: z.int().nullable(),
      linkId: z.string().nullable(),
      paymentId: z.string().nullable(),
      failureReason: z.string().optional(),
      reference: z.string().optional().describe("The link's reference"),
    }),
  })
  .meta({ id: "Transaction" });
