/** The wire format of owners and owner changes. */
import { z } from "zod";
import type { Hex } from "../../core/domain/networks.ts";
import { CONTRACTS, NETWORK_IDS, NETWORKS } from "../../core/domain/networks.ts";
import { addressOfOwner, OWNER_ACTIONS, ownerIdOf } from "../../core/domain/owner.ts";
import { isStillPossible, OPERATION_STATES } from "../../core/domain/wallet-operation.ts";
import type { Passkey } from "../../db/schema.ts";
import type { OperationView } from "../../db/wallet-ops/operations.ts";
import {
  assertionSchema,
  attestationSchema,
  challengeIdSchema,
  creationOptionsSchema,
} from "../auth/passkey-wire.ts";
import type { ApiConfig } from "../config.ts";
import { isoTime } from "../http/envelope.ts";
import { documentedAs } from "../http/json-schema.ts";
import {
  failureReason,
  presentSigning,
  signingFields,
  statusOf,
  type Transports,
  warnings,
} from "../wallet-ops/wire.ts";
import { type ChangeView, signedHashOf, statusOfChange, waitsForDeployment } from "./owner-changes.ts";

const NAME_MAX_CHARS = 100;
/** A contract's signature may be long. */
const PROOF_MAX_CHARS = 20_000;

const networkId = z.enum(NETWORK_IDS);
export const ownerName = z
  .string()
  .trim()
  .min(1)
  .max(NAME_MAX_CHARS)
  .regex(/^[^\p{Cc}\p{Cf}\p{Cs}]+$/u, "must not contain control characters");

export const ownersQuery = z.object({ network: networkId.optional() });

const ownerFields = {
  ownerId: z.string().describe("Identifies this owner on every network"),
  type: z.enum(["passkey", "address"]),
  credentialId: z.string().nullable().describe("For a passkey known to this service"),
  address: z.string().nullable(),
  name: z.string().nullable(),
};

const ownerSchema = z.object(ownerFields).meta({ id: "Owner" });

export const ownersSchema = z
  .object({
    network: networkId,
    wallet: z.string(),
    deployed: z.boolean(),
    owners: z.array(z.object({ ...ownerFields, index: z.int(), addedAt: isoTime.nullable() })),
    waiting: z
      .array(ownerSchema)
      .describe("Signed additions that take effect with the wallet's first operation on this network"),
    warnings,
  })
  .meta({ id: "Owners" });

export const addressStartBody = z.strictObject({
  address: z.string().max(100),
  network: networkId.optional(),
});

export const typedDataSchema = z
  .object({
    types: z.record(z.string(), z.array(z.object({ name: z.string(), type: z.string() })).readonly()),
    primaryType: z.string(),
    domain: z.object({ name: z.string(), version: z.string() }),
    message: z.record(z.string(), z.string()),
  })
  .meta({ id: "TypedData" });

export const addressStartedSchema = z.object({
  challengeId: z.string(),
  typedData: typedDataSchema.describe("For eth_signTypedData_v4: what the address signs"),
  timeout: z.int(),
});

export const passkeyStartedSchema = z
  .object({ challengeId: z.string(), passkeyChallenge: creationOptionsSchema })
  .meta({ id: "PasskeyCreation" });

const addition = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("passkey"),
    challengeId: challengeIdSchema,
    passkeyResponse: attestationSchema,
    name: ownerName.optional(),
  }),
  z.strictObject({
    type: z.literal("address"),
    challengeId: challengeIdSchema,
    address: z.string().max(100),
    proof: z
      .string()
      .max(PROOF_MAX_CHARS)
      .regex(/^0x(?:[0-9a-fA-F]{2})+$/, "must be hex bytes")
      .describe("The address's signature of the typed data (EIP-712)"),
    name: ownerName.optional(),
  }),
  z.strictObject({
    type: z
      .literal("member")
      .describe(
        "The passkey of a member with the role owner, whose role takes effect with it; see /v1/members",
      ),
    userId: z.string().max(100),
    name: ownerName.optional(),
  }),
]);

/** Strict: with a misspelt `network` an owner would be added on every network. */
export const prepareBody = z.strictObject({
  network: networkId.optional().describe("If omitted when adding: every network on which you have a wallet"),
  add: addition.optional(),
  remove: z.strictObject({ ownerId: z.string().max(100) }).optional(),
});

