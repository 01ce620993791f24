/**
 * Judges the hostile campaign's ledger by the chain and by the record of what each payer did, never by the service's own account:
 * a link's money came from a payer who showed evidence for it, or the link was the only one the transfer could have paid.
 */
import { privateKeyToAccount } from "viem/accounts";
import { localRelayerKeys } from "../../local/chain/accounts.ts";
import { type Case, openCase, type Paid, placeOf } from "./hostile-case.ts";
import type { HostileLink, Stage } from "./hostile-stage.ts";

/** Of the half of a nonce that may be a tag. */
const TAG_DIGITS = 32;
/** Block times are whole seconds; cancellations and blocks are on different clocks. */
const STAMP_MS = 1_000;
const CANCEL_GRAY_MS = 2_000;
/** A relay signed this long after a block ignored a transfer in it: the block's second, the three that a head counts for, and one of grace. */
const FENCE_MS = 5_000;

export type HostileVerdict = {
  links: Record<string, number>;
  settledBy: Record<string, number>;
  exceptions: Record<string, number>;
  /** Mined transfers by way of paying, and those that pay the intended link. */
  ways: Record<string, string>;
  /** Money without a link: with candidates, and merely received. */
  candidates: number;
  received: number;
  /** Links paid by the only money that could pay them, though its payer intended another one. */
  onlyCandidate: number;
  toldSettled: number;
  /** Relayed to an already paid link, by a block that came while the relay was being signed: marked DUPLICATE. */
  chargedInRace: number;
  /** Answered "settled" though another payment pays the link: second in a race, or by a third party's transaction. Marked DUPLICATE. */
  toldDuplicate: number;
  /** Links paid through an attacker's uncontested early claim. */
  unopposed: number;
  broken: string[];
};

export async function judgeHostility(
  stage: Stage,
  links: readonly HostileLink[],
  options: { isUnopposed: boolean },
): Promise<HostileVerdict> {
  const given = await openCase(stage, links);
  const { rows, paid, booked } = given;
  const evidence = judgePayingTransfers(stage, given, options);
  const races = judgeRaces(given);
  const answers = judgeAnswers(stage, given, races.inRace);
  const settled = paid.map((one) => ({ one, row: booked.get(placeOf(one)) }));
  return {
    links: countBy([...rows.values()], ({ status }) => status),
    settledBy: countBy([...rows.values()], ({ settledBy }) => settledBy ?? "nothing"),
    exceptions: countBy([...rows.values()], ({ exception }) => exception),
    ways: countWays(given),
    candidates: settled.filter(({ row }) => row?.candidates).length,
    received: settled.filter(({ row }) => row && !row.linkId && !row.candidates).length,
    onlyCandidate: evidence.onlyCandidate,
    toldSettled: stage.deeds.filter(({ toldSettled }) => toldSettled).length,
    chargedInRace: races.inRace.size,
    toldDuplicate: answers.duplicates,
    unopposed: evidence.unopposed,
    broken: [
      ...evidence.broken,
      ...races.broken,
      ...judgeEvidence(given),
      ...answers.broken,
      ...judgePayers(given),
      ...stage.wrong,
    ],
  };
}

/** Whether each paying transfer belongs to its link, by the sender's own evidence or because no other link fitted. */
function judgePayingTransfers(stage: Stage, given: Case, { isUnopposed }: { isUnopposed: boolean }) {
  const broken: string[] = [];
  let [onlyCandidate, unopposed] = [0, 0];
  for (const [linkId, transfer] of given.paying) {
    const link = given.links.get(linkId);
    if (!link) continue;
    if (showsMeaning(stage, link, transfer)) continue;
    if (isOnlyCandidate(given, link, transfer)) {
      if (transfer.deed && transfer.deed.linkId !== linkId) onlyCandidate += 1;
      continue;
    }
    const wasClaimed = stage.thefts.some((one) => one.linkId === linkId && one.txHash === transfer.txHash);
    if (wasClaimed && isUnopposed && transfer.deed?.way === "plain") {
      unopposed += 1;
      continue;
    }
    const { settledBy } = given.rows.get(linkId) ?? {};
    broken.push(
      `link ${linkId} is paid (${settledBy}) by ${placeOf(transfer)}, ${transfer.deed?.way} meant for ${transfer.deed?.linkId}`,
    );
  }
  return { broken, onlyCandidate, unopposed };
}

