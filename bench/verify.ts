/** ERC-3009 signatures verified and relays signed per second by one thread: ours beside noble and viem. */
import { bytesToHex, hashTypedData, recoverTypedDataAddress, verifyTypedData } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { authorizationDigest, tokenDomainOf } from "../core/chain/authorization-digest.ts";
import { recoverPayer } from "../core/chain/recover-payer.ts";
import { findNativeSecp256k1, nobleSecp256k1, secp256k1 } from "../core/chain/secp256k1.ts";
import { signRelay } from "../core/chain/sign-relay.ts";
import type { Authorization } from "../core/domain/authorization.ts";
import { type Hex, NETWORKS } from "../core/domain/networks.ts";
import { TRANSFER_TYPES } from "../tests/support/payer.ts";
import { describeMachine, printTable, type Row } from "./report.ts";

type Signed = { readonly authorization: Authorization; readonly signature: Hex };
type Contender = {
  readonly what: string;
  /** One operation; throws on a wrong result, so that no rate of a broken implementation is reported. */
  readonly once: (signed: Signed) => void | Promise<void>;
};

const NETWORK = NETWORKS["base-sepolia"];
const SAMPLES = 20;
const ROUNDS = 5;
const ROUND_MS = 600;
const WARM_UP_MS = 150;
const domain = tokenDomainOf(NETWORK);

export async function run(): Promise<void> {
  const samples = await signSamples();
  const rows: Row[] = [];
  for (const contender of contenders()) rows.push(await measure(contender, samples));
  console.log(describeMachine());
  for (const row of rows) console.log(JSON.stringify(row));
  printTable(rows);
}

function contenders(): Contender[] {
  const key = generatePrivateKey();
  const account = privateKeyToAccount(key);
  const relay = {
    chainId: NETWORK.chainId,
    nonce: 7,
    to: NETWORK.usdc.address,
    data: `0xe3ee160e${"ab".repeat(288)}` as Hex,
    gas: 150_000n,
    maxFeePerGas: 1_000_000_000n,
    maxPriorityFeePerGas: 1_000_000n,
  };
  const recoverWith = (engine: typeof secp256k1) => (one: Signed) => {
    expectEqual(recoverPayer(domain, one.authorization, one.signature, engine), one.authorization.from);
  };
  return [
    {
      what: `verify: ours (${secp256k1.name}, hash-wasm)`,
      once: recoverWith(findNativeSecp256k1() ?? nobleSecp256k1),
    },
    { what: "verify: ours on noble (hash-wasm)", once: recoverWith(nobleSecp256k1) },
    {
      what: "verify: viem recoverTypedDataAddress",
      once: async ({ authorization, signature }) => {
        const signer = await recoverTypedDataAddress({ ...typedData(authorization), signature });
        expectEqual(signer.toLowerCase(), authorization.from);
      },
    },
    {
      what: "verify: viem verifyTypedData",
      once: async ({ authorization, signature }) => {
        const address = authorization.from;
        expectEqual(await verifyTypedData({ ...typedData(authorization), address, signature }), true);
      },
    },
    { what: "digest: ours", once: ({ authorization }) => void authorizationDigest(domain, authorization) },
    {
      what: "digest: viem hashTypedData",
      once: ({ authorization }) => void hashTypedData(typedData(authorization)),
    },
    { what: `sign a relay: ours (${secp256k1.name})`, once: () => void signRelay(key, relay) },
    {
      what: "sign a relay: viem signTransaction",
      once: async () => void (await account.signTransaction({ type: "eip1559", value: 0n, ...relay })),
    },
  ];
}

/** Median of the rounds, by wall clock and by this process's CPU time (unaffected by other load). */
async function measure({ what, once }: Contender, samples: readonly Signed[]): Promise<Row> {
  await runFor(WARM_UP_MS, once, samples);
  const rounds: { perSecond: number; perCpuSecond: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const cpu = process.cpuUsage();
    const startedMs = performance.now();
    const count = await runFor(ROUND_MS, once, samples);
    const { user, system } = process.cpuUsage(cpu);
    rounds.push({
      perSecond: (count / (performance.now() - startedMs)) * 1_000,
      perCpuSecond: (count / (user + system)) * 1_000_000,
    });
  }
  const perSecond = rounds.map((one) => one.perSecond).toSorted((a, b) => a - b);
  const perCpuSecond = rounds.map((one) => one.perCpuSecond).toSorted((a, b) => a - b);
  const middle = Math.floor(ROUNDS / 2);
  return {
    bench: "verify",
    what,
    "per second": Math.round(perSecond[middle] ?? 0),
    slowest: Math.round(perSecond[0] ?? 0),
    fastest: Math.round(perSecond.at(-1) ?? 0),
    "per CPU second": Math.round(perCpuSecond[middle] ?? 0),
  };
}

async function runFor(ms: number, once: Contender["once"], samples: readonly Signed[]): Promise<number> {
  const untilMs = performance.now() + ms;
  let count = 0;
  while (performance.now() < untilMs) {
    for (const sample of samples) {
      const pending = once(sample);
      if (pending) await pending;
      count++;
    }
  }
  return count;
}

function signSamples(): Promise<Signed[]> {
  return Promise.all(
    Array.from({ length: SAMPLES }, async () => {
      const payer = privateKeyToAccount(generatePrivateKey());
      const authorization: Authorization = {
        from: payer.address.toLowerCase() as Hex,
        to: bytesToHex(crypto.getRandomValues(new Uint8Array(20))),
        value: 25_000_000n,
        validAfter: 0n,
        validBefore: 2_000_000_000n,
        nonce: bytesToHex(crypto.getRandomValues(new Uint8Array(32))),
      };
      return { authorization, signature: await payer.signTypedData(typedData(authorization)) };
    }),
  );
}

function typedData(message: Authorization) {
  return { domain, types: TRANSFER_TYPES, primaryType: "TransferWithAuthorization", message } as const;
}

function expectEqual(got: unknown, expected: unknown): void {
  if (got !== expected) throw new Error(`a contender answered ${got}, expected ${expected}`);
}
