/**
 * The transaction that signs: what is chosen, its nonce, its budgets and its signed bytes are one commit. A local key signs inside it. A
 * remote signer takes up to seconds and may fail, and no database transaction waits for a network, so there the transaction runs twice:
 *
 *   dry run: choose, take the nonce, build the content -> roll back --> the signer signs it, outside --> run again: the very same content
 *   is committed with its bytes; any other content (a link was paid, another worker took the nonce) is rolled back and signed in its turn
 *
 * Bytes that are not committed never leave this function, so a nonce may be signed for several contents, but only committed bytes are sent.
 * A worker that dies in between leaves neither a nonce nor a row behind.
 */
import { SignerError, signRemotely } from "../../core/chain/remote-signer.ts";
import { prepareRelay, type RelayTransaction } from "../../core/chain/sign-relay.ts";
import type { Hex } from "../../core/domain/networks.ts";
import type { Tx } from "../../db/postgres/client.ts";
import type { LocalKey, RelayerKey, RemoteKey } from "../relayer-keys-env.ts";
import type { RelayNetwork } from "./relay-network.ts";
import { isPaused, noteSigned, noteSignerFailure } from "./signer-failures.ts";

/** Maximum number of different contents signed in a row before the caller must retry later. */
const CONTENTS_MAX = 4;

type Signed = { raw: Hex; hash: Hex };
/** What signs within a transaction. `sign` throws what only `signAndCommit` may catch: let it pass. */
export type SigningKey = LocalKey | { address: Hex; sign(transaction: RelayTransaction): Signed };

type Work<T> = (tx: Tx, key: SigningKey) => Promise<T>;
/** `afterSigning`: runs each time a remote signer has signed, outside of any transaction, before `work` runs again. */
type Steps = { afterSigning?: () => Promise<unknown> };

/** Throws SignerError, and whatever `work` throws; then nothing is stored. `work` may run several times, each time in a transaction of its own. */
export async function signAndCommit<T>(
  network: RelayNetwork,
  key: RelayerKey,
  work: Work<T>,
  steps: Steps = {},
): Promise<T> {
  if ("privateKey" in key) return network.deps.sql.begin((tx) => work(tx, key)) as Promise<T>;
  return inTurn(`${network.chain.network.id} ${key.address}`, () =>
    dryRunAndCommit(network, key, work, steps),
  );
}

class UnsignedError extends Error {
  readonly digest: string;
  readonly transaction: RelayTransaction;
  constructor(digest: string, transaction: RelayTransaction) {
    super("this content is not signed yet");
    this.digest = digest;
    this.transaction = transaction;
  }
}

async function dryRunAndCommit<T>(
  network: RelayNetwork,
  key: RemoteKey,
  work: Work<T>,
  { afterSigning }: Steps,
): Promise<T> {
  const signatures = new Map<string, Signed>();
  const sign = (transaction: RelayTransaction) => {
    const digest = Buffer.from(prepareRelay(transaction, () => key.address).digest).toString("hex");
    const signed = signatures.get(digest);
    if (!signed) throw new UnsignedError(digest, transaction);
    return signed;
  };
  for (;;) {
    try {
      return (await network.deps.sql.begin((tx) => work(tx, { address: key.address, sign }))) as T;
    } catch (error) {
      if (!(error instanceof UnsignedError)) throw error;
      if (signatures.size >= CONTENTS_MAX)
        throw new SignerError(
          "not-ready",
          `the content to sign changed ${CONTENTS_MAX} times while it was being signed`,
        );
      signatures.set(error.digest, await askSigner(network, key, error.transaction));
      await afterSigning?.();
    }
  }
}

async function askSigner(
  { chain, metrics, deps }: RelayNetwork,
  key: RemoteKey,
  transaction: RelayTransaction,
): Promise<Signed> {
  if (isPaused(key)) throw new SignerError("unreachable", "the signer failed a moment ago");
  const label = { network: chain.network.id, relayer: key.address };
  const startedMs = performance.now();
  try {
    const signed = await signRemotely(key, transaction);
    noteSigned(key);
    metrics.signSeconds.observe(label, (performance.now() - startedMs) / 1000);
    return signed;
  } catch (error) {
    noteSignerFailure(key);
    metrics.signFailures.inc({ ...label, kind: error instanceof SignerError ? error.kind : "refused" });
    deps.log.error({ ...label, err: error }, "the remote signer did not sign");
    throw error;
  }
}

const turns = new Map<string, Promise<unknown>>();

/** Serialised: two concurrent signings for one lane would use the same nonce, and one would be wasted. */
function inTurn<T>(lane: string, work: () => Promise<T>): Promise<T> {
  const before = turns.get(lane) ?? Promise.resolve();
  const mine = before.then(work);
  turns.set(
    lane,
    mine.catch(() => undefined),
  );
  return mine;
}
