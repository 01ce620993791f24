/** How often the chain is read, by what waits and by how full its blooms are. */
import { expect, test } from "bun:test";
import type { Waiting } from "../../db/ledger/watched-wallets.ts";
import { openPollInterval, type PollInterval } from "../../indexer/follow/poll-interval.ts";
import type { BlockHeader } from "../../indexer/source/block-header.ts";

const NOTHING: Waiting = {
  ...{ wallets: false, payments: false, facilitated: false, claims: false, released: false },
  ...{ transfers: false, operations: false, links: false, watches: false, epoch: 1n },
};
const REASONS = ["payments", "facilitated", "claims", "released", "transfers", "operations"] as const;

/** A header whose bloom has this share of its bits set. */
function headOf(density: number): BlockHeader {
  const full = Math.round(512 * density);
  return { bloom: `0x${"f".repeat(full)}${"0".repeat(512 - full)}`, isHashProven: true } as BlockHeader;
}

function pollIntervalOn(density: number, waiting: Partial<Waiting> = {}, isAnnounced = false): PollInterval {
  const pollInterval = openPollInterval();
  pollInterval.noteHead(headOf(density));
  pollInterval.note({ ...NOTHING, ...waiting }, isAnnounced);
  return pollInterval;
}

test("several blocks are read together only where blooms are full", () => {
  expect(pollIntervalOn(0.31).isEconomical()).toBe(true);
  expect(pollIntervalOn(0.29).isEconomical()).toBe(false);
  expect(openPollInterval().isEconomical()).toBe(false);
  const ofUnknownForm = openPollInterval();
  ofUnknownForm.noteHead({ ...headOf(0), isHashProven: false });
  ofUnknownForm.note(NOTHING, false);
  expect(ofUnknownForm.isEconomical()).toBe(true);
});

test.each(REASONS)("every block is read while there are waiting %s, and for a while after", (reason) => {
  const pollInterval = pollIntervalOn(1, { [reason]: true });
  expect(pollInterval.isEconomical()).toBe(false);
  pollInterval.note(NOTHING, true);
  expect(pollInterval.isEconomical()).toBe(false);
});

test("an open link only changes the interval; while one is viewed, every block is read unless transfers are announced", () => {
  expect(pollIntervalOn(1, { links: true }).isEconomical()).toBe(true);
  expect(pollIntervalOn(1, { links: true, watches: true }, true).isEconomical()).toBe(true);
  expect(pollIntervalOn(1, { links: true, watches: true }, false).isEconomical()).toBe(false);
});

test("an announced block is read immediately, until the cursor has reached it", () => {
  const pollInterval = pollIntervalOn(1);
  pollInterval.begin(100);
  expect(pollInterval.isDue(100)).toBe(false);
  pollInterval.expect(102);
  expect(pollInterval.isDue(101)).toBe(true);
  expect(pollInterval.begin(101)).toBe(true);
  expect(pollInterval.isDue(101)).toBe(true);
  expect(pollInterval.isDue(102)).toBe(false);
});

test("a failed poll is repeated immediately", () => {
  const pollInterval = pollIntervalOn(1);
  pollInterval.begin(100);
  pollInterval.readNow();
  expect(pollInterval.isDue(100)).toBe(true);
  pollInterval.begin(100);
  expect(pollInterval.isDue(100)).toBe(false);
});

test("blooms that differ from block to block do not switch the poll interval each time", () => {
  const pollInterval = pollIntervalOn(0.5);
  for (let block = 0; block < 50; block++) {
    pollInterval.noteHead(headOf(block % 2 === 0 ? 0.05 : 0.5));
    pollInterval.note(NOTHING, false);
    expect(pollInterval.isEconomical()).toBe(true);
  }
  for (let block = 0; block < 50; block++) pollInterval.noteHead(headOf(0.05));
  pollInterval.note(NOTHING, false);
  expect(pollInterval.isEconomical()).toBe(false);
});