export const confirmBody = z.object({
  ownerChangeId: z.string().max(100),
  challengeId: challengeIdSchema,
  passkeyResponse: assertionSchema,
});
export const changeParams = z.object({ id: z.string().max(100) });

const status = z.enum(OPERATION_STATES);
const ofNetwork = z
  .object({
    network: networkId,
    status,
    userOpHash: z.string().describe("As the EntryPoint of this network reports it"),
    waitsForDeployment: z
      .boolean()
      .describe("Takes effect with the wallet's first other operation there, which deploys it"),
    transactionHash: z.string().nullable(),
    blockNumber: z.int().nullable(),
    reason: failureReason,
    stillPossible: z.boolean(),
  })
  .meta({ id: "OwnerChangeOnNetwork" });

const summary = z.object({
  action: z.enum(OWNER_ACTIONS),
  owner: ownerSchema,
  wallet: z.string(),
});

export const preparedSchema = z
  .object({
    success: z.literal(true),
    ownerChangeId: z.string(),
    status,
    ...signingFields,
    chainId: documentedAs(z.int().nullable(), {
      type: ["integer", "null"],
      description: "null when the signature is for every network: the hash then leaves out the chain id",
    }),
    summary,
    networks: z.array(ofNetwork),
  })
  .meta({ id: "PreparedOwnerChange" });

export const changeSchema = z
  .object({
    ownerChangeId: z.string(),
    status: status.describe(
      "The status on the network that is furthest behind, not counting those that wait for deployment",
    ),
    userOpHash: z.string().describe("The hash that the passkey signs"),
    ...summary.shape,
    networks: z.array(ofNetwork),
    createdAt: isoTime,
    expiresAt: isoTime,
  })
  .meta({ id: "OwnerChange" });

export const confirmedSchema = changeSchema.extend({
  success: z.literal(true),
  statusUrl: z.string(),
});

/** What our rows add to an owner read from the chain. */
export type OwnerNames = { passkeys: ReadonlyMap<Hex, Passkey>; addresses: ReadonlyMap<Hex, string> };

export function presentOwner(
  owner: Hex,
  { passkeys, addresses }: OwnerNames,
): z.infer<typeof summary>["owner"] {
  const address = addressOfOwner(owner);
  const passkey = passkeys.get(owner);
  return {
    ownerId: ownerIdOf(owner),
    type: address ? "address" : "passkey",
    credentialId: passkey?.id ?? null,
    address: address ?? null,
    name: (address ? addresses.get(owner) : passkey?.name) ?? null,
  };
}

export function presentPrepared(
  change: ChangeView,
  config: Pick<ApiConfig, "passkey">,
  { transports, names }: { transports: Transports; names: OwnerNames },
): z.infer<typeof preparedSchema> {
  const { first } = change;
  const hash = signedHashOf(change);
  const signing = presentSigning(first, config, transports);
  const challenge = Buffer.from(hash.slice(2), "hex").toString("base64url");
  return {
    success: true,
    ownerChangeId: change.id,
    status: statusOfChange(change),
    ...signing,
    userOpHash: hash,
    passkeyChallenge: { ...signing.passkeyChallenge, challenge },
    entryPoint: CONTRACTS.entryPointV06,
    chainId: first.isAnyChain ? null : NETWORKS[first.network].chainId,
    summary: presentSummary(change, names),
    networks: change.operations.map(presentNetwork),
  };
}

export function presentChange(change: ChangeView, names: OwnerNames): z.infer<typeof changeSchema> {
  return {
    ownerChangeId: change.id,
    status: statusOfChange(change),
    userOpHash: signedHashOf(change),
    ...presentSummary(change, names),
    networks: change.operations.map(presentNetwork),
    createdAt: change.createdAt.toISOString(),
    expiresAt: change.first.expiresAt.toISOString(),
  };
}

function presentSummary({ action, owner, first }: ChangeView, names: OwnerNames) {
  return { action, owner: presentOwner(owner, names), wallet: first.walletAddress };
}

function presentNetwork(operation: OperationView): z.infer<typeof ofNetwork> {
  const state = statusOf(operation);
  return {
    network: operation.network,
    status: state,
    userOpHash: operation.userOpHash,
    waitsForDeployment: waitsForDeployment(operation),
    transactionHash: operation.txHash,
    blockNumber: operation.blockNumber === null ? null : Number(operation.blockNumber),
    reason: operation.reason,
    stillPossible: isStillPossible({ state, isNonceSpent: operation.isNonceSpent }),
  };
}