/** Evidence of the sender for this link: on the chain, presented to us before its block, or signed. */
function showsMeaning({ thefts }: Stage, link: HostileLink, transfer: Paid): boolean {
  const { deed, nonce, tag, sender, blockTimeS } = transfer;
  if (nonce?.slice(0, 2 + TAG_DIGITS) === link.tag || tag === link.tag) return true;
  if (!deed || deed.linkId !== link.id) return false;
  const endOfSecondMs = blockTimeS * 1000 + STAMP_MS;
  if (nonce !== undefined && deed.shownAtMs !== undefined)
    if (RELAYERS.has(sender) || deed.shownAtMs <= endOfSecondMs) return true;
  if (deed.provenAtMs !== undefined) return true;
  const isContested = thefts.some(
    (theft) =>
      theft.txHash === transfer.txHash &&
      theft.linkId !== link.id &&
      theft.status === 200 &&
      theft.answeredAtMs < blockTimeS * 1000,
  );
  return deed.claimedAtMs !== undefined && !isContested;
}

const RELAYERS = new Set(localRelayerKeys().map((key) => privateKeyToAccount(key).address.toLowerCase()));

/** Links of the group that asked for this value at its block and had not been paid by an earlier transfer. */
function isOnlyCandidate(given: Case, link: HostileLink, transfer: Paid): boolean {
  const blockTimeMs = transfer.blockTimeS * 1000;
  const others = [...given.links.values()].filter((other) => {
    if (other.id === link.id || other.group !== link.group || !asksFor(other, transfer)) return false;
    const isOver = other.cancelled !== undefined && other.cancelled.fromMs < blockTimeMs + CANCEL_GRAY_MS;
    const paying = given.paying.get(other.id);
    return !isOver && !(paying && isEarlier(paying, transfer));
  });
  const isOpen = link.cancelled === undefined || link.cancelled.toMs > blockTimeMs - CANCEL_GRAY_MS;
  return others.length === 0 && isOpen && asksFor(link, transfer);
}

function asksFor(link: HostileLink, { to, amountUnits }: Paid): boolean {
  return link.wallet === to && (link.amountUnits === amountUnits || link.payAmountUnits === amountUnits);
}

function isEarlier(one: Paid, other: Paid): boolean {
  return one.blockNumber < other.blockNumber
    ? true
    : one.blockNumber === other.blockNumber && one.logIndex < other.logIndex;
}

/** A transfer with certain evidence is attributed to its link, and pays it unless another does; a second one is marked. */
function judgeEvidence({ paid, booked, rows, paying, links }: Case): string[] {
  return paid.flatMap((transfer) => {
    const { deed, nonce, tag, sender } = transfer;
    const link = deed && links.get(deed.linkId);
    const row = booked.get(placeOf(transfer));
    if (!deed || !link || !row) return [`${placeOf(transfer)} is in no ledger, or nobody's`];
    const isTagged = nonce?.slice(0, 2 + TAG_DIGITS) === link.tag || tag === link.tag;
    const isRelayed = RELAYERS.has(sender);
    if (!isTagged && !isRelayed && deed.provenAtMs === undefined) return [];
    const { status, exception } = rows.get(link.id) ?? {};
    const what = `${placeOf(transfer)} (${deed.way}) of ${link.id} ${status} ${exception}`;
    if (row.linkId !== link.id) return [`${what}: booked to ${row.linkId}`];
    if (link.cancelled) return row.pays ? [`${what}: pays a cancelled link`] : [];
    if (!paying.has(link.id)) return [`${what}: its link is not paid`];
    if (!row.pays && exception !== "DUPLICATE") return [`${what}: a second payment that is not marked`];
    return [];
  });
}

