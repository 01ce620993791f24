/** The place of a log as a key: its block and its index in it. */
export function placeOfSeen({ block, logIndex }: { block: { hash: string }; logIndex: number }): string {
  return placeOf({ blockHash: block.hash, logIndex });
}

export function placeOf(log: { blockHash: string; logIndex: number }): string {
  return `${log.blockHash}:${log.logIndex}`;
}
