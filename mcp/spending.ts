/** How much the caller's key may still spend, in micro-USDC. Whatever was signed counts as spent, because a signature cannot be taken back. */
export type Limits = { perCallUnits: bigint; perSessionUnits: bigint };

export type Spending = {
  readonly leftUnits: bigint;
  /** What a call that may spend `wantedUnits` is allowed: less when a limit is lower. */
  allowed: (wantedUnits: bigint) => bigint;
  spend: (units: bigint) => void;
};

export function openSpending({ perCallUnits, perSessionUnits }: Limits): Spending {
  let leftUnits = perSessionUnits;
  return {
    get leftUnits() {
      return leftUnits;
    },
    allowed: (wantedUnits) => [wantedUnits, perCallUnits, leftUnits].reduce((a, b) => (a < b ? a : b)),
    spend(units) {
      leftUnits -= units;
    },
  };
}