/** A payer who got "settled" has paid the link with this transaction; or came second without a relay that could have known, and the link shows it. */
function judgeAnswers({ deeds, thefts }: Stage, { booked, paid, rows }: Case, inRace: ReadonlySet<Paid>) {
  const broken = thefts.flatMap(({ linkId, paidWithNonce }) => {
    const transfer = paid.find(({ nonce }) => nonce !== undefined && nonce === paidWithNonce);
    const row = transfer && booked.get(placeOf(transfer));
    const isTrue = row?.linkId === linkId && row.pays;
    return paidWithNonce && !isTrue
      ? [`a thief was answered that ${linkId} is paid by ${paidWithNonce}`]
      : [];
  });
  let duplicates = 0;
  for (const deed of deeds) {
    if (deed.toldSettled === undefined) continue;
    const transfer = paid.find((one) => one.deed === deed);
    const row = transfer && booked.get(placeOf(transfer));
    const { status, exception } = rows.get(deed.linkId) ?? {};
    const isItsOwn = transfer?.txHash === deed.toldSettled && row?.linkId === deed.linkId;
    if (isItsOwn && status === "PAID" && row.pays) continue;
    const isOthersDoing = transfer !== undefined && (inRace.has(transfer) || !RELAYERS.has(transfer.sender));
    if (isItsOwn && status === "PAID" && exception === "DUPLICATE" && isOthersDoing) duplicates += 1;
    else
      broken.push(
        `${deed.payer} was answered that ${deed.linkId} (${status} ${exception}) is paid by ${deed.toldSettled}: ${JSON.stringify(row)}`,
      );
  }
  return { broken, duplicates };
}

/** No payer is charged twice, whatever the responses in between. */
function judgePayers({ paid }: Case): string[] {
  const counts = countBy(paid, ({ from }) => from);
  return Object.entries(counts).flatMap(([from, count]) =>
    count > 1 ? [`${from} was charged ${count} times`] : [],
  );
}

/** No relay of ours charges a payer for a link whose payment could be known when it was signed. */
function judgeRaces({ paid, booked, signedAtMs }: Case) {
  const broken: string[] = [];
  const inRace = new Set<Paid>();
  const byLink = Map.groupBy(paid, (one) => booked.get(placeOf(one))?.linkId ?? "");
  for (const relayed of paid) {
    const signedMs = RELAYERS.has(relayed.sender) ? signedAtMs.get(relayed.txHash) : undefined;
    const row = booked.get(placeOf(relayed));
    if (signedMs === undefined || !row?.linkId) continue;
    for (const other of byLink.get(row.linkId) ?? []) {
      if (other === relayed) continue;
      const knownMs = Math.max(other.blockTimeS * 1000, other.deed?.provenAtMs ?? 0);
      const isKnown = knownMs + FENCE_MS < signedMs || RELAYERS.has(other.sender);
      if (isKnown)
        broken.push(
          `${relayed.from} was charged for ${row.linkId} by a relay of ${signedMs}, ${signedMs - knownMs} ms after ${other.deed?.way} ${placeOf(other)} had paid it`,
        );
      else if (!row.pays) inRace.add(relayed);
    }
  }
  return { broken, inRace };
}

function countWays({ paid, booked }: Case): Record<string, string> {
  const all = countBy(paid, ({ deed }) => deed?.way ?? "?");
  const good = countBy(
    paid.filter((one) => {
      const row = booked.get(placeOf(one));
      return row?.pays && row.linkId === one.deed?.linkId;
    }),
    ({ deed }) => deed?.way ?? "?",
  );
  return Object.fromEntries(
    Object.entries(all).map(([way, count]) => [way, `${good[way] ?? 0} of ${count}`]),
  );
}

function countBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const item of items) counts[keyOf(item)] = (counts[keyOf(item)] ?? 0) + 1;
  return counts;
}
