/**
 * How often events may cause a read. An account has 1,000 calls and 100 balance reads per hour: a burst is read immediately, and in a busy
 * hour reads are spaced out, which leaves calls for the person's own actions.
 */
type Budget = { left: number; countedAtMs: number; burst: number; everyMs: number };

const BALANCE = "/v1/wallets/balance";
const budgets = {
  balance: openBudget({ burst: 10, everyMs: 60_000 }),
  others: openBudget({ burst: 60, everyMs: 5_000 }),
};

function openBudget(given: { burst: number; everyMs: number }): Budget {
  return { ...given, left: given.burst, countedAtMs: Date.now() };
}

/** Takes a read of this path from the budget: 0, or the time in ms until one is available. */
export function takeReread(path: string): number {
  const budget = path.startsWith(BALANCE) ? budgets.balance : budgets.others;
  const now = Date.now();
  const earned = Math.floor((now - budget.countedAtMs) / budget.everyMs);
  budget.left = Math.min(budget.burst, budget.left + earned);
  budget.countedAtMs += earned * budget.everyMs;
  if (budget.left === 0) return budget.countedAtMs + budget.everyMs - now;
  budget.left -= 1;
  return 0;
}
